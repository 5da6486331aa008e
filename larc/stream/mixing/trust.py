"""Whom a forecaster trusted, when and why: a few numbers for each predictor, and the turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from larc.stream.mixing.brier_game import Floats


@dataclass(frozen=True)
class Turn:
    """A moment at which another predictor became the most trusted one in a context.

    Attributes
    ----------
    context
        Where; one name for all where weights do not depend on it.
    asked, labels
        The questions asked by then, and the labels that had arrived, of all contexts.
    before, after
        The two predictors.
    weight
        That of the new one.
    gain
        How much less than the old one it lost there, over the labels since the old one was
        furthest ahead of it. One that was asleep counts with the forecaster's loss.
    """

    context: str
    asked: int
    labels: int
    before: str
    after: str
    weight: float
    gain: float


@dataclass(frozen=True)
class Standing:
    """How one predictor stands.

    Attributes
    ----------
    asked
        The questions it answered.
    mean_weight
        Its mean weight in them.
    led
        In how many of them it had the greatest weight.
    labels, loss
        The labels of such questions that arrived, and its total loss on them.
    regret
        How much more the forecaster lost on them.
    """

    asked: int
    mean_weight: float
    led: int
    labels: int
    loss: float
    regret: float


@dataclass(frozen=True)
class Trust:
    """Standings by predictor, and the turns in the order they happened."""

    standings: Mapping[str, Standing]
    turns: tuple[Turn, ...]


@dataclass(eq=False)
class _Lead:
    """Who is trusted most in a context, and how far each other has come since he was ahead."""

    leader: int
    gains: Floats


class TrustRecord:
    """Adds up what a report needs.

    Parameters
    ----------
    names
        The predictors.
    contexts
        The most contexts to follow; the one that was asked longest ago is given up.
    """

    def __init__(self, names: Sequence[str], contexts: int = 1) -> None:
        self.names = tuple(names)
        self.limit = max(contexts, 1)
        # Rows: questions, weights, led; labels, losses, regrets.
        self._sums: Floats = np.zeros((6, len(self.names)))
        self._asked = self._labels = 0
        self._leads: OrderedDict[str, _Lead] = OrderedDict()
        self._turns: list[Turn] = []

    @property
    def regrets(self) -> Floats:
        """What the forecaster lost more than each predictor, where that one answered."""
        regrets: Floats = self._sums[5].copy()
        return regrets

    def asked(self, context: str, answered: Floats, used: Floats, trusted: Floats) -> None:
        """Count a question, with the weights that were used and those its context had earned."""
        self._asked += 1
        self._sums[0] += answered
        self._sums[1] += used
        self._sums[2, int(used.argmax())] += 1
        if context not in self._leads:
            # A context begins with whoever is trusted as it begins.
            self._leads[context] = _Lead(int(trusted.argmax()), np.zeros(len(self.names)))
        self._leads.move_to_end(context)
        if len(self._leads) > self.limit:
            self._leads.popitem(last=False)

    def learned(self, context: str, answered: Floats, losses: Floats, gains: Floats) -> None:
        """Count a label, with the predictors' losses and what those who answered gained."""
        self._labels += 1
        self._sums[3] += answered
        self._sums[4] += losses * answered
        self._sums[5] += gains
        lead = self._leads.get(context)
        if lead is not None:
            lead.gains = np.maximum(lead.gains + losses[lead.leader] - losses, 0.0)

    def settle(self, context: str, weights: Floats) -> None:
        """See who is trusted most in a context, now that all labels of a batch are learned."""
        lead = self._leads.get(context)
        if lead is None:
            return
        leader, before = int(weights.argmax()), lead.leader
        # The first of equals leads until another is truly ahead.
        if weights[leader] > weights[before]:
            weight, gain = float(weights[leader] / weights.sum()), float(lead.gains[leader])
            old, new = self.names[before], self.names[leader]
            self._turns.append(Turn(context, self._asked, self._labels, old, new, weight, gain))
            lead.leader, lead.gains = leader, np.zeros(len(self.names))

    def report(self) -> Trust:
        """Return standings and turns."""
        standings = {}
        for name, sums in zip(self.names, self._sums.T.tolist(), strict=True):
            asked, weight, led, labels, loss, regret = sums
            mean = weight / asked if asked else 0.0
            standings[name] = Standing(int(asked), mean, int(led), int(labels), loss, regret)
        return Trust(standings, tuple(self._turns))

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON values."""
        return {
            "sums": self._sums.tolist(),
            "asked": self._asked,
            "labels": self._labels,
            # Pairs and not an object: their order decides who is given up.
            "leads": [
                [name, lead.leader, lead.gains.tolist()] for name, lead in self._leads.items()
            ],
            "turns": [asdict(turn) for turn in self._turns],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of a record of the same predictors."""
        sums = np.array(state["sums"], dtype=np.float64)
        leads = [
            (str(name), _Lead(int(leader), np.array(gains, dtype=np.float64)))
            for name, leader, gains in state["leads"]
        ]
        sizes = {lead.gains.shape for _, lead in leads}
        if sums.shape != self._sums.shape or sizes - {(len(self.names),)}:
            raise ValueError("an array has the wrong size")
        self._sums, self._leads = sums, OrderedDict(leads)
        self._asked, self._labels = int(state["asked"]), int(state["labels"])
        self._turns = [Turn(**turn) for turn in state["turns"]]


def upgraded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state of before turns were followed by context: who leads where is found anew."""
    turns = [{"context": "", **turn} for turn in state["turns"]]
    return {**state, "sums": state["sums"][:6], "turns": turns, "leads": []}
