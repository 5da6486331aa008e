"""What a session awaits and what it remembers of labels, and how much of both it may hold."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from larc.errors import LarcError
from larc.stream.question import LabelIs, Question


@dataclass(frozen=True)
class SessionLimits:
    """The most bytes a session may hold.

    Attributes
    ----------
    pending
        Of questions whose labels are awaited; at the limit `ask` raises `SessionFull`.
    total
        Of all live state; at the limit `ask` raises `SessionFull`.
    labelled
        Of names that were labelled, with their labels, which tell a label that comes again from
        one that nobody asked for. It counts apart from ``total``; over it the oldest are
        forgotten, and a label for one of those is then refused as never asked.
    log
        Of batches that were learned, which `Session.correct` learns again; it counts apart, and
        over it the oldest are forgotten. 0, the default, for no log.

    Examples
    --------
    >>> SessionLimits(pending=-1)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the limit pending is -1; give a whole number of bytes, 0 or more.
    """

    pending: int = 2 * 2**20
    total: int = 4 * 2**20
    labelled: int = 2**18
    log: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise LarcError(
                    f"the limit {field.name} is {value!r}; give a whole number of bytes, 0 or more."
                )

    def check(self, pending: int, total: int, put: Mapping[str, Pending]) -> None:
        """Refuse questions that do not fit beside what is held already."""
        more = sum(question.size for question in put.values())
        for name, size, limit in (
            ("pending", pending + more, self.pending),
            ("total", total + more, self.total),
        ):
            if size > limit:
                raise SessionFull(
                    f"a session would hold {size} bytes, over its {name} limit of {limit}; "
                    "everything up to here is kept: raise the limit and carry on."
                )


class SessionFull(LarcError):
    """A limit of a session was reached; nothing was lost, and a larger limit carries on."""


@dataclass(frozen=True)
class Pending:
    """A question whose label is awaited, and its prompts as they were put."""

    question: Question
    prompts: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<Pending {self.question.name!r}: {', '.join(self.prompts)}>"

    @property
    def size(self) -> int:
        """Bytes of its name and prompts; two views of one text are kept once."""
        texts = [self.question.name, *set(self.prompts.values())]
        return sum(len(text.encode()) for text in texts)


class PastLabel(NamedTuple):
    """A label that was learned, with the candidates it chose among.

    Attributes
    ----------
    candidates, value
        What there was to choose, and what was right.
    corrections
        Labels that came before and were wrong, the first one first.
    """

    candidates: tuple[str, ...]
    value: LabelIs
    corrections: tuple[LabelIs, ...] = ()

    def corrected(self, value: LabelIs) -> PastLabel:
        """Return it with another label."""
        return PastLabel(self.candidates, value, (*self.corrections, self.value))

    @property
    def shown(self) -> str | tuple[float, ...]:
        """The text of the right candidate, or the losses."""
        return self.candidates[self.value] if isinstance(self.value, int) else self.value

    def size(self, name: str) -> int:
        """Bytes of the name, the candidates and the label."""
        values = (self.value, *self.corrections)
        numbers = sum(1 if isinstance(value, int) else len(value) for value in values)
        return sum(len(text.encode()) for text in (name, *self.candidates)) + 8 * numbers


class LabelMemory(Mapping[str, PastLabel]):
    """Labels that were learned, by the names of their questions; the oldest are forgotten first.

    Examples
    --------
    >>> memory = LabelMemory(limit=31)
    >>> for name in ("first", "second", "third"):
    ...     memory.remember(name, PastLabel(("up",), 0))
    >>> list(memory), memory.size
    (['second', 'third'], 31)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        #: What changed since `follow`, if anybody follows.
        self.changed: dict[str, bool] | None = None
        self._labels: dict[str, PastLabel] = {}

    def follow(self) -> dict[str, bool]:
        """Return what will hold the names that change from now on, in the order of their changes.

        True is for one that is forgotten or becomes the newest, false for another label of one
        that stays where it is. Whoever followed before follows no longer; nor does anybody once
        more have changed than there are, for then all can be looked at as well.

        Examples
        --------
        >>> memory = LabelMemory(limit=99)
        >>> memory.remember("first", PastLabel(("up", "down"), 0))
        >>> changed = memory.follow()
        >>> memory.replace("first", PastLabel(("up", "down"), 1))
        >>> changed is memory.changed, changed
        (True, {'first': False})
        """
        self.changed = {}
        return self.changed

    def _note(self, name: str, moved: bool) -> None:
        if self.changed is None:
            return
        if moved:
            self.changed.pop(name, None)
        self.changed[name] = moved or self.changed.get(name, False)
        if len(self.changed) > len(self._labels):
            self.changed = None

    def items(self) -> ItemsView[str, PastLabel]:
        """Return names and labels, the oldest first."""
        return self._labels.items()

    def remember(self, name: str, label: PastLabel) -> None:
        """Keep a label as the newest, and forget the oldest that no longer fit."""
        self.forget(name)
        self._labels[name] = label
        self.size += label.size(name)
        self._note(name, True)
        self._trim()

    def _trim(self) -> None:
        while self.size > self.limit:
            self.forget(next(iter(self._labels)))

    def replace(self, name: str, label: PastLabel) -> None:
        """Put another label where one is, as old as that."""
        self.size += label.size(name) - self._labels[name].size(name)
        self._labels[name] = label
        self._note(name, False)
        self._trim()

    def forget(self, name: str) -> None:
        """Forget a label, if it is there."""
        if name in self._labels:
            self.size -= self._labels.pop(name).size(name)
            self._note(name, True)

    def __getitem__(self, name: str) -> PastLabel:
        return self._labels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __repr__(self) -> str:
        return f"<LabelMemory of {len(self)} labels, {self.size} of {self.limit} bytes>"
