"""Private states side by side, as a training walks them through their updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from larc.errors import LarcError
from larc.objectives import FeedbackObjective
from larc.residual import Factors
from larc.rules import RULES, SGD, Descent, parse_rule
from larc.state import SlowState
from larc.stepping import Extras, Objective, StepContext, StepResult, UpdateRule, take_step

#: Steps that can be learned, among what is trained: logarithms of sizes, and the slowing.
STEP, STEP_B, SLOWING = "log_step", "log_step_b", "slowing"
_FARTHEST = 80.0  # of a logarithm: float32 holds no larger steps


class FastStack:
    """The fast states of several episodes, from a slow state on.

    Parameters
    ----------
    rule
        How they move.
    start
        Where each of them starts: a stack.
    """

    def __init__(self, rule: UpdateRule, start: Factors) -> None:
        self.rule, self.slow, self.factors = rule, start, start
        self.taken = torch.zeros(len(start.A), dtype=torch.long, device=start.A.device)
        self.moments: dict[str, Tensor] = {}
        self.offsets: list[Mapping[str, float]] = [{} for _ in range(len(start.A))]

    def under(self, objective: FeedbackObjective) -> FeedbackObjective:
        """Return an objective of all episodes with the private offsets that they have now."""
        if not any(self.offsets):
            return objective
        return replace(objective, offsets=tuple(self.offsets), energy_slopes={})

    def some(self, episodes: Sequence[int]) -> Factors:
        """Return the factors of some episodes; the very same where it is all of them."""
        if len(episodes) == len(self.factors.A):
            return self.factors
        return self.factors.at(self._chosen(episodes))

    def context(self, episodes: Sequence[int]) -> StepContext:
        """Return what the rule may go by, for some episodes."""
        return StepContext(self.slow, self.taken, self.moments).at(self._chosen(episodes))

    def step(
        self,
        objective: Objective,
        episodes: Sequence[int],
        slopes: Callable[[], Sequence[Mapping[str, float]]] | None = None,
        *,
        here: Factors | None = None,
        differentiable: bool = False,
    ) -> StepResult:
        """Take one step of some episodes on their feedback.

        ``slopes`` gives, after it, those of their losses at their private offsets; ``here`` is
        `some` of them, the very ones that an objective knows its gradients at.
        """
        here = self.some(episodes) if here is None else here
        result = take_step(
            self.rule, objective, here, self.context(episodes), differentiable=differentiable
        )
        chosen = self._chosen(episodes)
        if len(episodes) == len(self.factors.A):
            self.factors = result.factors
        else:
            self.factors = self.factors.combine(
                result.factors, lambda whole, part: whole.index_copy(0, chosen, part)
            )
        for name, moment in result.moments.items():
            if name not in self.moments:
                whole = self.factors.A if name.endswith(".A") else self.factors.B
                self.moments[name] = torch.zeros_like(whole)
            self.moments[name] = self.moments[name].index_copy(0, chosen, moment)
        size = getattr(self.rule, "offset_size", 0.0)
        if size and slopes is not None:
            for number, pulls in zip(episodes, slopes(), strict=True):
                self.offsets[number] = Extras(offsets=self.offsets[number]).moved(pulls, size)
        self.taken = self.taken.index_add(0, chosen, torch.ones_like(chosen))
        return result

    def _chosen(self, episodes: Sequence[int]) -> Tensor:
        return torch.tensor(list(episodes), dtype=torch.long, device=self.factors.A.device)


def learnable_steps(rule: UpdateRule, slow: SlowState, *, several: bool) -> dict[str, float]:
    """Return the steps that learning starts from, as they are trained.

    A state that has learned its steps goes on from there. With ``several``, ``A`` and ``B`` have a
    step each, and steps may come to slow down; else ``B`` has one where its size is its own.

    Examples
    --------
    >>> from larc.substrate import load_substrate
    >>> slow = SlowState.initial(load_substrate("tiny"), seed=1)
    >>> learnable_steps(SGD(1.0), slow, several=True)
    {'log_step': 0.0, 'log_step_b': 0.0, 'slowing': 0.0}
    """
    if type(rule) not in RULES.values():  # the state that has it could not be read again
        raise LarcError(
            f"the steps of {type(rule).__name__} cannot be learned: it is no rule of this package; "
            "leave the step rate at 0."
        )
    learned = parse_rule(slow.rule) if slow.rule else None
    if type(learned) is type(rule):
        rule = learned
    if isinstance(rule, Descent):
        return {STEP: math.log(rule.length)}
    if not isinstance(rule, SGD):
        raise LarcError(
            f"the steps of {type(rule).__name__} cannot be learned; leave the step rate at 0."
        )
    size = rule.step_size if learned is not None else slow.step_size or rule.step_size
    if not several and rule.step_size_b is None:
        return {STEP: math.log(size)}
    size_b = size if rule.step_size_b is None else rule.step_size_b
    steps = {STEP: math.log(size), STEP_B: math.log(size_b)}
    return {**steps, SLOWING: rule.slowing} if several else steps


def with_steps(rule: UpdateRule, trained: Mapping[str, Tensor]) -> UpdateRule:
    """Return a rule with the steps among what is trained.

    Examples
    --------
    >>> with_steps(SGD(0.5), {STEP: torch.zeros(()), SLOWING: torch.tensor(0.25)})
    SGD(step_size=1.0, slowing=0.25)
    """
    changes: dict[str, Any] = {}
    if STEP in trained:
        name = "length" if isinstance(rule, Descent) else "step_size"
        changes[name] = _size(trained[STEP])
    if STEP_B in trained:
        changes["step_size_b"] = _size(trained[STEP_B])
    if SLOWING in trained:
        changes["slowing"] = max(0.0, float(trained[SLOWING].detach()))
    known = {one.name for one in fields(rule)}  # type: ignore[arg-type]  # rules are dataclasses
    return replace(rule, **{k: v for k, v in changes.items() if k in known})  # type: ignore[type-var]


def _size(logarithm: Tensor) -> float:
    value = float(logarithm.detach())
    if abs(value) > _FARTHEST:
        raise LarcError(f"a step size of e^{value:.0f} was learned; lower the step rate.")
    return math.exp(value)


def step_shares(
    rule: UpdateRule, pull: Factors, before: Factors, after: Factors, context: StepContext
) -> dict[str, float]:
    """Return what a loss gains by each learnable step of one update.

    ``pull`` is the loss's gradient at the factors after it. A size that grows by a share takes the
    step further by that share. Of several steps that `Descent` takes in one update, later ones are
    taken to go as they went.

    Examples
    --------
    >>> one = Factors(torch.ones(1, 1, 2), torch.zeros(1, 2, 1))
    >>> context = StepContext(one, torch.tensor([1]))
    >>> moved = one.map(lambda tensor: tensor + 0.5)
    >>> step_shares(SGD(0.1), one, one, moved, context)
    {'log_step': 1.0, 'log_step_b': 0.0, 'slowing': -0.69...}
    """
    decay = getattr(rule, "decay", 0.0)
    if decay:  # what the pull to the slow state did is no part of the step
        home = context.slow.map(Tensor.detach)
        before = home.combine(before, lambda slow, v: slow + (v - slow) / (1 + decay))
    moves = after.combine(before, torch.sub).combine(pull, torch.mul)
    by_a, by_b = moves.A.sum((-2, -1)), moves.B.sum((-2, -1))
    later = torch.log1p(context.taken.to(by_a.dtype))
    return {
        STEP: float(by_a.sum()),
        STEP_B: float(by_b.sum()),
        SLOWING: -float(((by_a + by_b) * later).sum()),
    }


def shares_of(shares: Mapping[str, float], trained: Collection[str]) -> dict[str, float]:
    """Return the shares of what is trained; one step for both factors has the sum of theirs.

    Examples
    --------
    >>> shares_of({STEP: 1.0, STEP_B: 2.0, SLOWING: 3.0}, [STEP])
    {'log_step': 3.0}
    """
    if STEP in trained and STEP_B not in trained:
        return {STEP: shares[STEP] + shares[STEP_B]}
    return {name: share for name, share in shares.items() if name in trained}
