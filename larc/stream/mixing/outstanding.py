"""A question whose label is awaited: all that is needed to learn from it when it comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from larc.stream.mixing.brier_game import Floats


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What was said when a question was asked; the last four go by outcome.

    Attributes
    ----------
    context, chain
        The question's.
    answered, used
        One for each predictor that answered and zero for others, and the weights used.
    likelihoods
        ``exp(-2 loss)`` of every predictor; one that did not answer has the mixture's loss.
    own
        The forecaster's loss.
    components, mixture
        ``exp(-2 loss)`` of what each component would have said, and of the main mixture.
        All losses are times the question's weight.
    """

    context: str
    chain: int
    answered: Floats
    used: Floats
    likelihoods: Floats
    own: list[float]
    components: Floats
    mixture: Floats

    @property
    def outcomes(self) -> int:
        """The number of outcomes."""
        return len(self.own)

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON values."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in values
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], predictors: int, components: int) -> Outstanding:
        """Return the question of a state, refusing arrays of a wrong size."""
        read: dict[str, Any] = {
            name: np.array(value, dtype=np.float64)
            if isinstance(value, list) and name != "own"
            else value
            for name, value in state.items()
        }
        asked = cls(**read)
        outcomes = asked.outcomes
        expected = [
            (asked.answered, (predictors,)),
            (asked.used, (predictors,)),
            (asked.likelihoods, (predictors, outcomes)),
            (asked.components, (components, outcomes)),
            (asked.mixture, (outcomes,)),
        ]
        if any(array.shape != shape for array, shape in expected):
            raise ValueError("an array has the wrong size")
        return asked
