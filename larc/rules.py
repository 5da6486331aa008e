"""Update rules: how an episode's factors move on the feedback that has arrived."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from larc.errors import LarcError
from larc.residual import Factors


class Objective(Protocol):
    """The losses of a stack of episodes, each on its own feedback."""

    def losses(self, factors: Factors) -> Tensor:
        """Return each episode's loss, differentiable if the factors ask for gradients."""

    def gradients(self, factors: Factors) -> tuple[Tensor, Factors]:
        """Return each episode's loss and its gradient with respect to its own factors."""

    def select(self, episodes: Sequence[int]) -> Objective:
        """Return the objective of some of the episodes, in the order given."""


@dataclass(frozen=True)
class Stepped:
    """A stack of episodes after a rule's update, and each one's loss before it."""

    factors: Factors
    losses: Tensor


class UpdateRule(Protocol):
    """What an episode binds: a function from feedback and factors to the next factors.

    Write a frozen dataclass with a ``step``; its fields are saved with an episode.
    """

    def step(
        self, objective: Objective, factors: Factors, *, differentiable: bool = False
    ) -> Stepped:
        """Return the next factors of every episode of the stack.

        With ``differentiable`` the result keeps its dependence on the given factors, for the exact
        outer gradient.
        """


@dataclass(frozen=True)
class SGD:
    """One gradient step of fixed size: no momentum, no decay, no clipping.

    Examples
    --------
    >>> SGD(step_size=0.1)
    SGD(step_size=0.1)
    """

    step_size: float = 0.1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise LarcError(f"step size {self.step_size} was given; give a positive number.")

    def step(
        self, objective: Objective, factors: Factors, *, differentiable: bool = False
    ) -> Stepped:
        """Return ``factors - step_size * gradient``."""
        if differentiable:
            losses = objective.losses(factors)
            slopes = torch.autograd.grad(losses.sum(), (factors.A, factors.B), create_graph=True)
            gradients = Factors(*slopes)
        else:
            losses, gradients = objective.gradients(factors)
        moved = factors.combine(gradients, lambda value, slope: value - self.step_size * slope)
        return Stepped(moved, losses.detach())


def parse_rule(text: str) -> UpdateRule:
    """Return the rule that a setting names: its name, then its numbers.

    Examples
    --------
    >>> parse_rule("sgd:0.1")
    SGD(step_size=0.1)
    >>> parse_rule("momentum:0.9")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 'momentum:0.9' names no update rule; write sgd:STEP_SIZE.
    """
    name, *numbers = text.split(":")
    try:
        if name == "sgd":
            return SGD(*map(float, numbers))
    except LarcError:
        raise
    except (TypeError, ValueError):
        pass
    raise LarcError(f"{text!r} names no update rule; write sgd:STEP_SIZE.")


def rule_facts(rule: UpdateRule) -> dict[str, Any]:
    """Return a rule as plain facts: its name and its fields.

    Examples
    --------
    >>> rule_facts(SGD(0.5))
    {'name': 'SGD', 'step_size': 0.5}
    """
    if not is_dataclass(rule) or isinstance(rule, type):
        raise LarcError(f"the rule {rule!r} is no dataclass; its fields are saved with an episode.")
    try:
        # As they will be read back, so that a saved rule equals the one it was saved from.
        facts: dict[str, Any] = json.loads(json.dumps(asdict(rule)))
    except (TypeError, ValueError) as error:
        raise LarcError(f"a field of the rule {rule!r} cannot be saved as JSON.") from error
    return {"name": type(rule).__name__, **facts}
