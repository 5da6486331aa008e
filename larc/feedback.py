"""What an episode learns from: a loss for every candidate, or the right one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larc.checks import text
from larc.errors import LarcError
from larc.scoring import expected_risk, label_cross_entropy
from larc.tasks import checked_candidates, checked_losses


@dataclass(frozen=True)
class CandidateLosses:
    """Feedback that gives a loss for every candidate; an episode lowers the expected one.

    Examples
    --------
    >>> CandidateLosses("2+2=", ["4", "5"], [0, 1]).losses
    (0.0, 1.0)
    """

    prompt: str
    candidates: Sequence[str]
    losses: Sequence[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", text(self.prompt, "the prompt"))
        object.__setattr__(self, "candidates", checked_candidates(self.candidates))
        object.__setattr__(self, "losses", checked_losses(self.losses, len(self.candidates)))

    def loss(self, scores: Tensor) -> Tensor:
        """Return the expected loss at these energies."""
        return expected_risk(scores, self.losses)


@dataclass(frozen=True)
class Label:
    """Feedback that names the right candidate; an episode raises its probability.

    ``offsets`` are added to the energies first: a fixed bias per candidate, as a calibration fits.

    Examples
    --------
    >>> Label("2+2=", ["4", "5"], 2)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: index 2 names no candidate; give 0 to 1.
    """

    prompt: str
    candidates: Sequence[str]
    index: int
    offsets: Sequence[float] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", text(self.prompt, "the prompt"))
        object.__setattr__(self, "candidates", checked_candidates(self.candidates))
        if not isinstance(self.offsets, list | tuple) or self.offsets:
            offsets = checked_losses(self.offsets, len(self.candidates), "offsets")
            object.__setattr__(self, "offsets", offsets)
        try:
            index = -1 if isinstance(self.index, bool) else operator.index(self.index)
        except TypeError:
            index = -1
        object.__setattr__(self, "index", index if index >= 0 else self.index)
        if not 0 <= index < len(self.candidates):
            raise LarcError(
                f"index {self.index} names no candidate; give 0 to {len(self.candidates) - 1}."
            )

    def loss(self, scores: Tensor) -> Tensor:
        """Return the cross-entropy of the label at these energies."""
        if self.offsets:
            scores = scores + torch.tensor(self.offsets, device=scores.device)
        return label_cross_entropy(scores, self.index)


Feedback = CandidateLosses | Label
