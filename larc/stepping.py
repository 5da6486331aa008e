"""What an update rule is given and gives back, and what an episode keeps for it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

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
class StepResult:
    """A stack of episodes after a rule's update.

    Attributes
    ----------
    factors
        The next factors.
    losses
        Each episode's loss before the update.
    after
        Each one's loss after it, if the rule looked.
    evaluations
        How often the feedback of each was evaluated, if not once.
    moments
        What the rule remembers for the next update, by name, if it remembers anything.
    """

    factors: Factors
    losses: Tensor
    after: Tensor | None = None
    evaluations: Tensor | None = None
    moments: Mapping[str, Tensor] = field(default_factory=dict)

    def reached(self) -> list[float | None]:
        """Return each episode's loss after the update; ``None`` where the rule did not look."""
        return [None] * len(self.losses) if self.after is None else self.after.tolist()


class UpdateRule(Protocol):
    """What an episode binds: a function from feedback and factors to the next factors.

    Write a frozen dataclass with a ``step``; its fields are saved with an episode. A rule that has
    ``takes_context = True`` gets a `StepContext` as well, by the name of ``context``.
    """

    def step(
        self, objective: Objective, factors: Factors, *, differentiable: bool = False
    ) -> StepResult:
        """Return the next factors of every episode of the stack.

        With ``differentiable`` the result keeps its dependence on the given factors, for the exact
        outer gradient.
        """


@dataclass(frozen=True, eq=False)
class StepContext:
    """What a rule may go by besides feedback and factors, for a stack of episodes.

    Attributes
    ----------
    slow
        The factors that each episode resets to.
    taken
        How many updates each has had since.
    moments
        What the rule remembered of its last update, by name; empty before the first.
    """

    slow: Factors
    taken: Tensor
    moments: Mapping[str, Tensor] = field(default_factory=dict)

    def at(self, chosen: Tensor) -> StepContext:
        """Return the context of some of the episodes."""
        moments = {name: moment.index_select(0, chosen) for name, moment in self.moments.items()}
        return StepContext(self.slow.at(chosen), self.taken.index_select(0, chosen), moments)


def take_step(
    rule: UpdateRule,
    objective: Objective,
    factors: Factors,
    context: StepContext,
    *,
    differentiable: bool = False,
) -> StepResult:
    """Let a rule take its step; one that asks for no context gets none."""
    more: dict[str, Any] = {"context": context} if getattr(rule, "takes_context", False) else {}
    return rule.step(objective, factors, differentiable=differentiable, **more)


@dataclass(frozen=True, eq=False)
class Extras:
    """What an episode keeps beside its factors, where its rule wants it; empty at the slow state.

    Attributes
    ----------
    moments
        What the rule remembers, by name.
    offsets
        A private bias for each candidate that feedback was about, by its text.
    """

    moments: Mapping[str, Tensor] = field(default_factory=dict)
    offsets: Mapping[str, float] = field(default_factory=dict)

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return sum(moment.numel() for moment in self.moments.values()) + len(self.offsets)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values, bit for bit; nothing where there is nothing."""
        if not self.moments and not self.offsets:
            return {}
        moments = {
            name: {
                "shape": list(moment.shape),
                "data": base64.b64encode(moment.detach().cpu().numpy().tobytes()).decode(),
            }
            for name, moment in self.moments.items()
        }
        return {"extras": {"moments": moments, "offsets": dict(self.offsets)}}

    @staticmethod
    def read(facts: Mapping[str, Any]) -> Extras:
        """Return what the facts of a file hold.

        Examples
        --------
        >>> kept = Extras({"square.A": torch.ones(2)}, {"up": 0.25})
        >>> again = Extras.read(kept.facts())
        >>> again.offsets, again.moments["square.A"].tolist(), Extras.read({}).numbers
        ({'up': 0.25}, [1.0, 1.0], 0)
        """
        kept = facts.get("extras", {"moments": {}, "offsets": {}})
        moments = {
            str(name): torch.frombuffer(
                bytearray(base64.b64decode(moment["data"])), dtype=torch.float32
            ).reshape(moment["shape"])
            for name, moment in kept["moments"].items()
        }
        return Extras(moments, {str(t): float(v) for t, v in kept["offsets"].items()})

    @staticmethod
    def stacked(extras: Sequence[Extras], factors: Factors) -> dict[str, Tensor]:
        """Return the moments of several episodes as stacks; one that has none yet has zeros."""
        names = {name for one in extras for name in one.moments}
        return {
            name: torch.stack(
                [
                    one.moments[name].to(factors.A.device)
                    if name in one.moments
                    else torch.zeros_like(factors.A[0] if name.endswith(".A") else factors.B[0])
                    for one in extras
                ]
            )
            for name in sorted(names)
        }

    def moved(self, slopes: Mapping[str, float], size: float) -> dict[str, float]:
        """Return the offsets after a step down the slopes of a loss at them."""
        texts = dict.fromkeys((*self.offsets, *slopes))
        return {text: self.offsets.get(text, 0.0) - size * slopes.get(text, 0.0) for text in texts}
