"""Reading anybody's own stream: questions with late labels, one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.io.jsonl import checked_text, read_objects
from larc.settings import nearest
from larc.stream.question import Question, Recorded
from larc.studies.fields import candidate_texts, moment, optional_label

FIELDS = ("name", "asked", "arrives", "prompt", "candidates", "label", "stream", "group")
NEEDED = ("asked", "prompt", "candidates")
ONE_STREAM = "stream"


def read_events(path: str | Path) -> list[Recorded]:
    """Read the questions of a JSONL file, plain or gzip, naming every line that is none.

    A line gives when its question is ``asked`` and when its label ``arrives`` (``null`` for never),
    its ``prompt``, its ``candidates``, and the ``label``: the index of the right candidate, or its
    text. Where no label will ever come, ``label`` and ``arrives`` are ``null`` or left out: the
    question is asked, and no score counts it. ``name`` is the line's number where it is not given,
    ``group`` the name, and ``stream`` one for all. Times are numbers throughout a file, or ISO 8601
    texts with or without an offset.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "events.jsonl"
    >>> _ = path.write_text('{"asked": 0, "arrives": 60, "prompt": "Tails? ", '
    ...                     '"candidates": ["yes", "no"], "label": "no"}')
    >>> read_events(path)
    [Recorded(question=Question('1', ['yes', 'no'], prompt='Tails? '), asked=0.0, arrives=60.0,
              label=1, stream='stream', group='1')]
    """
    lines: dict[tuple[str, str], int] = {}
    kinds: list[tuple[int, str]] = []  # the first line with times, and what they are

    def parse(row: Mapping[str, Any], number: int) -> Recorded:
        item, kind = _parsed(row, number)
        kinds.append((number, kind))
        if kind != kinds[0][1]:
            raise LarcError(f"its times are {kind}, and line {kinds[0][0]} has {kinds[0][1]}.")
        other = lines.setdefault((item.stream, item.name), number)
        if other != number:
            raise LarcError(f"line {other} is called {item.name!r} too.")
        return item

    items = read_objects(path, parse)
    if not items:
        raise LarcError(f"{path} holds no questions; give one JSON object per line.")
    return items


def _parsed(row: Mapping[str, Any], number: int) -> tuple[Recorded, str]:
    """Return a line's question with its label, and what its times are."""
    for field in row:
        if field not in FIELDS:
            raise LarcError(f"there is no field {field!r}; {nearest(field, FIELDS)}")
    labelled = row.get("label") is not None
    needed = (*NEEDED, "arrives") if labelled else NEEDED
    missing = [field for field in needed if field not in row]
    if missing:
        raise LarcError(f"it has no {', '.join(missing)}.")
    name = checked_text(row, "name", str(number))
    kind, asked = moment(row["asked"], "asked")
    arrives: float | None = None
    if row.get("arrives") is not None:
        if not labelled:
            raise LarcError("its label arrives, and it has none; leave arrives out, or give both.")
        other, arrives = moment(row["arrives"], "arrives")
        if other != kind:
            raise LarcError(f"asked is one of {kind}, and arrives one of {other}.")
        if arrives < asked:
            raise LarcError("its label arrives before it is asked.")
    candidates = candidate_texts(row["candidates"])
    question = Question(name, candidates, checked_text(row, "prompt"))
    item = Recorded(
        question,
        asked=asked,
        arrives=arrives,
        label=optional_label(row, candidates),
        stream=checked_text(row, "stream", ONE_STREAM),
        group=checked_text(row, "group", name),
    )
    return item, kind
