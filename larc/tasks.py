"""A task: one question with fixed candidates, losses that arrive first, and losses kept back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from larc.errors import LarcError


@dataclass(frozen=True)
class Task:
    """One episode: choose among candidates, learn from support losses, be judged on query losses.

    Parameters
    ----------
    prompt
        The public question. It holds no feedback.
    candidates
        The complete answers to choose from, in a fixed order.
    support
        One observed loss per candidate: the feedback an episode learns from.
    query
        One loss per candidate on what is asked later: supervises slow training, or scores a read.
        ``None`` while it is kept closed.
    group
        Tasks of one group belong together: they share a split and are resampled as a whole.
    family
        Groups of one family are averaged; families weigh equally.

    Examples
    --------
    >>> task = Task("Which is even?", ["3", "4"], support=[1, 0], query=[1, 0], group="digits")
    >>> task.support
    (1.0, 0.0)
    """

    prompt: str
    candidates: Sequence[str]
    support: Sequence[float]
    query: Sequence[float] | None = None
    group: str = ""
    family: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        object.__setattr__(self, "support", checked_losses(self.support, len(self.candidates)))
        if self.query is not None:
            object.__setattr__(self, "query", checked_losses(self.query, len(self.candidates)))


def checked_losses(
    losses: Sequence[float], candidates: int, what: str = "losses"
) -> tuple[float, ...]:
    """Return the losses as floats, refusing a wrong number of them or one that is not finite.

    Examples
    --------
    >>> checked_losses([0, 1], candidates=3)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 2 losses were given for 3 candidates; give one each.
    """
    values = tuple(float(loss) for loss in losses)
    if len(values) != candidates:
        raise LarcError(
            f"{len(values)} {what} were given for {candidates} candidates; give one each."
        )
    if not all(math.isfinite(value) for value in values):
        raise LarcError(f"the {what} {values} are not all finite; give finite ones only.")
    return values
