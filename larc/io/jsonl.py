"""JSON lines: one object per line, with every line that is wrong named at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from larc.errors import LarcError
from larc.io.lines import Damaged, TooLong, read_lines

T = TypeVar("T")
_SHOWN = 5
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_objects(path: str | Path, parse: Callable[[Mapping[str, Any], int], T]) -> list[T]:
    r"""Read the objects of a JSONL file, plain or gzip; empty lines are passed over.

    Parameters
    ----------
    path
        The file.
    parse
        Makes something of an object and the number of its line, or raises a `LarcError` that says
        what is wrong with it; all of these are collected into one.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
    >>> _ = path.write_text('{"a": 1}\n\n{"a": 2}')
    >>> read_objects(path, lambda row, number: (number, row["a"]))
    [(1, 1), (3, 2)]
    >>> _ = path.write_text('{"a": 1}\n{"a": 1, "a": 2}\n[]')
    >>> read_objects(path, lambda row, number: row["a"])
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: ...rows.jsonl: line 2: a field is given twice. line 3: it is not an
    object.
    """
    parsed: list[T] = []
    problems: list[str] = []
    number = 0
    try:
        for number, line in enumerate(read_lines(Path(path)), start=1):
            try:
                text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                if text.strip():
                    parsed.append(parse(_object(line, text), number))
            except LarcError as error:
                problems.append(f"line {number}: {error}")
    except Damaged as error:
        problems.append(f"line {number + 1}: the file is damaged from here on ({error}).")
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise LarcError(f"{path}: {' '.join(problems[:_SHOWN])}{more}")
    return parsed


def _object(line: bytes, text: bytes) -> Mapping[str, Any]:
    if isinstance(line, TooLong):
        raise LarcError("it is too long to be one object.")
    try:
        row: Any = json.loads(text, object_pairs_hook=_once)
    except LarcError:
        raise
    except (ValueError, RecursionError):
        raise LarcError("it is not JSON.") from None
    if not isinstance(row, Mapping):
        raise LarcError("it is not an object.")
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise LarcError("a field is given twice.")
    return row


def checked_text(row: Mapping[str, Any], field: str, default: str = "") -> str:
    """Return a field that has to be a text of one character or more."""
    text = row.get(field, default)
    if not isinstance(text, str) or not text or not is_unicode(text):
        raise LarcError(f"{field} is not a text of one character or more.")
    return text


def is_unicode(text: str) -> bool:
    r"""Whether a text can be written: JSON can spell half of a surrogate pair, which no file holds.

    Examples
    --------
    >>> is_unicode("é"), is_unicode(json.loads(r'"\ud800"'))
    (True, False)
    """
    return not any("\ud800" <= character <= "\udfff" for character in text)
