from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc import LarcError
from larc.settings import as_values, build, read_yaml, setting


@dataclass(frozen=True)
class Example:
    count: int = setting(1, "A count.")
    rate: float = setting(0.5, "A rate.")
    on: bool = setting(False, "A switch.")
    seeds: tuple[int, ...] = setting((1, 2), "Seeds.")
    mode: Literal["a", "b"] = setting("a", "A mode.")
    name: str = setting("", "A name.")
    limit: int | None = setting(None, "A limit, if any.")


@given(
    st.builds(
        Example,
        count=st.integers(),
        rate=st.floats(allow_nan=False, allow_infinity=False),
        on=st.booleans(),
        seeds=st.lists(st.integers()).map(tuple),
        mode=st.sampled_from(["a", "b"]),
        name=st.text(),
        limit=st.none() | st.integers(),
    )
)
def test_saved_settings_make_the_same_settings(example):
    assert build(Example, as_values(example)) == example


def test_texts_of_the_command_line_are_converted():
    given_values = {"count": "3", "rate": "1e-3", "on": "yes", "seeds": "5,6", "limit": "7"}
    assert build(Example, given_values) == Example(3, 1e-3, True, (5, 6), "a", "", 7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, "did you mean 'count'?"),
        ({"zzz": 1}, "there are: count, rate"),
        ({"count": 1.5}, "a whole number"),
        ({"count": True}, "a whole number"),
        ({"rate": "fast"}, "a finite number"),
        ({"on": "maybe"}, "yes or no"),
        ({"seeds": "1,x"}, "separated by commas"),
        ({"mode": "c"}, "one of a, b"),
        ({"name": 3}, "a text"),
        ({"limit": "x"}, "a whole number"),
    ],
)
def test_wrong_settings_are_named(values, message):
    with pytest.raises(LarcError, match=message.replace("?", r"\?")):
        build(Example, values)


def test_yaml_that_holds_no_settings_is_refused(tmp_path):
    path = tmp_path / "s.yaml"
    for content in ("- a\n- b\n", "{", "\xff"):
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(LarcError):
            read_yaml(path)
    with pytest.raises(LarcError):
        read_yaml(tmp_path / "missing.yaml")
