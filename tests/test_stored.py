import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from larc import LarcError
from larc.files import write_whole
from larc.stored import load_state, pack_state, save_state, unpack_state

CONTENT = pack_state("note", {"x": torch.arange(6.0).reshape(2, 3), "y": torch.ones(1)}, {"a": 1})


def test_the_same_state_is_the_same_bytes():
    again = {"y": torch.ones(1), "x": torch.arange(6.0).reshape(2, 3)}
    assert all(pack_state("note", again, {"a": 1}) == CONTENT for _ in range(20))


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_no_flipped_byte_goes_unnoticed(place, change):
    damaged = bytearray(CONTENT)
    damaged[place] ^= change
    with pytest.raises(LarcError):
        unpack_state(bytes(damaged), "note")


@given(st.binary(max_size=200) | st.integers(0, len(CONTENT) - 1).map(lambda n: CONTENT[:n]))
@settings(max_examples=200, deadline=None)
def test_anything_else_is_refused_in_one_sentence(content):
    with pytest.raises(LarcError) as caught:
        unpack_state(content, "note")
    assert "\n" not in str(caught.value)


def test_another_kind_is_refused(tmp_path):
    save_state(tmp_path / "a", "note", {"x": torch.ones(1)}, None)
    with pytest.raises(LarcError, match="is not a letter"):
        load_state(tmp_path / "a", "letter")
    with pytest.raises(LarcError, match="could not be read"):
        load_state(tmp_path, "note")


def test_a_failed_write_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LarcError, match="No space left on device"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [child.name for child in tmp_path.iterdir()] == ["file"]
