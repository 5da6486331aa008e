"""A task: one question with fixed candidates, losses that arrive first, and losses kept back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from larc.checks import instance, listed, number, shown, text
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
        for name in ("prompt", "group", "family"):
            object.__setattr__(self, name, text(getattr(self, name), f"the {name} of a task"))
        object.__setattr__(self, "candidates", checked_candidates(self.candidates))
        object.__setattr__(self, "support", checked_losses(self.support, len(self.candidates)))
        if self.query is not None:
            object.__setattr__(self, "query", checked_losses(self.query, len(self.candidates)))


def checked_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return tasks as a list, refusing anything else among them.

    Examples
    --------
    >>> checked_tasks("tasks")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the tasks are 'tasks'; give a list.
    """
    made = listed(tasks, "the tasks")
    for place, task in enumerate(made):
        instance(task, f"task {place}", Task)
    return made


def checked_candidates(candidates: Sequence[str]) -> tuple[str, ...]:
    """Return the candidates, refusing what cannot be chosen among.

    Examples
    --------
    >>> checked_candidates(["a", ""])
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: candidate 1 is empty; give every candidate some text.
    """
    if isinstance(candidates, str | bytes):
        raise LarcError(f"the candidates are one text, {shown(candidates)}; give a list of texts.")
    try:
        texts = tuple(candidates)
    except TypeError:
        raise LarcError(f"the candidates {shown(candidates)} are no list of texts.") from None
    if not texts:
        raise LarcError("no candidates were given; give a list of at least one text.")
    texts = tuple(text(one, f"candidate {place}") for place, one in enumerate(texts))
    if "" in texts:
        raise LarcError(f"candidate {texts.index('')} is empty; give every candidate some text.")
    if len(set(texts)) < len(texts):
        raise LarcError("two candidates are the same; give each candidate once.")
    return texts


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
    try:
        if isinstance(losses, str | bytes):
            raise TypeError
        given = tuple(losses)
    except TypeError:
        raise LarcError(
            f"the {what} {shown(losses)} are not a list of numbers; give one each."
        ) from None
    values = tuple(
        float(loss) if isinstance(loss, bool) else number(loss, f"one of the {what}")
        for loss in given
    )
    if len(values) != candidates:
        raise LarcError(
            f"{len(values)} {what} were given for {candidates} candidates; give one each."
        )
    return values
