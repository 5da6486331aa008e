"""A safety net against late labels: chains of questions within which no label is late.

A question is put into a chain whose last label has arrived, so the weights of a chain always know
all of its own past. There are as many chains as questions were ever outstanding at once. In each,
the main mixture and the predictors themselves are weighed against each other: if late labels lead
the mixture astray again and again, every chain leaves it (Weinberger and Ordentlich 2002; Joulani,
György and Szepesvári 2013). The c-th chain begins with all but ``1 / (c + 1)**2`` on the mixture,
so that all nets together cost it at most ``ln 2 / 2``, however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import numpy as np

from larc.stream.mixing.brier_game import Floats
from larc.stream.mixing.components import LEAST


class Chains:
    """The weights of every chain: one for each predictor, and the main mixture's last.

    Examples
    --------
    >>> chains = Chains(predictors=2)
    >>> [chains.take(), chains.take()]
    [0, 1]
    >>> chains.weights[0].round(3)
    array([0.125, 0.125, 0.75 ])
    >>> chains.learn(0, np.array([0.5, 1.0]), mixture=0.5)
    >>> chains.weights[0].round(3), chains.take()
    (array([0.111, 0.222, 0.667]), 0)
    """

    def __init__(self, predictors: int) -> None:
        self.predictors = predictors
        self.weights: list[Floats] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.weights)

    def take(self) -> int:
        """Return a chain for a new question: the first free one, or one more."""
        if self._free:
            return heapq.heappop(self._free)
        net = 1.0 / (len(self.weights) + 2) ** 2
        weights = np.full(self.predictors + 1, net / self.predictors)
        weights[-1] = 1.0 - net
        self.weights.append(weights)
        return len(self.weights) - 1

    def learn(self, chain: int, likelihoods: Floats, mixture: float) -> None:
        """Learn from the label of a chain's question, and free the chain.

        Parameters
        ----------
        chain
            What :meth:`take` gave for the question.
        likelihoods, mixture
            ``exp(-2 loss)`` of the predictors, and of the main mixture when it was asked.
        """
        weights = self.weights[chain].copy()
        weights[:-1] *= likelihoods
        weights[-1] *= mixture
        self.weights[chain] = np.maximum(weights / weights.sum(), LEAST)
        self.free(chain)

    def free(self, chain: int) -> None:
        """Free a chain whose question has its label, or will never have one."""
        heapq.heappush(self._free, chain)

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON values."""
        return {"weights": [one.tolist() for one in self.weights], "free": sorted(self._free)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of chains over the same predictors."""
        weights = [np.array(one, dtype=np.float64) for one in state["weights"]]
        if any(one.shape != (self.predictors + 1,) for one in weights):
            raise ValueError("an array has the wrong size")
        self.weights = weights
        self._free = [int(chain) for chain in state["free"]]  # sorted, and so a heap
