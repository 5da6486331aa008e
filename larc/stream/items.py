"""A question of a stream, and the room that says how it is put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from larc.errors import LarcError

PLAIN = "plain"


@dataclass(frozen=True)
class Item:
    """One question: when it is asked, its candidates, and the label that arrives later.

    Attributes
    ----------
    name
        A stable identifier, unique in its stream; it orders what happens at one time.
    asked, arrives
        When it is asked and when its label arrives; ``None`` for never.
    label
        The index of the right candidate. Nothing reads it before it arrives.
    prompt
        The question itself, for a room that puts it as it is.
    stream
        The stream it belongs to. Streams have clocks and states of their own.
    group
        Items of one group are averaged before groups are.
    source
        What the room knows the question by, where a prompt alone does not say it.
    """

    name: str
    asked: float
    arrives: float | None
    candidates: tuple[str, ...]
    label: int
    prompt: str = ""
    stream: str = ""
    group: str = ""
    source: Any = None

    def __post_init__(self) -> None:
        if not 0 <= self.label < len(self.candidates):
            raise LarcError(f"the label of {self.name!r} names none of its candidates.")


class Room(Protocol):
    """Puts questions: with what it remembers of labels that have arrived, or without."""

    def prompts(self, item: Item) -> Mapping[str, str]:
        """Return the question's prompt under each view, from what has arrived so far."""

    def learned(self, items: Sequence[Item]) -> None:
        """Take in items whose labels have just arrived, after every state has learned from them."""

    def state(self) -> Any:
        """Return what the room remembers, as JSON values."""

    def restore(self, state: Any) -> None:
        """Go back to a remembered state."""

    @property
    def size(self) -> int:
        """Bytes of what the room remembers."""


class PlainRoom:
    """A room without a memory: every question is put as it is.

    Examples
    --------
    >>> PlainRoom().prompts(Item("a", 0, 1, ("yes", "no"), 0, prompt="Well? "))
    {'plain': 'Well? '}
    """

    size = 0

    def prompts(self, item: Item) -> Mapping[str, str]:
        """Return the item's own prompt as its one view."""
        return {PLAIN: item.prompt}

    def learned(self, items: Sequence[Item]) -> None:
        """Remember nothing."""

    def state(self) -> Any:
        """Return nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Need nothing."""
