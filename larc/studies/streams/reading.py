"""Reading streams: texts to be decided in order, one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.io.jsonl import checked_text, read_objects
from larc.studies.fields import candidate_texts, moment, optional_label

NEEDED = ("stream", "item_id", "text", "candidates")


@dataclass(frozen=True)
class Item:
    """One text of a stream, what may be decided about it, and what was.

    Attributes
    ----------
    stream, name
        The stream, and what the item is called in it.
    text, candidates, label
        What is shown, what is chosen among, and the index of what was chosen; none where that is
        not known and never will be.
    order
        Its number in the stream, where the file gives it.
    time, arrival
        When it came, and when its label did, where the file gives them.
    line
        The line it was read from.
    """

    stream: str
    name: str
    text: str
    candidates: tuple[str, ...]
    label: int | None = None
    order: int | None = None
    time: float | None = None
    arrival: float | None = None
    line: int = 0


def read_streams(path: str | Path) -> dict[str, tuple[Item, ...]]:
    """Read the streams of a JSONL file, plain or gzip, naming every line that is wrong.

    A line gives its ``stream``, its ``item_id`` there, the ``text``, the ``candidates`` and the
    ``label``: the index of the right candidate, or its text; ``null``, or no such key, where no
    label will come. ``order``, a whole number, or ``time`` says what comes first in a stream;
    ``arrival`` when the label arrived. Times are numbers throughout a file, or ISO 8601 texts
    with or without an offset. Any other key is for your own analysis.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "streams.jsonl"
    >>> _ = path.write_text('{"stream": "shop", "item_id": "a", "order": 0, "text": "Lost card", '
    ...                     '"candidates": ["bank", "shop"], "label": "bank"}')
    >>> read_streams(path)["shop"][0].label
    0
    """
    lines: dict[tuple[str, str], int] = {}
    orders: dict[tuple[str, int], int] = {}
    kinds: dict[str, int] = {}  # what times and orders are, and the first line with them

    def parse(row: Mapping[str, Any], number: int) -> Item:
        item, kind = _parsed(row, number)
        first = next(iter(kinds.items()), (kind, number))
        kinds.setdefault(kind, number)
        if kind != first[0]:
            raise LarcError(f"it has {kind}, and line {first[1]} has {first[0]}.")
        other = lines.setdefault((item.stream, item.name), number)
        if other != number:
            raise LarcError(f"line {other} is called {item.name!r} in {item.stream!r} too.")
        if item.order is not None:
            other = orders.setdefault((item.stream, item.order), number)
            if other != number:
                raise LarcError(f"line {other} has the order {item.order} in {item.stream!r} too.")
        return item

    streams: dict[str, list[Item]] = {}
    for item in read_objects(path, parse):
        streams.setdefault(item.stream, []).append(item)
    if not streams:
        raise LarcError(f"{path} holds no streams; give one JSON object per line.")
    ordered = {name: tuple(sorted(items, key=_key)) for name, items in sorted(streams.items())}
    _check_times(path, ordered)
    return ordered


def _key(item: Item) -> tuple[float, int]:
    """Return what items are ordered by: order, or else time, or else the file's lines."""
    if item.order is not None:
        return (item.order, item.line)
    assert item.time is not None
    return (item.time, item.line)


def _parsed(row: Mapping[str, Any], number: int) -> tuple[Item, str]:
    """Return a line's item, and what its order and times are."""
    missing = [field for field in NEEDED if field not in row]
    if missing:
        raise LarcError(f"it has no {', '.join(missing)}.")
    order, time, arrival, kind = row.get("order"), None, None, "no time"
    if order is not None and (isinstance(order, bool) or not isinstance(order, int)):
        raise LarcError("order is not a whole number.")
    if row.get("time") is not None:
        kind, time = moment(row["time"], "time")
    if order is None and time is None:
        raise LarcError("it has neither order nor time: nothing says when it came.")
    if row.get("arrival") is not None:
        other, arrival = moment(row["arrival"], "arrival")
        if time is None or other != kind:
            raise LarcError(f"arrival is one of {other}, and time one of {kind}.")
        if row.get("label") is None:
            raise LarcError("its label arrives, and it has none; leave arrival out, or give both.")
        if arrival < time:
            raise LarcError("its label arrives before it came.")
    candidates = candidate_texts(row["candidates"])
    item = Item(
        checked_text(row, "stream"),
        checked_text(row, "item_id"),
        checked_text(row, "text"),
        candidates,
        optional_label(row, candidates),
        order,
        time,
        arrival,
        number,
    )
    return item, f"{'order' if order is not None else 'no order'} and {kind}"


def _check_times(path: str | Path, streams: Mapping[str, tuple[Item, ...]]) -> None:
    """Refuse streams whose times go back along their order."""
    problems = [
        f"line {after.line}: its time is before that of line {before.line}, which comes first by "
        "order."
        for items in streams.values()
        for before, after in pairwise(items)
        if before.time is not None and after.time is not None and after.time < before.time
    ]
    if problems:
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise LarcError(f"{path}: {' '.join(problems[:5])}{more}")
