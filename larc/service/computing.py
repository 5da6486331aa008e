"""The one place where streams meet the model: many of them are read and updated together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from larc.errors import LarcError
from larc.questions import Limits
from larc.service.live import Asked, Live
from larc.stream.controller import Answer
from larc.stream.plans import compute
from larc.stream.question import LabelValue
from larc.substrate.frozen import rows_together

Answers = list[Answer | LarcError]


def ask_all(asks: Sequence[tuple[Live, Sequence[Asked]]]) -> list[Answers]:
    """Put to each stream its questions, all in shared batches; a refusal harms no other."""
    plans: list[Any] = []
    for live, questions in asks:
        for one in questions:
            given = {name: [policy] for name, policy in one.experts.items()}
            try:
                plans.append(live.controller.plan([one.question], given, [one.context]))
            except LarcError as refusal:
                plans.append(refusal)
    done = iter(_committed(plans, solo=any(live.template.solo for live, _ in asks)))
    return [[next(done) for _ in questions] for _, questions in asks]


def learn_all(labels: Sequence[tuple[Live, Mapping[str, LabelValue]]]) -> list[LarcError | None]:
    """Give each stream its labels, all in shared batches; returns what was refused of which."""
    plans: list[Any] = []
    for live, values in labels:
        try:
            plans.append(live.controller.plan_learning(values))
        except LarcError as refusal:
            plans.append(refusal)
    done = _committed(plans, solo=any(live.template.solo for live, _ in labels))
    return [one if isinstance(one, LarcError) else None for one in done]


def _committed(plans: Sequence[Any], *, solo: bool) -> list[Any]:
    """Compute plans together and commit each; what is refused stands in its place.

    Plans of one slow state and limits share batches: any of their learners computes them all. Those
    of a ``solo`` stream use nothing that was computed together with others.
    """
    groups: dict[tuple[str, Limits], list[int]] = {}
    for number, plan in enumerate(plans):
        if not isinstance(plan, LarcError):
            learner = plan.controller.session.learner
            groups.setdefault((learner.slow.digest, learner.limits), []).append(number)
    done = list(plans)
    for numbers in groups.values():
        chosen = [plans[number] for number in numbers]
        with nullcontext() if solo else rows_together():
            results = compute(chosen[0].controller.session.learner, chosen)
        for number, plan, result in zip(numbers, chosen, results, strict=True):
            try:
                committed = plan.controller.commit(plan, result)
                done[number] = committed[0] if isinstance(committed, list) else committed
            except LarcError as refusal:
                done[number] = refusal
    return done
