"""What a stack of episodes is to lower: the mean loss of each one's own feedback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from larc.residual import Factors
from larc.scoring import Feedback, Limits, Question, ask, chunks, energies
from larc.substrate.frozen import Substrate


@dataclass(frozen=True)
class FeedbackObjective:
    """Feedback of several episodes, scored through the frozen model in shared batches.

    Attributes
    ----------
    feedback, questions
        All feedback and its tokenised questions, side by side.
    owners
        Which episode of the stack each piece of feedback belongs to.
    episodes
        How many episodes the stack has; each has at least one piece.
    """

    substrate: Substrate
    boundary: int
    feedback: tuple[Feedback, ...]
    questions: tuple[Question, ...]
    owners: tuple[int, ...]
    episodes: int

    @staticmethod
    def of(
        substrate: Substrate,
        boundary: int,
        feedback: Sequence[Sequence[Feedback]],
        limits: Limits | None = None,
    ) -> FeedbackObjective:
        """Collect the feedback of each episode, refusing what cannot be scored."""
        pieces = tuple(piece for own in feedback for piece in own)
        owners = tuple(number for number, own in enumerate(feedback) for _ in own)
        questions = tuple(ask(substrate, p.prompt, p.candidates, limits) for p in pieces)
        return FeedbackObjective(substrate, boundary, pieces, questions, owners, len(feedback))

    @cached_property
    def _counts(self) -> Counter[int]:
        return Counter(self.owners)

    def losses(self, factors: Factors) -> Tensor:
        """Return each episode's mean loss, ``[episodes]``."""
        total = torch.zeros(self.episodes, device=factors.A.device)
        for chunk in chunks(self.substrate, self.questions):
            total = total + self._chunk_losses(factors, chunk)
        return total

    def gradients(self, factors: Factors) -> tuple[Tensor, Factors]:
        """Return each episode's mean loss and its gradient with respect to its own factors.

        Chunks are differentiated one after the other, so memory does not grow with the feedback.
        """
        # Whatever the caller is in the middle of, a gradient is wanted here.
        with torch.inference_mode(False), torch.enable_grad():
            leaf = factors.leaf()
            total = torch.zeros(self.episodes, device=factors.A.device)
            for chunk in chunks(self.substrate, self.questions):
                losses = self._chunk_losses(leaf, chunk)
                backward(self.substrate, losses.sum())
                total = total + losses.detach()
        # An episode's loss depends on its own factors alone, so the sum's gradient is each one's.
        return total, leaf.map(lambda tensor: _gradient(tensor))

    def _chunk_losses(self, factors: Factors, chunk: Sequence[int]) -> Tensor:
        owners = [self.owners[index] for index in chunk]
        scores = energies(
            self.substrate,
            [self.questions[index] for index in chunk],
            factors,
            self.boundary,
            owners=owners,
        )
        counts = [self._counts[owner] for owner in owners]
        pieces = [
            self.feedback[index].loss(score) / count
            for index, score, count in zip(chunk, scores, counts, strict=True)
        ]
        into = torch.tensor(owners, device=factors.A.device)
        return torch.zeros(self.episodes, device=factors.A.device).index_add(
            0, into, torch.stack(pieces)
        )


def backward(substrate: Substrate, loss: Tensor) -> None:
    """Differentiate and charge it to the substrate's ledger."""
    loss.backward()
    substrate.ledger.add("backward", 0, 0)


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
