"""How texts are proposed and learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from larc.checks import whole_number
from larc.errors import LarcError
from larc.proposals.sampling import Request

Estimate = Literal["expected", "self-normalised", "policy-gradient"]


@dataclass(frozen=True)
class ImproveSettings:
    """How texts are proposed and learned from.

    Attributes
    ----------
    n, max_tokens, temperature
        How many new texts are proposed in a round, and how they are drawn.
    estimate
        What an update lowers: the ``expected`` loss of a choice among the texts, a
        ``self-normalised`` estimate of the loss of all that would be written, or a
        ``policy-gradient`` with a baseline. The last two are of texts drawn at temperature 1 and
        without a grammar: only then are they drawn as the model scores them.
    steps
        Steps of the rule in a round.
    pool
        The most texts an update learns from: those of the round, and earlier ones; the best of
        them, and for a self-normalised estimate, which a choice by losses would bias, the latest.
        With 0, those of the round alone.
    target
        A text whose loss is at most this solves the problem.
    rounds, calls, positions
        When to stop: after so many rounds, texts judged, or positions of the model that prompts and
        texts took; none where there is no such bound.
    keep
        Whether what was learned is kept; without, nothing is learned and every round starts from
        the slow state: the best of n.
    sham
        Whether the losses of a round are dealt to its texts at random, once, before anything is
        learned from them. The true ones only say when a text is right.
    learn_last
        Whether also the last round is learned from. Without, only what was written counts.
    """

    n: int = 8
    max_tokens: int = 32
    temperature: float = 1.0
    estimate: Estimate = "expected"
    steps: int = 1
    pool: int = 0
    target: float = 0.0
    rounds: int | None = None
    calls: int | None = None
    positions: int | None = None
    keep: bool = True
    sham: bool = False
    learn_last: bool = True

    def __post_init__(self) -> None:
        Request("", self.n, self.max_tokens, self.temperature)  # refuses what cannot be drawn
        if self.estimate not in get_args(Estimate):
            known = ", ".join(get_args(Estimate))
            raise LarcError(f"estimate {self.estimate!r} is unknown; use one of {known}.")
        bounds = {"rounds": self.rounds, "calls": self.calls, "positions": self.positions}
        if all(bound is None for bound in bounds.values()):
            raise LarcError("nothing ends the search; give rounds, calls or positions.")
        numbers = {"steps": self.steps, **{k: v for k, v in bounds.items() if v is not None}}
        for name, value in numbers.items():
            whole_number(value, name, least=1)
        whole_number(self.pool, "pool")
        if self.estimate == "policy-gradient" and self.pool:
            raise LarcError("a policy gradient is of the round's own texts; leave the pool at 0.")
        if self.estimate != "expected" and self.temperature != 1:
            raise LarcError(
                f"a {self.estimate} estimate is of texts drawn at temperature 1; give that, or "
                "estimate='expected'."
            )
