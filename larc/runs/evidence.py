"""The order of evidence: a chain of events, each with the hash of the one before it.

What a study promises (predictions on record before a query is opened) is a plan: its events in
order, and the files whose hashes each has to hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from larc.errors import LarcError
from larc.io.hashes import sha256

EVIDENCE = "evidence.jsonl"
Event = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One event that a study records.

    Attributes
    ----------
    event
        Its name.
    field, file
        Under which name it holds hashes, and of which file of each unit; none where it holds none.
    unit
        The unit of that file, where the event holds one hash alone.
    prefix
        What the names of its units begin with, where earlier events have files of that name too.
    needed
        Whether a finished run must have it.
    """

    event: str
    field: str = ""
    file: str = ""
    unit: str = ""
    prefix: str = ""
    needed: bool = False

    def hashes(self, event: Event) -> Iterator[tuple[str, str, str]]:
        """Yield the unit, the file and the hash that a recorded event of this kind holds."""
        recorded = event.get(self.field) if self.field else None
        if isinstance(recorded, Mapping):
            for unit, digest in recorded.items():
                yield str(unit), self.file, str(digest)
        elif recorded is not None:
            yield self.unit, self.file, str(recorded)


@dataclass(frozen=True)
class EvidencePlan:
    """The events of a study in their order, and the sentence that holds if all are there.

    Examples
    --------
    >>> plan = EvidencePlan([Step("read"), Step("written", needed=True)], "read before written")
    >>> plan.check(["read", "written"], "evidence.jsonl")
    >>> plan.check(["read"], "evidence.jsonl")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: evidence.jsonl does not show 'written'.
    """

    steps: Sequence[Step]
    sentence: str

    def check(self, events: Sequence[str], name: str) -> None:
        """Refuse events that are out of order, unknown, or lack one that is needed."""
        if list(events) != [step.event for step in self.steps if step.event in events]:
            raise LarcError(f"{name} is out of order: {', '.join(events)}.")
        for step in self.steps:
            if step.needed and step.event not in events:
                raise LarcError(f"{name} does not show {step.event!r}.")

    def step(self, event: str) -> Step:
        """Return the step of an event's name."""
        return next(step for step in self.steps if step.event == event)


def read_chain(content: bytes, name: str) -> list[Event]:
    """Return the events of a record, refusing one whose chain is broken."""
    events, previous = [], ""
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            event = json.loads(line)
            chained = event["previous"] == previous and isinstance(event["event"], str)
        except (ValueError, KeyError, TypeError, RecursionError):
            chained = False
        if not chained:
            raise LarcError(f"{name}, line {number}, does not follow from the line before it.")
        events.append(event)
        previous = sha256(line)
    return events


def extended_chain(content: bytes, event: str, facts: Mapping[str, Any]) -> bytes:
    """Return a record with one event more, after all that happened so far."""
    previous = sha256(content.splitlines()[-1]) if content else ""
    line = json.dumps({"event": event, **facts, "previous": previous}, sort_keys=True)
    return content + line.encode() + b"\n"
