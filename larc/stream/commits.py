"""Taking in what was computed for a plan: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from larc.errors import LarcError, StalePlan
from larc.stream.awaited import PastLabel
from larc.stream.checks import check_new
from larc.stream.log import LearnedBatch, StatePoint, labelled_of
from larc.stream.plans import LearningPlan, ReadPlan, answers_of, check_results, moves_of

if TYPE_CHECKING:
    from larc.stream.session import Session


@contextmanager
def committing(
    session: Session, plan: ReadPlan | LearningPlan, results: Sequence[Any]
) -> Iterator[Any]:
    """Commit a plan around a block: what the block refuses undoes the commit."""
    _check_commit(session, plan, results)
    if isinstance(plan, ReadPlan):
        yield answers_of(plan, results)
        session.pending.update(plan.put)
        session.events += 1
        return
    moves = moves_of(plan, results)
    batch = {name: session.pending[name] for name in plan.values}
    remembered = deepcopy(session.prompter.state())
    try:
        session.prompter.learn(labelled_of(batch, plan.values))
        yield {name: update for name, (_, update) in moves.items()}
    except BaseException:  # a batch is learned by every strategy and the prompter, or by none
        session.prompter.restore(remembered)
        raise
    before = {name: StatePoint.of(session.episodes[name]) for name in plan.forks}
    session.log.add(LearnedBatch(session.point, batch, plan.values, before, remembered))
    for name, fork in plan.forks.items():
        episode = session.episodes[name]
        episode.factors, episode.step = moves[name][0], fork.step
        episode.stream, episode.extras = fork.stream, fork.extras
    for name, value in plan.values.items():
        kept = session.pending.pop(name)
        session.labelled.remember(name, PastLabel(kept.question.candidates, value))
    session.point += 1
    session.events += 1


def _check_commit(session: Session, plan: ReadPlan | LearningPlan, results: Sequence[Any]) -> None:
    if not isinstance(plan, ReadPlan | LearningPlan) or plan.session is not session:
        raise LarcError("this is no plan of this session; commit what it planned itself.")
    check_results(plan, results)
    if plan.point != session.point:
        raise StalePlan("the session has learned since this was planned; plan it again.")
    if isinstance(plan, ReadPlan):
        for name in plan.put:
            check_new(session.pending, name)
        session.limits.check(session.pending_size, session.size, plan.put)
        return
    gone = [name for name in plan.values if name not in session.pending]
    if gone:
        raise StalePlan(f"{gone[0]!r} was dropped since this was planned; plan it again.")
