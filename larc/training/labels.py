"""Slow training on labelled questions, each with a weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from larc.checks import instance, listed, number, whole_number
from larc.errors import LarcError
from larc.feedback import Label
from larc.io.hashes import hash_json
from larc.objectives import FeedbackObjective
from larc.questions import Limits, ask
from larc.residual import Factors, checked_seed
from larc.state import SlowState
from larc.substrate.frozen import Substrate
from larc.training.base import AdamW, SlowTrainer, batch_indices


class LabelTrainer(SlowTrainer):
    """Trains a slow state on labelled questions, each with a weight.

    A batch's loss is its examples' cross-entropy, each times its weight relative to the average:
    on the whole, every example counts by its weight.

    Parameters
    ----------
    substrate, slow
        The frozen model and where training starts.
    labels, weights
        The examples, and how much each counts.
    batch, seed, outer, limits
        Examples in an update, what draws their order, the optimiser, the token limits.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        labels: Sequence[Label],
        weights: Sequence[float],
        *,
        batch: int = 8,
        seed: int = 0,
        outer: AdamW | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(substrate, slow, AdamW() if outer is None else outer, limits)
        labels, weights = listed(labels, "the labels"), listed(weights, "the weights")
        if not labels or len(labels) != len(weights):
            raise LarcError("training needs at least one label, and a weight for each.")
        for label in labels:
            instance(label, "a label", Label)
        weights = [number(weight, "a weight", least=0) for weight in weights]
        total = sum(weights)
        if not total > 0:
            raise LarcError("every weight is 0; give at least one above it.")
        self.labels, self.batch = labels, whole_number(batch, "batch", least=1)
        self.order_seed = checked_seed(seed)
        # Tokenises everything now: what cannot be scored is refused before training.
        for label in labels:
            ask(substrate, label.prompt, label.candidates, self.limits)
        self.weights = [weight * len(labels) / total for weight in weights]

    @property
    def epoch(self) -> int:
        """How many updates meet every example once; the last may meet some of the next epoch."""
        return math.ceil(len(self.labels) / self.batch)

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on: also the examples, their weights and order."""
        examples = [asdict(label) for label in self.labels]
        return {
            **super().facts(),
            "examples": hash_json([examples, self.weights, self.batch, self.order_seed]),
        }

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the next batch's mean weighted cross-entropy and its gradient."""
        indices = batch_indices(len(self.labels), self.batch, self.updates, self.order_seed)
        # Examples as episodes of one stack: each has its own copy, and so its own gradient.
        feedback = [[self.labels[index]] for index in indices]
        share_key = [0] * len(feedback)
        objective = FeedbackObjective.of(
            self.substrate,
            self.slow.boundary,
            feedback,
            self.limits,
            share_key,
            normalise=self.slow.normalise,
        )
        stack = Factors.stack([self.slow.factors] * len(indices))
        losses, gradients = objective.gradients(stack)
        weights = torch.tensor([self.weights[index] for index in indices], device=losses.device)
        mean = gradients.map(lambda slope: (weights[:, None, None] * slope).mean(0))
        return float((weights * losses).mean()), mean
