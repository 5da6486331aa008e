"""Losses of texts that were sampled, as feedback that knows how they were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import CandidateLosses


@dataclass(frozen=True)
class SampledLosses(CandidateLosses):
    """Losses of sampled texts; an episode lowers an estimate of the loss of what it would write.

    Where `CandidateLosses` is the expected loss of a choice among the texts, this is one of all
    texts, estimated from those that were drawn.

    Parameters
    ----------
    prompt, candidates, losses
        The question, the texts and the loss of each.
    tokens
        How many tokens each text has, its end included.
    drawn_at
        The log-probability that each had when it was drawn: the estimate is then self-normalised,
        its weights how much more probable the model makes a text now. Without them it is the
        policy gradient: log-probabilities weighted by how much worse a text is than the mean of the
        others.

    Notes
    -----
    Both are of texts drawn as the model scores them, at temperature 1 and without a grammar; one
    that was cut at the most tokens counts as if it had ended there. And both are of independent
    draws. Texts that are all different, as an episode proposes them, are nearly that where none of
    them is probable; where a few texts have most of the probability, rare ones weigh too much.

    Examples
    --------
    >>> losses = SampledLosses("2+2=", ["4", "5"], [0, 1], tokens=[2, 2], drawn_at=[-1, -1])
    >>> losses.loss(torch.tensor([-0.5, -0.5]))
    tensor(0.5000)
    >>> SampledLosses("2+2=", ["4", "5"], [0, 1], tokens=[2, 2]).loss(torch.tensor([-0.5, -0.25]))
    tensor(0.2500)
    """

    tokens: Sequence[int] = ()
    drawn_at: Sequence[float] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tokens", "drawn_at"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        count = len(self.candidates)
        if len(self.tokens) != count or len(self.drawn_at) not in (0, count):
            raise LarcError("sampled losses need the tokens of each text, and all drawn_at.")

    def loss(self, scores: Tensor) -> Tensor:
        """Return the estimate at these energies, which are means over tokens."""
        logs = scores * scores.new_tensor(self.tokens)
        losses = scores.new_tensor(self.losses)
        if self.drawn_at:
            return (logs - scores.new_tensor(self.drawn_at)).softmax(-1) @ losses
        others = (losses.sum() - losses) / max(len(losses) - 1, 1)
        return ((losses - others) * logs).mean() if len(losses) > 1 else 0 * torch.sum(logs)
