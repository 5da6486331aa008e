"""What a strategy makes of a label, of an update and of a policy: sham, scale and offsets."""

from __future__ import annotations

import numpy as np
import torch

from larc.errors import LarcError
from larc.feedback import CandidateLosses, Label
from larc.learner import Episode, Learner
from larc.residual import Factors
from larc.rules import UpdateRule, parse_rule
from larc.stream.awaited import Pending
from larc.stream.question import LabelIs
from larc.stream.strategies import Strategy


def rule_of(strategy: Strategy, learner: Learner) -> UpdateRule:
    """Return the rule that a strategy's updates follow: its own, or the learner's."""
    if not strategy.rule:
        return learner.rule
    return parse_rule(strategy.rule) if isinstance(strategy.rule, str) else strategy.rule


def feedback_of(
    strategy: Strategy, episode: Episode, pending: Pending, value: LabelIs
) -> Label | CandidateLosses:
    """Return what a strategy learns from a label; a sham one draws from the episode's stream."""
    candidates, prompt = pending.question.candidates, pending.prompts[strategy.view]
    if strategy.sham:
        order = episode.stream.permutation(len(candidates))
        if isinstance(value, int):
            value = int(np.argsort(order)[value])  # the inverse permutation, of the target
        else:
            value = tuple(value[index] for index in order)
    if isinstance(value, int):
        return Label(prompt, candidates, value, strategy.offsets)
    if strategy.offsets:
        raise LarcError(
            f"strategy {strategy.name!r} has offsets, which learn from labels and not from losses."
        )
    return CandidateLosses(prompt, candidates, value)


def shrunk(before: Factors, after: Factors, scale: float) -> tuple[Factors, float]:
    """Return a part of what an update changed, and how far it is."""
    # The realised float32 difference is scaled, which is not the same as a smaller step size.
    factors = before.combine(after, lambda old, new: torch.add(old, new - old, alpha=scale))
    return factors, float(factors.combine(before, torch.sub).norm())
