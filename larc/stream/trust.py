"""Whom a forecaster trusted, when and why: a few numbers for each predictor, and the turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from larc.stream.brier_game import Floats


@dataclass(frozen=True)
class Turn:
    """A moment at which another predictor became the most trusted one.

    Attributes
    ----------
    asked, labels
        The questions asked, and the labels that had arrived.
    before, after
        The two predictors.
    weight
        That of the new one.
    gain
        How much less than the old one it lost, over the labels since the old one was furthest
        ahead of it. One that was asleep counts with the forecaster's loss.
    """

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


class TrustRecord:
    """Adds up what a report needs."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        # Rows: questions, weights, led; labels, losses, regrets; gain on who leads.
        self._sums: Floats = np.zeros((7, len(self.names)))
        self._asked = self._labels = self._leader = 0
        self._turns: list[Turn] = []

    @property
    def regrets(self) -> Floats:
        """What the forecaster lost more than each predictor, where that one answered."""
        regrets: Floats = self._sums[5].copy()
        return regrets

    def asked(self, answered: Floats, weights: Floats) -> None:
        """Count a question, with the weights that were used."""
        self._asked += 1
        self._sums[0] += answered
        self._sums[1] += weights
        self._sums[2, int(weights.argmax())] += 1

    def learned(self, answered: Floats, losses: Floats, gains: Floats) -> None:
        """Count a label, with the predictors' losses and what those who answered gained."""
        self._labels += 1
        self._sums[3] += answered
        self._sums[4] += losses * answered
        self._sums[5] += gains
        self._sums[6] += losses[self._leader] - losses
        np.maximum(self._sums[6], 0.0, out=self._sums[6])

    def settle(self, weights: Floats) -> None:
        """See who is trusted most, now that all labels of a batch are learned."""
        leader, before = int(weights.argmax()), self._leader
        # The first of equals leads until another is truly ahead.
        if weights[leader] > weights[before]:
            weight, gain = float(weights[leader] / weights.sum()), float(self._sums[6, leader])
            old, new = self.names[before], self.names[leader]
            self._turns.append(Turn(self._asked, self._labels, old, new, weight, gain))
            self._sums[6] = 0.0
            self._leader = leader

    def report(self) -> Trust:
        """Return standings and turns."""
        standings = {}
        for name, sums in zip(self.names, self._sums.T.tolist(), strict=True):
            asked, weight, led, labels, loss, regret, _ = sums
            mean = weight / asked if asked else 0.0
            standings[name] = Standing(int(asked), mean, int(led), int(labels), loss, regret)
        return Trust(standings, tuple(self._turns))

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON values."""
        return {
            "sums": self._sums.tolist(),
            "asked": self._asked,
            "labels": self._labels,
            "leader": self._leader,
            "turns": [asdict(turn) for turn in self._turns],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of a record of the same predictors."""
        sums = np.array(state["sums"], dtype=np.float64)
        if sums.shape != self._sums.shape:
            raise ValueError("an array has the wrong size")
        self._sums = sums
        self._asked, self._labels = int(state["asked"]), int(state["labels"])
        self._leader = int(state["leader"])
        self._turns = [Turn(**turn) for turn in state["turns"]]
