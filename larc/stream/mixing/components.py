"""Weights over predictors, kept in several ways at once, and how far each way is believed.

A component keeps weights over the predictors. It has a learning rate, a share, which it gives
back to all predictors alike after every label so that none is lost for good (fixed share), and
a scope: one set of weights for all questions, or one for each context, started half from the
common weights and half from none. How far each component is believed follows the losses of what
*it would have said when the question was asked*, with the labels that had arrived by then. Judged
by what it says when the label arrives, a component that swings with every burst of labels looks
best: it has just seen the burst's other labels.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from larc.stream.mixing.brier_game import RATE, Floats

# Weights stop here and not at zero: a predictor or component can always come back. Raising a
# weight to it breaks no bound, and adds less to their sum than rounding does.
LEAST = 1e-100
#: How much of a new context's weights is uniform; the rest are the common ones of that moment.
UNIFORM = 0.5


class Components:
    """All components: for each rate and share one common, and one by context if they are wanted.

    Parameters
    ----------
    predictors
        How many there are.
    rates, shares
        Learning rates up to 2, and shares from 0; every pair is used.
    contexts
        The most contexts to hold weights for; 0 for none. The one that learned longest ago is
        given up, and starts anew if it comes back.

    Attributes
    ----------
    learned
        The labels learned from.
    starts
        How often a context's weights were started.
    late_belief, late
        What late labels cost so far: the belief, and each component. See `mixing.bounds`.
    """

    def __init__(
        self, predictors: int, rates: Sequence[float], shares: Sequence[float], contexts: int
    ) -> None:
        pairs = [(rate, share) for rate in rates for share in shares]
        scopes = 2 if contexts else 1
        self.predictors = predictors
        self.limit = contexts
        self.rows = len(pairs)
        self.rates = np.array([rate for rate, _ in pairs] * scopes)
        self.shares = np.array([share for _, share in pairs] * scopes)
        self.belief: Floats = np.full(self.rows * scopes, 1.0 / (self.rows * scopes))
        self.common: Floats = np.full((self.rows, predictors), 1.0 / predictors)
        self.own: OrderedDict[str, Floats] = OrderedDict()
        self.counts: dict[str, int] = {}
        self.learned = self.starts = 0
        self.late_belief = 0.0
        self.late: Floats = np.zeros(len(self.rates))
        self._ones: Floats = np.ones(predictors)
        self._keep = (1.0 - self.shares)[:, None]
        self._give = (self.shares / predictors)[:, None]

    def weights(self, context: str) -> Floats:
        """Return every component's weights for a context, ``[components, predictors]``."""
        if not self.limit:
            return self.common
        context_weights = self.own.get(context)
        if context_weights is None:
            context_weights = (1.0 - UNIFORM) * self.common + UNIFORM / self.predictors
        return np.concatenate((self.common, context_weights))

    def learn(self, context: str, losses: Floats, asked: Floats, believed: float) -> None:
        """Learn from a label.

        Parameters
        ----------
        context
            The question's.
        losses
            Of every predictor; of one that was asleep, the mixture's.
        asked
            ``exp(-2 loss)`` of what each component would have said when the question was asked.
        believed
            Their mean under the belief of that moment.
        """
        now = float(self.belief @ asked)
        self.late_belief += math.log(now / believed) / RATE
        self.belief = np.maximum(self.belief * (asked / now), LEAST)
        weights = self.weights(context) * np.exp(np.multiply.outer(-self.rates, losses))
        totals = weights @ self._ones
        self.late += np.log(totals) / self.rates - np.log(asked) / RATE
        weights = np.maximum(weights * (self._keep / totals[:, None]) + self._give, LEAST)
        self.common = weights[: self.rows]
        self.learned += 1
        if self.limit:
            self._write(context, weights[self.rows :])

    def _write(self, context: str, weights: Floats) -> None:
        if context not in self.own:
            self.starts += 1
        self.own[context] = weights
        self.own.move_to_end(context)
        self.counts[context] = self.counts.get(context, 0) + 1
        if len(self.own) > self.limit:
            gone, _ = self.own.popitem(last=False)
            del self.counts[gone]

    def trusted(self, context: str) -> Floats:
        """Return whom a context trusts now: its weights in every component, as far as believed."""
        trusted: Floats = self.belief @ self.weights(context)
        return trusted

    def peaks(self, least: int) -> Floats:
        """Return each predictor's greatest weight in any context that has had enough labels."""
        peaks: Floats = np.zeros(self.predictors)
        for context, count in self.counts.items():
            if count >= least:
                peaks = np.maximum(peaks, self.trusted(context))
        return peaks

    def state(self) -> dict[str, Any]:
        """Return everything that was learned, as JSON values."""
        return {
            "belief": self.belief.tolist(),
            "common": self.common.tolist(),
            # Pairs and not an object: their order decides who is given up.
            "own": [
                [name, self.counts[name], weights.tolist()] for name, weights in self.own.items()
            ],
            "learned": self.learned,
            "starts": self.starts,
            "late_belief": self.late_belief,
            "late": self.late.tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of components with the same settings."""
        shapes = {"belief": self.belief.shape, "common": self.common.shape, "late": self.late.shape}
        read = {name: np.array(state[name], dtype=np.float64) for name in shapes}
        loaded = {name: np.array(weights, dtype=np.float64) for name, _, weights in state["own"]}
        if any(read[name].shape != shape for name, shape in shapes.items()) or any(
            weights.shape != self.common.shape for weights in loaded.values()
        ):
            raise ValueError("an array has the wrong size")
        self.belief, self.common, self.late = read["belief"], read["common"], read["late"]
        self.own = OrderedDict(loaded)
        self.counts = {name: int(count) for name, count, _ in state["own"]}
        self.learned, self.starts = int(state["learned"]), int(state["starts"])
        self.late_belief = float(state["late_belief"])
