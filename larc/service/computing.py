"""The one place where streams meet the model: many of them are read and updated together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from larc.errors import LarcError
from larc.service.live import Asked, Live
from larc.stream.controller import Answer
from larc.stream.plans import compute
from larc.stream.question import LabelValue

Answers = list[Answer | LarcError]


def ask_all(asks: Sequence[tuple[Live, Sequence[Asked]]]) -> list[Answers]:
    """Put to each stream its questions, all in shared batches; a refusal harms no other."""
    plans: list[Any] = []
    for live, questions in asks:
        for one in questions:
            said = {name: [policy] for name, policy in one.experts.items()}
            try:
                plans.append(live.controller.plan([one.question], said, [one.context]))
            except LarcError as refusal:
                plans.append(refusal)
    done = iter(_committed(plans))
    return [[next(done) for _ in questions] for _, questions in asks]


def learn_all(labels: Sequence[tuple[Live, Mapping[str, LabelValue]]]) -> list[LarcError | None]:
    """Give each stream its labels, all in shared batches; returns what was refused of which."""
    plans: list[Any] = []
    for live, values in labels:
        try:
            plans.append(live.controller.plan_learning(values))
        except LarcError as refusal:
            plans.append(refusal)
    return [one if isinstance(one, LarcError) else None for one in _committed(plans)]


def _committed(plans: Sequence[Any]) -> list[Any]:
    """Compute plans together and commit each; what is refused stands in its place.

    Plans of one server share a substrate and limits, so that any of their learners computes all.
    """
    made = [plan for plan in plans if not isinstance(plan, LarcError)]
    if not made:
        return list(plans)
    learner = made[0].controller.session.learner
    results = iter(compute(learner, made))
    done: list[Any] = []
    for plan in plans:
        if isinstance(plan, LarcError):
            done.append(plan)
            continue
        try:
            committed = plan.controller.commit(plan, next(results))
            done.append(committed[0] if isinstance(committed, list) else committed)
        except LarcError as refusal:
            done.append(refusal)
    return done
