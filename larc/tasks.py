"""A task: feedback that arrives first, and questions that are asked after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from larc.checks import instance, listed, text
from larc.errors import LarcError
from larc.feedback import (
    CandidateLosses,
    Feedback,
    Label,
    Unlabelled,
    checked_candidates,
    checked_losses,
)

#: What is asked after the feedback: with its own feedback, or with that kept closed.
Asked = Feedback | Unlabelled


@dataclass(frozen=True)
class Task:
    """One episode: learn from the support, be judged on the query.

    A task has one of two forms. With a ``prompt`` and ``candidates`` it is one question: support
    and query are losses of those candidates. Without them it is many questions: support is a
    sequence of batches of feedback in the order of their arrival, query a sequence of questions
    with their labels, and every piece has a prompt and candidates of its own.

    Parameters
    ----------
    prompt, candidates
        The public question, which holds no feedback, and the complete answers to choose from.
        Neither is given for a task of many questions.
    support
        The feedback an episode learns from: one observed loss per candidate; or batches, each a
        list of `larc.Label` and `larc.CandidateLosses`, with an update for each batch. A piece that
        stands alone is a batch by itself.
    query
        What supervises slow training, or scores a read: one loss per candidate; or a list of
        pieces. ``None`` while it is kept closed, of many questions what `closed` makes of it.
    group
        Tasks of one group belong together: they share a split and are resampled as a whole.
    family
        Groups of one family are averaged; families weigh equally.

    Examples
    --------
    >>> task = Task("Which is even?", ["3", "4"], support=[1, 0], query=[1, 0], group="digits")
    >>> task.support
    (1.0, 0.0)
    >>> kinds = ["billing", "fault"]
    >>> many = Task(support=[[Label("Invoice twice: ", kinds, 0)], [Label("No light: ", kinds, 1)]],
    ...             query=[Label("Where is my refund? ", kinds, 0)], group="customer 7")
    >>> len(many.batches), many.asked[0].prompt, many.closed().opened
    (2, 'Where is my refund? ', False)
    """

    prompt: str = ""
    candidates: Sequence[str] = ()
    support: Sequence[float] | Sequence[Feedback | Sequence[Feedback]] = ()
    query: Sequence[float] | Sequence[Asked] | None = None
    group: str = ""
    family: str = ""

    def __post_init__(self) -> None:
        for name in ("prompt", "group", "family"):
            object.__setattr__(self, name, text(getattr(self, name), f"the {name} of a task"))
        if self.many:
            object.__setattr__(self, "support", _checked_batches(self.support))
            if self.query is not None:
                object.__setattr__(self, "query", _checked_query(self.query))
            return
        object.__setattr__(self, "candidates", checked_candidates(self.candidates))
        count = len(self.candidates)
        object.__setattr__(self, "support", checked_losses(self._numbers(self.support), count))
        if self.query is not None:
            object.__setattr__(self, "query", checked_losses(self._numbers(self.query), count))

    @property
    def many(self) -> bool:
        """Whether it has many questions, and not one prompt and its candidates."""
        return self.prompt == "" and isinstance(self.candidates, tuple) and not self.candidates

    @staticmethod
    def _numbers(values: Any) -> Sequence[float]:
        if isinstance(values, list | tuple) and any(
            isinstance(value, (*_PIECES, list, tuple)) for value in values
        ):
            raise LarcError(
                "a task has a prompt of its own and feedback with prompts; leave the task's prompt "
                "and candidates out, or give losses."
            )
        numbers: Sequence[float] = values  # checked_losses refuses what are none
        return numbers

    @property
    def batches(self) -> tuple[tuple[Feedback, ...], ...]:
        """The support as batches of feedback, in the order of their arrival."""
        if self.many:
            return self.support  # type: ignore[return-value]  # checked when it was made
        return ((CandidateLosses(self.prompt, self.candidates, self.losses("support")),),)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What is read after the feedback: each question, open or closed."""
        if self.many:
            return self.query or ()  # type: ignore[return-value]  # checked when it was made
        if self.query is None:
            return (Unlabelled(self.prompt, self.candidates),)
        return (CandidateLosses(self.prompt, self.candidates, self.losses("query")),)

    @property
    def opened(self) -> bool:
        """Whether every question is there with its feedback."""
        return bool(self.asked) and not any(isinstance(one, Unlabelled) for one in self.asked)

    @property
    def queries(self) -> tuple[Feedback, ...]:
        """The questions with their feedback; refused while they are closed."""
        if not self.opened:
            raise LarcError("a task's query is closed; give it with its labels or losses.")
        return self.asked  # type: ignore[return-value]  # all of them are feedback

    def losses(self, which: str) -> tuple[float, ...]:
        """Return the support or the query of a task with one prompt."""
        values: tuple[float, ...] = () if self.many else getattr(self, which)
        return values

    def closed(self) -> Task:
        """Return the task without what its query says."""
        if not self.many:
            return replace(self, query=None)
        return replace(
            self,
            query=[
                Unlabelled(one.prompt, one.candidates, getattr(one, "offsets", ()))
                for one in self.asked
            ],
        )


def checked_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return tasks as a list, refusing anything else among them.

    Examples
    --------
    >>> checked_tasks("tasks")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the tasks are 'tasks'; give a list.
    """
    given = listed(tasks, "the tasks")
    for index, task in enumerate(given):
        instance(task, f"task {index}", Task)
    return given


_PIECES = (CandidateLosses, Label, Unlabelled)


def _checked_batches(support: Sequence[object]) -> tuple[tuple[Feedback, ...], ...]:
    if not isinstance(support, list | tuple) or not support:
        raise LarcError(
            "a task without a prompt has no support; give batches of labels or losses, or a prompt "
            "and its candidates."
        )
    batches: list[tuple[Feedback, ...]] = []
    for number, given in enumerate(support):
        batch = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not batch or not all(isinstance(piece, CandidateLosses | Label) for piece in batch):
            raise LarcError(
                f"batch {number} of a task's support is no list of feedback; give Label or "
                "CandidateLosses, at least one."
            )
        batches.append(batch)
    return tuple(batches)


def _checked_query(query: Sequence[object]) -> tuple[Asked, ...]:
    if not isinstance(query, list | tuple) or not query:
        raise LarcError("a task's query is empty; give at least one question, or leave it out.")
    asked: list[Asked] = []
    for number, piece in enumerate(query):
        if not isinstance(piece, CandidateLosses | Label | Unlabelled):
            raise LarcError(
                f"question {number} of a task's query is no feedback; give a Label or "
                "CandidateLosses."
            )
        asked.append(piece)
    return tuple(asked)
