"""What a stream has learned and not taken back, after rollbacks, moves and corrections."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Row

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Lineage:
    """The past that a stream's state has.

    Attributes
    ----------
    undone
        Pairs of event numbers: a rollback took back what was learned between them.
    replaced
        The same, of versions: what is between them is no part of this past.
    again
        Questions whose corrections were learned, whatever was taken back.

    Examples
    --------
    >>> past = Lineage(undone=((3, 8),), replaced=((3, 8),), again=frozenset({"q4"}))
    >>> past.learned(5, "q2"), past.learned(6, "q4"), past.learned(9, "q7")
    (False, True, True)
    >>> past.holds(3), past.holds(5), past.holds(8)
    (True, False, True)
    """

    undone: Spans = ()
    replaced: Spans = ()
    again: frozenset[str] = frozenset()

    def learned(self, seq: int, question: str) -> bool:
        """Whether what was learned at an event, of a question, is learned still."""
        return question in self.again or not _within(seq, self.undone)

    def holds(self, version: int) -> bool:
        """Whether a version is part of this past, so that the rest can be learned on top of it."""
        return not _within(version, self.replaced)


def _within(number: int, spans: Spans) -> bool:
    return any(low < number < high for low, high in spans)


def lineage(events: Iterable[Row[Any]]) -> Lineage:
    """Return the past of a stream after events of its log, which come in order.

    A rollback that learns again what came after takes nothing back.
    """
    steps = [(0, Lineage())]
    labels: dict[str, int] = {}
    for event in events:
        past = steps[-1][1]
        if event.kind == "label":
            labels[event.key] = event.seq
        if event.status != "applied":
            continue
        if event.kind == "rollback":
            body = json.loads(event.body)
            span = (body["version"], event.seq)
            then = next(past for seq, past in reversed(steps) if seq <= span[0])
            undone = then.undone if body["replay"] else (*then.undone, span)
            past = Lineage(undone, (*then.replaced, span), then.again)
        elif event.kind == "move":
            past = replace(past, replaced=(*past.replaced, (-1, event.seq)))
        elif event.kind == "correction" and (body := json.loads(event.body))["relearn"]:
            question = body["question"]
            span = (labels[question] - 1, event.seq)
            past = Lineage(past.undone, (*past.replaced, span), past.again | {question})
        else:
            continue
        steps.append((event.seq, past))
    return steps[-1][1]
