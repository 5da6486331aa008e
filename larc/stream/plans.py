"""Plans: what sessions need of the model, so that one batch serves many of them.

A session says what it needs (`plan`), somebody computes it for many sessions at once (`compute`),
and each session takes in its part (`commit`):

    plans = [session.plan(questions) for session, questions in asked]
    for plan, results in zip(plans, compute(learner, plans)):
        answers = plan.session.commit(plan, results)

Planning and computing change no session. A refusal is in the place of what was refused, and is
raised by the commit it belongs to: it harms nobody else.

What holds of a plan
- A read plan holds until its session learns: further questions may be planned and committed
  meanwhile. A learning plan holds until its session learns or drops one of its questions. After
  that `commit` raises `StalePlan` and changes nothing.
- A learning plan is computed once and committed once.
- Of plans of one session in one batch, reads are committed before what is learned.

What several threads may do
- `plan`, `commit`, `ask`, `learn`, `drop`, `correct`, `save` and `restore` of one session are
  carried out one after the other, whichever threads call them. Different sessions never wait for
  each other.
- `compute` takes no lock of any session, so that planning and committing go on beside it.
- A prompter and the experts of a controller are called by their own session alone; one object given
  to two sessions is the business of whoever wrote it.

How far batches agree
- Alone, plan, compute and commit give the same bits as `ask` and `learn`.
- In a batch with others a row is padded otherwise, and sums of float32 are taken in another order:
  on the built-in model probabilities agree within ``BATCH_ROUNDING``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import with_offsets
from larc.learner import Episode, Learner, ReadRequest, Update, UpdateRequest
from larc.residual import Factors
from larc.stream.awaited import Pending
from larc.stream.question import LabelIs, Question
from larc.stream.strategies import Strategy
from larc.stream.strategy_steps import feedback_of, shrunk

if TYPE_CHECKING:
    from larc.stream.session import Session

#: How far probabilities of the built-in model may be from those computed alone, each.
BATCH_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class ReadPlan:
    """Questions to be answered by a session: made by `Session.plan`.

    Attributes
    ----------
    session
        Whose it is.
    questions
        What is asked.
    requests
        What `Learner.read_many` is to read: for each strategy each question.
    """

    session: Session = field(repr=False)
    questions: tuple[Question, ...]
    strategies: tuple[Strategy, ...] = field(repr=False)
    put: Mapping[str, Pending] = field(repr=False)
    requests: tuple[ReadRequest, ...] = field(repr=False)
    point: int = field(repr=False)

    def about(self, number: int) -> str:
        """Say what one of its requests is."""
        strategy, question = divmod(number, len(self.questions))
        return (
            f"question {self.questions[question].name!r} under strategy "
            f"{self.strategies[strategy].name!r}"
        )


@dataclass(frozen=True, eq=False)
class LearningPlan:
    """Labels to be learned by a session: made by `Session.plan_learning`.

    Attributes
    ----------
    session
        Whose it is.
    values
        The labels, by the names of their questions.
    requests
        What `Learner.update_many` is to move: forks of the session's states with their feedback.
        The states themselves move when the plan is committed.
    """

    session: Session = field(repr=False)
    values: Mapping[str, LabelIs]
    strategies: tuple[Strategy, ...] = field(repr=False)
    forks: Mapping[str, Episode] = field(repr=False)
    starts: Mapping[str, tuple[Factors, int]] = field(repr=False)
    requests: tuple[UpdateRequest, ...] = field(repr=False)
    point: int = field(repr=False)

    def about(self, number: int) -> str:
        """Say what one of its requests is."""
        return f"the update of strategy {self.strategies[number].name!r}"


class Plan(Protocol):
    """What `compute` takes: a plan of a session or of a controller."""

    @property
    def part(self) -> ReadPlan | LearningPlan:
        """What its session needs of the model."""


Results = Sequence[Tensor | LarcError] | Sequence[Update | LarcError]
Answers = dict[str, list[NDArray[np.float64]]]


def compute(learner: Learner, plans: Sequence[ReadPlan | LearningPlan | Plan]) -> list[Results]:
    """Compute many plans together; returns for each what its `commit` takes.

    Everything that is read is one call of `Learner.read_many` and everything that is learned one
    of `Learner.update_many`, whichever sessions it is of; their physical batches are as large as
    the substrate's ``chunk_positions`` allows.

    Parameters
    ----------
    learner
        Whose substrate computes. Sessions of other learners of the same substrate, boundary, rank
        and limits may take part.
    plans
        Of sessions and controllers, reads and learning in any order.

    Examples
    --------
    >>> import larc
    >>> from larc.stream.plans import compute
    >>> substrate = larc.load_substrate("tiny")
    >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> sessions = [larc.Session(learner, [larc.Strategy("keep")], seed=n) for n in range(3)]
    >>> question = larc.Question("a", ("up", "down"), prompt="Next: ")
    >>> plans = [session.plan([question]) for session in sessions]
    >>> for plan, results in zip(plans, compute(learner, plans)):
    ...     answers = plan.session.commit(plan, results)
    >>> plans = [session.plan_learning({"a": "up"}) for session in sessions]
    >>> [s.commit(p, r)["keep"].distance > 0 for s, p, r in
    ...  zip(sessions, plans, compute(learner, plans))]
    [True, True, True]
    """
    parts = [plan if isinstance(plan, ReadPlan | LearningPlan) else plan.part for plan in plans]
    refused: dict[int, LarcError] = {}
    for number, part in enumerate(parts):
        theirs = part.session.learner
        if theirs.substrate is not learner.substrate or theirs.limits != learner.limits:
            refused[number] = LarcError(
                "a session of another substrate or other limits cannot be computed by this "
                "learner; compute it with its own."
            )
    reads: list[ReadRequest] = []
    updates: list[UpdateRequest] = []
    for number, part in enumerate(parts):
        if number not in refused:
            if isinstance(part, ReadPlan):
                reads += part.requests
            else:
                updates += part.requests
    read = iter(learner.read_many(reads, refusals="return"))
    updated = iter(learner.update_many(updates, refusals="return"))
    results: list[Results] = []
    for number, part in enumerate(parts):
        if number in refused:
            results.append([refused[number] for _ in part.requests] or [refused[number]])
        elif isinstance(part, ReadPlan):
            results.append([next(read) for _ in part.requests])
        else:
            results.append([next(updated) for _ in part.requests])
    return results


def planned_learning(
    session: Session,
    states: Mapping[str, Episode],
    batch: Mapping[str, Pending],
    values: Mapping[str, LabelIs],
    learning: tuple[Strategy, ...],
) -> LearningPlan:
    """Return what it takes for some strategies to learn labels from these states."""
    forks: dict[str, Episode] = {}
    requests = []
    for strategy in learning:
        fork = forks[strategy.name] = states[strategy.name].fork()
        if strategy.retention == "latest":
            fork.forget()
        requests.append(
            (fork, [feedback_of(strategy, fork, batch[n], v) for n, v in values.items()])
        )
    starts = {name: (fork.factors, fork.step) for name, fork in forks.items()}
    return LearningPlan(session, values, learning, forks, starts, tuple(requests), session.point)


def check_results(plan: ReadPlan | LearningPlan, results: Sequence[Any]) -> None:
    """Raise what was refused of a plan, and refuse results that are not of it."""
    for number, result in enumerate(results):
        if isinstance(result, LarcError):
            what = plan.about(number) if plan.requests else "the plan"
            raise LarcError(f"{what} was refused: {result}") from result
    kind = Tensor if isinstance(plan, ReadPlan) else Update
    if len(results) != len(plan.requests) or not all(isinstance(one, kind) for one in results):
        raise LarcError(
            f"{len(results)} results were given for a plan of {len(plan.requests)} requests, or "
            "they are of another kind; give what was computed for it."
        )
    if isinstance(plan, LearningPlan):
        for name, fork in plan.forks.items():
            if fork.step != plan.starts[name][1] + 1:
                raise LarcError("a learning plan is computed once; plan it again.")


def answers_of(plan: ReadPlan, results: Sequence[Tensor]) -> Answers:
    """Return each strategy's probabilities, one array per question."""
    reads = [read.double().numpy() for read in results]
    count = len(plan.questions)
    answers = {}
    for number, strategy in enumerate(plan.strategies):
        theirs = reads[number * count : (number + 1) * count]
        answers[strategy.name] = [with_offsets(read, strategy.offsets) for read in theirs]
    return answers


def moves_of(plan: LearningPlan, results: Sequence[Any]) -> dict[str, tuple[Factors, Update]]:
    """Return where each strategy gets to: where its fork is, or a part of the way."""
    moves = {}
    for strategy, update in zip(plan.strategies, results, strict=True):
        factors = plan.forks[strategy.name].factors
        if strategy.scale != 1.0:
            factors, distance = shrunk(plan.starts[strategy.name][0], factors, strategy.scale)
            # What is kept of the step is not where the rule may have looked.
            update = replace(update, distance=distance, after=None)
        moves[strategy.name] = (factors, update)
    return moves
