"""Updates of several episodes in shared batches: where each gets to, or why it is refused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from larc.errors import LarcError
from larc.feedback import CandidateLosses, Feedback, Label
from larc.objectives import FeedbackObjective
from larc.questions import Limits
from larc.residual import Factors
from larc.scoring import Normalise
from larc.stepping import Extras, StepContext, StepResult, UpdateRule, take_step
from larc.substrate.frozen import Substrate


@dataclass(frozen=True)
class Update:
    """What one update did.

    Attributes
    ----------
    loss
        The loss before it.
    distance
        How far the factors moved.
    after
        The loss after it, if the rule looked: `Descent` does, `SGD` does not.
    evaluations
        How often the model evaluated the feedback for it.
    """

    loss: float
    distance: float
    after: float | None = None
    evaluations: int = 1


@dataclass(frozen=True)
class Step:
    """What one episode of a batch is to take: a step of its rule from its factors.

    Attributes
    ----------
    number
        Its place in the batch.
    rule, factors, feedback
        How it moves, from where, and on what.
    slow, taken, extras
        Where it resets to, the updates since then, and what its rule keeps beside the factors.
    share_key
        Episodes of one mark may share what is computed while their factors are equal.
    """

    number: int
    rule: UpdateRule
    factors: Factors
    feedback: Sequence[Feedback]
    slow: Factors
    taken: int
    extras: Extras
    share_key: Hashable


@dataclass(frozen=True)
class Moved:
    """Where a step takes an episode."""

    factors: Factors
    extras: Extras
    update: Update


class _NotFinite(LarcError):
    """An update that left the numbers."""


def take_steps(
    substrate: Substrate,
    boundary: int,
    limits: Limits,
    steps: Sequence[Step],
    normalise: Normalise = "mean",
) -> dict[int, Moved | LarcError]:
    """Return where each episode gets to, or its refusal, by its place; nothing is changed.

    Episodes of one rule share their physical batches; one that is refused harms no other.
    """
    groups: list[list[Step]] = []
    for step in steps:
        group = next((group for group in groups if group[0].rule == step.rule), None)
        if group is None:
            groups.append([step])
        else:
            group.append(step)
    results: dict[int, Moved | LarcError] = {}
    for group in groups:
        results |= _steps_of_one_rule(substrate, boundary, limits, group, normalise)
    return results


def _steps_of_one_rule(
    substrate: Substrate,
    boundary: int,
    limits: Limits,
    group: Sequence[Step],
    normalise: Normalise,
) -> dict[int, Moved | LarcError]:
    objective = FeedbackObjective.of(
        substrate,
        boundary,
        [step.feedback for step in group],
        limits,
        [step.share_key for step in group],
        normalise=normalise,
        offsets=[step.extras.offsets for step in group],
    )
    before, rule = Factors.stack([step.factors for step in group]), group[0].rule
    context = StepContext(
        Factors.stack([step.slow for step in group]),
        torch.tensor([step.taken for step in group], device=before.A.device),
        Extras.stacked([step.extras for step in group], before),
    )
    try:
        after = take_step(rule, objective, before, context)
    except LarcError as refusal:
        if len(group) == 1:
            return {group[0].number: refusal}
        # A rule does not say whose feedback it refuses: each is tried by itself.
        alone = [
            _steps_of_one_rule(substrate, boundary, limits, [step], normalise) for step in group
        ]
        return {number: result for one in alone for number, result in one.items()}
    lengths = after.factors.combine(before, torch.sub).norm()
    finite = (after.factors.finite() & after.losses.isfinite() & lengths.isfinite()).tolist()
    distances = lengths.tolist()
    losses, reached = after.losses.tolist(), after.reached()
    spent = [1] * len(group) if after.evaluations is None else after.evaluations.tolist()
    results: dict[int, Moved | LarcError] = {}
    extras = _extras(rule, objective, after, [step.extras for step in group])
    for place, step in enumerate(group):
        if finite[place]:
            update = Update(losses[place], distances[place], reached[place], spent[place])
            results[step.number] = Moved(after.factors.at(place).copy(), extras[place], update)
        else:
            results[step.number] = _NotFinite(
                "the update is not finite and nothing was changed; take smaller steps or reset it."
            )
    return results


def _extras(
    rule: UpdateRule, objective: FeedbackObjective, after: StepResult, extras: Sequence[Extras]
) -> list[Extras]:
    """Return what episodes keep beside their factors after an update."""
    size = getattr(rule, "offset_size", 0.0)
    slopes = objective.offset_slopes() if size else [{}] * len(extras)
    return [
        Extras(
            {name: moment[place].detach().clone() for name, moment in after.moments.items()},
            one.moved(slopes[place], size) if size else one.offsets,
        )
        for place, one in enumerate(extras)
    ]


def check_all_moved(results: Mapping[int, Moved | LarcError]) -> None:
    """Refuse a whole batch if any of its episodes was refused."""
    refused = {n: one for n, one in sorted(results.items()) if isinstance(one, LarcError)}
    if not refused:
        return
    numbers = [number for number, one in refused.items() if isinstance(one, _NotFinite)]
    if len(numbers) < len(refused):
        raise next(one for one in refused.values() if not isinstance(one, _NotFinite))
    raise LarcError(
        f"the update of episode {numbers} of this batch is not finite and no episode was changed; "
        "take smaller steps or reset it."
    )


def feedback_list(feedback: Feedback | Sequence[Feedback]) -> list[Feedback]:
    """Return feedback as a list of its pieces, refusing what is none.

    Examples
    --------
    >>> len(feedback_list(Label("2+2=", ["4", "5"], 0)))
    1
    """
    pieces: list[Any] = list(feedback) if isinstance(feedback, list | tuple) else [feedback]
    if not pieces:
        raise LarcError("an update was asked for with no feedback; give at least one piece.")
    for piece in pieces:
        if not isinstance(piece, CandidateLosses | Label):
            raise LarcError(
                f"feedback of type {type(piece).__name__} was given; "
                "give CandidateLosses or a Label, or a list of them."
            )
    return pieces
