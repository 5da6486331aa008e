"""What a public function is given, checked where it comes in: one sentence for each refusal."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from larc.errors import LarcError


def whole_number(value: Any, name: str, least: int = 0, most: float = 2**63 - 1) -> int:
    """Return a whole number, refusing anything else, truth values and fractions included.

    Examples
    --------
    >>> whole_number(4, "rank", least=1)
    4
    >>> whole_number(1.5, "updates")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: updates is 1.5; give a whole number, 0 or more.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is not None and number > most:
        raise LarcError(f"{name} is {shown(value)}, which is too large to count to.")
    if number is None or number < least:
        raise LarcError(f"{name} is {shown(value)}; give a whole number, {least} or more.")
    return number


def number(
    value: Any, name: str, *, above: float | None = None, least: float | None = None
) -> float:
    """Return a finite number, refusing anything else, truth values included.

    Examples
    --------
    >>> number(0.1, "step_size", above=0)
    0.1
    >>> number(True, "step_size", above=0)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: step_size is True; give a finite number above 0.
    """
    bound = f" above {above}" if above is not None else ""
    bound = f", {least} or more" if least is not None else bound
    try:
        good = not isinstance(value, bool | str | bytes)
        made = float(value) if good else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):
        made = math.nan
    good = math.isfinite(made) and (above is None or made > above)
    if not good or (least is not None and made < least):
        raise LarcError(f"{name} is {shown(value)}; give a finite number{bound}.")
    return made


def text(value: Any, name: str) -> str:
    r"""Return a text, refusing anything else, and half of a surrogate pair in it.

    Examples
    --------
    >>> text(b"Which?", "the prompt")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the prompt is no text (str) but bytes.
    >>> text("\ud800", "the prompt")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the prompt holds half of a surrogate pair at character 0, which no file
    and no tokenizer can hold; remove it.
    """
    if not isinstance(value, str):
        raise LarcError(f"{name} is no text (str) but {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LarcError(
            f"{name} holds half of a surrogate pair at character {error.start}, which no file and "
            "no tokenizer can hold; remove it."
        ) from None
    return str(value)


def instance(value: Any, name: str, kind: type[Any] | tuple[type[Any], ...]) -> None:
    """Refuse a value of another type.

    Examples
    --------
    >>> instance("tiny", "substrate", dict)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: substrate is 'tiny'; give a dict.
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(one.__name__ for one in kinds)
        raise LarcError(f"{name} is {shown(value)}; give a {names}.")


def listed(values: Any, name: str) -> list[Any]:
    """Return values as a list, refusing a text, a mapping and what has no values.

    Examples
    --------
    >>> listed((1, 2), "the weights")
    [1, 2]
    >>> listed(7, "the weights")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the weights are 7; give a list.
    """
    if not isinstance(values, str | bytes | Mapping):
        try:
            return list(values)
        except TypeError:
            pass
    raise LarcError(f"{name} are {shown(values)}; give a list.")


def tuples(given: Any, names: Sequence[str]) -> list[Any]:
    """Return requests as a list, refusing what is no list of tuples of so many things."""
    try:
        listed = list(given)
    except TypeError:
        listed = [None]
    if isinstance(given, str | bytes | Mapping) or not all(
        isinstance(one, tuple | list) and len(one) == len(names) for one in listed
    ):
        raise LarcError(f"{shown(given)} was given; give a list of ({', '.join(names)}).")
    return listed


def checked_path(path: Any, name: str = "the path") -> Path:
    """Return a path, refusing what can be none.

    Examples
    --------
    >>> checked_path(3)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the path is 3; give a str or Path.
    """
    if not isinstance(path, str | Path) or "\0" in str(path) or not _is_name(str(path)):
        raise LarcError(f"{name} is {shown(path)}; give a str or Path.")
    return Path(path)


def _is_name(path: str) -> bool:
    """Whether a file could have this name: no part of it is too long, nor all of it."""
    try:
        path.encode("utf-8", "surrogateescape")  # as the system does with what is no UTF-8
    except UnicodeEncodeError:
        return False
    size = len(path.encode(errors="replace"))
    return size < 4096 and all(len(part.encode(errors="replace")) < 256 for part in path.split("/"))


def shown(value: Any) -> str:
    """Return a value as it is shown in a sentence: short, on one line, whatever it is.

    Examples
    --------
    >>> shown("x" * 1000)
    "'xxxxxxxxxxxx...xxxxxxxxxxxxx'"
    """
    try:
        return " ".join(reprlib.repr(value).split())
    except Exception:  # a repr of somebody else's may raise anything
        return f"a {type(value).__name__}"
