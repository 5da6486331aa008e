"""The selection rule, fixed before results: which objective is chosen, if any, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from larc.errors import LarcError

# Three percentage points: a smaller gain is not worth acting on, however certain.
MATERIAL = 0.03
TIE = 1e-6
# The simplest objective to train, preferred when nothing else separates two.
FIRST_ON_TIES = "static"


@dataclass(frozen=True)
class Evidence:
    """What one objective showed.

    Parameters
    ----------
    objective
        Its name.
    retention, binding
        G and D of each training seed, as fractions.
    retention_lower, binding_lower
        The lower interval bounds of the seeds' mean G and mean D.
    cost
        Measured training plus adaptation cost, in any unit shared by all objectives.

    Examples
    --------
    >>> Evidence("static", [0.2, 0.4], [0.3, 0.3], 0.1, 0.1, cost=60).retention
    (0.2, 0.4)
    """

    objective: str
    retention: Sequence[float]
    binding: Sequence[float]
    retention_lower: float
    binding_lower: float
    cost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "retention", tuple(float(gain) for gain in self.retention))
        object.__setattr__(self, "binding", tuple(float(gain) for gain in self.binding))
        if not self.retention or len(self.retention) != len(self.binding):
            raise LarcError(
                f"{self.objective} has {len(self.retention)} values of G and {len(self.binding)} "
                "of D; give one of each per training seed."
            )
        bounds = (self.retention_lower, self.binding_lower, self.cost)
        if not all(math.isfinite(value) for value in (*self.retention, *self.binding, *bounds)):
            raise LarcError(
                f"{self.objective} has a value that is not finite; give finite values only."
            )


@dataclass(frozen=True)
class Selection:
    """The objective chosen, or ``None``, and one sentence that says why."""

    chosen: str | None
    reason: str


def is_material(estimate: float, lower: float) -> bool:
    """Whether a gain is at least three points and its interval stays above zero.

    Examples
    --------
    >>> is_material(0.0469, 0.0119), is_material(0.0469, -0.001), is_material(0.02, 0.01)
    (True, False, False)
    """
    if not (math.isfinite(estimate) and math.isfinite(lower)):
        raise LarcError(
            f"a gain of {estimate} with lower bound {lower} is not finite; give finite values only."
        )
    return bool(estimate >= MATERIAL and lower > 0)


def is_eligible(evidence: Evidence) -> bool:
    """Whether G and D are both material and both positive for every training seed.

    Examples
    --------
    >>> is_eligible(Evidence("static", [0.2, 0.4], [0.3, 0.3], 0.1, 0.1, cost=60))
    True
    >>> is_eligible(Evidence("static", [-0.1, 0.7], [0.3, 0.3], 0.1, 0.1, cost=60))
    False
    """
    return not _shortfall(evidence)


def worst_seed_gain(evidence: Evidence) -> float:
    """Return the smaller of G and D at the training seed where that is smallest.

    Examples
    --------
    >>> worst_seed_gain(Evidence("static", [0.2, 0.4], [0.3, 0.1], 0.1, 0.1, cost=60))
    0.1
    """
    return min(*evidence.retention, *evidence.binding)


def select_objective(evidence: Sequence[Evidence]) -> Selection:
    """Choose the eligible objective with the best worst seed.

    Objectives within 1e-6 of the best are tied. The cheapest of them is chosen; at exactly equal
    cost the static objective, and without it the one given first.

    Examples
    --------
    >>> steady = Evidence("static", [0.20, 0.25], [0.30, 0.30], 0.1, 0.1, cost=60)
    >>> uneven = Evidence("adapted", [0.15, 0.55], [0.15, 0.60], 0.1, 0.1, cost=90)
    >>> select_objective([steady, uneven])
    Selection(chosen='static', reason='static has the best worst seed: 0.2000 against 0.1500 for
    adapted.')
    """
    names = [item.objective for item in evidence]
    if not names or len(set(names)) < len(names):
        raise LarcError(f"the objectives are {names}; give at least one, each of them once.")
    if len({len(item.retention) for item in evidence}) > 1:
        raise LarcError("the objectives have different numbers of seeds; give the same seeds.")
    eligible = [item for item in evidence if is_eligible(item)]
    if not eligible:
        shortfalls = "; ".join(f"for {item.objective}, {_shortfall(item)}" for item in evidence)
        return Selection(None, f"no objective is eligible: {shortfalls}.")

    best = max(worst_seed_gain(item) for item in eligible)
    tied = [item for item in eligible if best - worst_seed_gain(item) <= TIE]
    lowest = min(item.cost for item in tied)
    cheapest = [item for item in tied if item.cost == lowest]
    # min is stable: without the preferred objective, the first one given stays.
    chosen = min(cheapest, key=lambda item: item.objective != FIRST_ON_TIES)
    return Selection(chosen.objective, _reason(chosen, eligible, tied, cheapest))


def _shortfall(evidence: Evidence) -> str:
    """Say the first thing that keeps an objective from being eligible; empty if nothing does."""
    for name, seeds, lower in (
        ("G", evidence.retention, evidence.retention_lower),
        ("D", evidence.binding, evidence.binding_lower),
    ):
        mean = math.fsum(seeds) / len(seeds)
        if not is_material(mean, lower):
            return (
                f"{name} is {mean:.4f} with lower bound {lower:.4f}, "
                f"not at least {MATERIAL} and above zero"
            )
        if min(seeds) <= 0:
            return f"{name} is {min(seeds):.4f} for one seed, not positive for all"
    return ""


def _reason(
    chosen: Evidence, eligible: list[Evidence], tied: list[Evidence], cheapest: list[Evidence]
) -> str:
    score = f"{worst_seed_gain(chosen):.4f}"
    if len(eligible) == 1:
        return f"{chosen.objective} is the only eligible objective, with worst seed {score}."
    if len(tied) == 1:
        others = ", ".join(
            f"{worst_seed_gain(item):.4f} for {item.objective}"
            for item in eligible
            if item is not chosen
        )
        return f"{chosen.objective} has the best worst seed: {score} against {others}."
    names = " and ".join(item.objective for item in tied)
    if len(cheapest) == 1:
        return f"{names} tie at worst seed {score}; {chosen.objective} costs least."
    order = "is the simplest" if chosen.objective == FIRST_ON_TIES else "was given first"
    return f"{names} tie at worst seed {score} and in cost; {chosen.objective} {order}."
