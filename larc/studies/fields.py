"""Fields that the files of several studies have: times, candidates and labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from larc.errors import LarcError
from larc.io.jsonl import is_unicode


def candidate_texts(texts: Any) -> tuple[str, ...]:
    """Return the candidates of a line: two texts or more, each once.

    Examples
    --------
    >>> candidate_texts(["yes", "no"])
    ('yes', 'no')
    """
    if not isinstance(texts, list) or len(texts) < 2:
        raise LarcError("candidates is not a list of two texts or more.")
    if not all(isinstance(text, str) and is_unicode(text) for text in texts):
        raise LarcError("candidates is not a list of two texts or more.")
    if len(set(texts)) < len(texts) or "" in texts:
        raise LarcError("a candidate is empty or given twice.")
    return tuple(texts)


def label_index(label: Any, candidates: tuple[str, ...]) -> int:
    """Return the index of the right candidate, given as an index or as its text.

    Examples
    --------
    >>> label_index("no", ("yes", "no"))
    1
    """
    if isinstance(label, str) and label in candidates:
        return candidates.index(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(candidates):
        return label
    raise LarcError(f"label {label!r} is neither a candidate nor the index of one.")


def optional_label(row: Mapping[str, Any], candidates: tuple[str, ...]) -> int | None:
    """Return the label of a line; none where it has none, or null: it is not known.

    Examples
    --------
    >>> optional_label({"label": "no"}, ("yes", "no")), optional_label({}, ("yes", "no"))
    (1, None)
    """
    label = row.get("label")
    return None if label is None else label_index(label, candidates)


def moment(value: Any, field: str) -> tuple[str, float]:
    """Return what a time is, and the time in seconds or in whatever the numbers count.

    Examples
    --------
    >>> moment("1970-01-02", "time")
    ('times without an offset', 86400.0)
    """
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            raise LarcError(f"{field} {value!r} is not an ISO 8601 time.") from None
        if at.tzinfo is None:
            return "times without an offset", at.replace(tzinfo=UTC).timestamp()
        return "times with an offset", at.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LarcError(f"{field} is neither a number nor an ISO 8601 time.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise LarcError(f"{field} is not a finite number.")
    return "numbers", number
