"""Paths: the ways in which a state may live along a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Retention = Literal["reset", "carry", "latest"]


@dataclass(frozen=True)
class PathSpec:
    """One way to answer a stream's questions.

    Attributes
    ----------
    name
        What it is called in the results.
    view
        Which of the room's prompts it reads and learns from.
    retention
        ``carry`` keeps what every batch of feedback taught; ``latest`` starts from the slow state
        before each batch; ``reset`` reads the slow state and learns nothing.
    start
        Which of the session's slow states it starts from.
    permuted
        Learn from labels moved by a fresh permutation per item: the sham control.
    offsets
        A fixed bias added to the candidates' energies, in reading and in learning.
    scale
        What an update's realised difference is multiplied by.
    rule
        The rule its updates follow, as `larc.rules.parse_rule` reads it; the session's by default.
    """

    name: str
    view: str = "plain"
    retention: Retention = "carry"
    start: str = "trained"
    permuted: bool = False
    offsets: tuple[float, ...] = ()
    scale: float = 1.0
    rule: str = ""

    @property
    def learns(self) -> bool:
        """Whether feedback changes it."""
        return self.retention != "reset"
