import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from larc import LarcError
from larc.io.states import load_state, pack_state, save_state, unpack_state

CONTENT = pack_state("note", {"x": torch.arange(6.0).reshape(2, 3), "y": torch.ones(1)}, {"a": 1})


def test_the_same_state_is_the_same_bytes():
    again = {"y": torch.ones(1), "x": torch.arange(6.0).reshape(2, 3)}
    assert all(pack_state("note", again, {"a": 1}) == CONTENT for _ in range(20))


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_no_flipped_byte_goes_unnoticed(index, change):
    damaged = bytearray(CONTENT)
    damaged[index] ^= change
    with pytest.raises(LarcError):
        unpack_state(bytes(damaged), "note")


@given(st.binary(max_size=200) | st.integers(0, len(CONTENT) - 1).map(lambda n: CONTENT[:n]))
@settings(max_examples=200, deadline=None)
def test_anything_else_is_refused_in_one_sentence(content):
    with pytest.raises(LarcError) as caught:
        unpack_state(content, "note")
    assert "\n" not in str(caught.value)


def test_versions_are_upgraded_one_by_one_and_newer_ones_refused():
    upgrades = {1: lambda facts: [*facts, 2], 2: lambda facts: [*facts, 3]}
    for version, facts in ((1, [1, 2, 3]), (2, [1, 3]), (3, [1])):
        content = pack_state(f"note, version {version}", {}, [1])
        assert unpack_state(content, "note, version 3", upgrades=upgrades)[1] == facts
    with pytest.raises(LarcError, match=r"newer larc \(note, version 3; this one reads up to 2\)"):
        unpack_state(pack_state("note, version 3", {}, [1]), "note, version 2", "it", upgrades)
    with pytest.raises(LarcError, match="does not hold what a note does"):
        unpack_state(pack_state("note, version 1", {}, [1]), "note, version 2")
    with pytest.raises(LarcError, match="does not hold what a note does"):
        unpack_state(pack_state("note, version 1", {}, None), "note, version 2", "it", upgrades)


def test_facts_are_saved_as_they_are_read_back():
    content = pack_state("note", {}, {2: "b", 10: ("a", None)})
    assert unpack_state(content, "note")[1] == {"2": "b", "10": ["a", None]}
    with pytest.raises(LarcError, match="cannot be saved as JSON"):
        pack_state("note", {}, {"a": {1, 2}})


def test_another_kind_is_refused(tmp_path):
    save_state(tmp_path / "a", "note", {"x": torch.ones(1)}, None)
    with pytest.raises(LarcError, match="is not a letter"):
        load_state(tmp_path / "a", "letter")
    with pytest.raises(LarcError, match="could not be read"):
        load_state(tmp_path, "note")
