"""Reading anybody's own stream: questions with late labels, one JSON object per line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from larc.ci.lines import Damaged, TooLong, read_lines
from larc.errors import LarcError
from larc.settings import nearest
from larc.stream.items import Item

FIELDS = ("name", "asked", "arrives", "prompt", "candidates", "label", "stream", "group")
NEEDED = ("asked", "arrives", "prompt", "candidates", "label")
ONE_STREAM = "stream"
_SHOWN = 5


def read_events(path: str | Path) -> list[Item]:
    """Read the questions of a JSONL file, plain or gzip, naming every line that is none.

    A line gives when its question is ``asked`` and when its label ``arrives`` (``null`` for never),
    its ``prompt``, its ``candidates``, and the ``label``: the index of the right candidate, or its
    text. ``name`` is the line's number where it is not given, ``group`` the name, and ``stream``
    one for all. Times are numbers throughout a file, or ISO 8601 texts with or without an offset.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "events.jsonl"
    >>> _ = path.write_text('{"asked": 0, "arrives": 60, "prompt": "Tails? ", '
    ...                     '"candidates": ["yes", "no"], "label": "no"}')
    >>> read_events(path)
    [Item(name='1', asked=0.0, arrives=60.0, candidates=('yes', 'no'), label=1, prompt='Tails? ',
          stream='stream', group='1', source=None)]
    """
    items: list[Item] = []
    problems: list[str] = []
    lines: dict[tuple[str, str], int] = {}
    first: tuple[int, str] | None = None  # the first line with times, and what they are
    number = 0
    try:
        for number, line in enumerate(read_lines(Path(path)), start=1):
            if not line.strip():
                continue
            try:
                item, kind = _parsed(line, number)
                first = first or (number, kind)
                if kind != first[1]:
                    raise LarcError(f"its times are {kind}, and line {first[0]} has {first[1]}.")
                other = lines.setdefault((item.stream, item.name), number)
                if other != number:
                    raise LarcError(f"line {other} is called {item.name!r} too.")
                items.append(item)
            except LarcError as error:
                problems.append(f"line {number}: {error}")
    except Damaged as error:
        problems.append(f"line {number + 1}: the file is damaged from here on ({error}).")
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise LarcError(f"{path}: {' '.join(problems[:_SHOWN])}{more}")
    if not items:
        raise LarcError(f"{path} holds no questions; give one JSON object per line.")
    return items


def _parsed(line: bytes, number: int) -> tuple[Item, str]:
    """Return a line's question, and what its times are."""
    if isinstance(line, TooLong):
        raise LarcError("it is too long to be one question.")
    try:
        row: Any = json.loads(line, object_pairs_hook=_once)
    except LarcError:
        raise
    except (ValueError, RecursionError):
        raise LarcError("it is not JSON.") from None
    if not isinstance(row, Mapping):
        raise LarcError("it is not an object with a prompt, candidates and a label.")
    for field in row:
        if field not in FIELDS:
            raise LarcError(f"there is no field {field!r}; {nearest(field, FIELDS)}")
    missing = [field for field in NEEDED if field not in row]
    if missing:
        raise LarcError(f"it has no {', '.join(missing)}.")
    name = _text(row, "name", str(number))
    kind, asked = _time(row["asked"], "asked")
    arrives: float | None = None
    if row["arrives"] is not None:
        other, arrives = _time(row["arrives"], "arrives")
        if other != kind:
            raise LarcError(f"asked is one of {kind}, and arrives one of {other}.")
        if arrives < asked:
            raise LarcError("its label arrives before it is asked.")
    candidates = _candidates(row["candidates"])
    item = Item(
        name=name,
        asked=asked,
        arrives=arrives,
        candidates=candidates,
        label=_label(row["label"], candidates),
        prompt=_text(row, "prompt"),
        stream=_text(row, "stream", ONE_STREAM),
        group=_text(row, "group", name),
    )
    return item, kind


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise LarcError("a field is given twice.")
    return row


def _text(row: Mapping[str, Any], field: str, default: str = "") -> str:
    text = row.get(field, default)
    if not isinstance(text, str) or not text or not _is_unicode(text):
        raise LarcError(f"{field} is not a text of one character or more.")
    return text


def _is_unicode(text: str) -> bool:
    # JSON can spell half of a surrogate pair, which no file can hold.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _candidates(texts: Any) -> tuple[str, ...]:
    if not isinstance(texts, list) or len(texts) < 2:
        raise LarcError("candidates is not a list of two texts or more.")
    if not all(isinstance(text, str) and _is_unicode(text) for text in texts):
        raise LarcError("candidates is not a list of two texts or more.")
    if len(set(texts)) < len(texts) or "" in texts:
        raise LarcError("a candidate is empty or given twice.")
    return tuple(texts)


def _label(label: Any, candidates: tuple[str, ...]) -> int:
    if isinstance(label, str) and label in candidates:
        return candidates.index(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(candidates):
        return label
    raise LarcError(f"label {label!r} is neither a candidate nor the index of one.")


def _time(value: Any, field: str) -> tuple[str, float]:
    """Return what a time is, and the time in seconds or in whatever the numbers count."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise LarcError(f"{field} {value!r} is not an ISO 8601 time.") from None
        if moment.tzinfo is None:
            return "times without an offset", moment.replace(tzinfo=UTC).timestamp()
        return "times with an offset", moment.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LarcError(f"{field} is neither a number nor an ISO 8601 time.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise LarcError(f"{field} is not a finite number.")
    return "numbers", number
