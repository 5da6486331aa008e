"""What a stack of episodes is to lower: the mean loss of each one's own feedback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from larc.feedback import Feedback
from larc.residual import Factors
from larc.scoring import EncodedQuestion, Limits, ask, chunks, energies
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
    share_key
        For each episode a mark. Only episodes of one mark may share a forward, while their factors
        are equal: so an episode's last bits never depend on a chance meeting with another's.
    padding
        The most padding of a physical batch, as a share of what it holds; any by default.
    """

    substrate: Substrate
    boundary: int
    feedback: tuple[Feedback, ...]
    questions: tuple[EncodedQuestion, ...]
    owners: tuple[int, ...]
    episodes: int
    share_key: tuple[Hashable, ...]
    padding: float | None = None

    @staticmethod
    def of(
        substrate: Substrate,
        boundary: int,
        feedback: Sequence[Sequence[Feedback]],
        limits: Limits | None = None,
        share_key: Sequence[Hashable] | None = None,
        padding: float | None = None,
    ) -> FeedbackObjective:
        """Collect the feedback of each episode, refusing what cannot be scored."""
        pieces = tuple(piece for items in feedback for piece in items)
        owners = tuple(number for number, items in enumerate(feedback) for _ in items)
        questions = tuple(ask(substrate, p.prompt, p.candidates, limits) for p in pieces)
        marks = tuple(range(len(feedback)) if share_key is None else share_key)
        return FeedbackObjective(
            substrate, boundary, pieces, questions, owners, len(feedback), marks, padding
        )

    def select(self, episodes: Sequence[int]) -> FeedbackObjective:
        """Return the objective of some of the episodes, in the order given."""
        by_episode: dict[int, list[int]] = {episode: [] for episode in episodes}
        for piece, owner in enumerate(self.owners):
            if owner in by_episode:
                by_episode[owner].append(piece)
        pieces = [piece for episode in episodes for piece in by_episode[episode]]
        return replace(
            self,
            feedback=tuple(self.feedback[piece] for piece in pieces),
            questions=tuple(self.questions[piece] for piece in pieces),
            owners=tuple(number for number, e in enumerate(episodes) for _ in by_episode[e]),
            episodes=len(episodes),
            share_key=tuple(self.share_key[episode] for episode in episodes),
        )

    @cached_property
    def _counts(self) -> Counter[int]:
        return Counter(self.owners)

    def losses(self, factors: Factors) -> Tensor:
        """Return each episode's mean loss, ``[episodes]``, differentiable."""
        total = torch.zeros(self.episodes, device=factors.A.device)
        for chunk in chunks(self.substrate, self.questions, padding=self.padding):
            owners = [self.owners[piece] for piece in chunk]
            scores = self._energies(factors, [self.questions[piece] for piece in chunk], owners)
            parts = torch.stack([self._loss(p, s) for p, s in zip(chunk, scores, strict=True)])
            into = torch.tensor(owners, device=total.device)
            total = total.index_add(0, into, parts)
        return total

    def gradients(self, factors: Factors) -> tuple[Tensor, Factors]:
        """Return each episode's mean loss and its gradient with respect to its own factors.

        One question to equal factors goes through the model once, however many pieces of feedback
        speak of it: they differ only in how they weigh its candidates' energies. Chunks are
        differentiated one after the other, so memory does not grow with the feedback.
        """
        # Whatever the caller is in the middle of, a gradient is wanted here.
        with torch.inference_mode(False), torch.enable_grad():
            total = torch.zeros(self.episodes, device=factors.A.device)
            slopes = factors.map(torch.zeros_like)
            by_shape: dict[tuple[int, int], list[list[int]]] = {}
            for pieces in self._reads(factors):
                candidates = len(self.questions[pieces[0]].candidates)
                # What is differentiated together goes through the same backwards.
                by_shape.setdefault((min(len(pieces), candidates + 1), candidates), []).append(
                    pieces
                )
            for reads in by_shape.values():
                asked = [self.questions[pieces[0]] for pieces in reads]
                for chunk in chunks(self.substrate, asked, padding=self.padding):
                    self._add_chunk(factors, [reads[index] for index in chunk], total, slopes)
        return total, slopes

    def _reads(self, factors: Factors) -> list[list[int]]:
        """Return the pieces of feedback by what they have to read: a question, under a state."""
        marks = Counter(self.share_key)
        states: list[Hashable] = [
            (mark, _bits(factors.at(owner))) if marks[mark] > 1 else (mark, b"")
            for owner, mark in enumerate(self.share_key)
        ]
        reads: dict[tuple[EncodedQuestion, Hashable], list[int]] = {}
        for piece, (question, owner) in enumerate(zip(self.questions, self.owners, strict=True)):
            reads.setdefault((question, states[owner]), []).append(piece)
        return list(reads.values())

    def _add_chunk(
        self, factors: Factors, reads: Sequence[list[int]], total: Tensor, slopes: Factors
    ) -> None:
        """Read some questions once and add what each piece of feedback makes of them."""
        device = total.device
        owners = [self.owners[pieces[0]] for pieces in reads]
        # A copy for each read, so that each read has a gradient of its own.
        leaf = factors.at(torch.tensor(owners, device=device)).leaf()
        scores = torch.stack(self._energies(leaf, [self.questions[pieces[0]] for pieces in reads]))
        pieces = [(read, piece) for read, members in enumerate(reads) for piece in members]
        at = scores.detach()[[read for read, _ in pieces]].requires_grad_()
        losses = torch.stack([self._loss(p, row) for (_, p), row in zip(pieces, at, strict=True)])
        (weights,) = torch.autograd.grad(losses.sum(), at)  # each piece's slopes at the energies
        into = torch.tensor([self.owners[piece] for _, piece in pieces], device=device)
        total.index_add_(0, into, losses.detach())
        source = torch.tensor([read for read, _ in pieces], device=device)
        most, candidates = max(map(len, reads)), scores.shape[1]
        if most <= candidates:
            # One backward for the first piece of every read, one for the second, and so on.
            order = torch.tensor(
                [n for members in reads for n in range(len(members))], device=device
            )
            for number in range(most):
                chosen = (order == number).nonzero()[:, 0]
                pulled = self._pulled(leaf, scores, weights[chosen], last=number == most - 1)
                _add(slopes, into[chosen], pulled)
            return
        # More pieces than candidates: one backward for each candidate serves them all.
        for candidate in range(candidates):
            unit = torch.zeros_like(scores)
            unit[:, candidate] = 1
            pulled = self._pulled(leaf, scores, unit, last=candidate == candidates - 1)
            gradient, share = pulled.at(source), weights[:, candidate, None, None]
            _add(slopes, into, Factors(share * gradient.A, share * gradient.B))

    def _pulled(self, leaf: Factors, scores: Tensor, weights: Tensor, *, last: bool) -> Factors:
        """Return the gradient of weighted energies at each read's own factors."""
        self.substrate.ledger.add("backward", 0, 0)
        return Factors(
            *torch.autograd.grad(scores, (leaf.A, leaf.B), weights, retain_graph=not last)
        )

    def _energies(
        self,
        factors: Factors,
        questions: Sequence[EncodedQuestion],
        owners: Sequence[int] | None = None,
    ) -> list[Tensor]:
        return energies(self.substrate, questions, factors, self.boundary, owners=owners)

    def _loss(self, piece: int, scores: Tensor) -> Tensor:
        return self.feedback[piece].loss(scores) / self._counts[self.owners[piece]]


def gradients_together(
    first: FeedbackObjective, second: FeedbackObjective, factors: Factors
) -> tuple[tuple[Tensor, Factors], tuple[Tensor, Factors]]:
    """Return what both objectives' `gradients` are at the same factors, with shared forwards."""
    both = replace(
        first,
        feedback=first.feedback + second.feedback,
        questions=first.questions + second.questions,
        owners=first.owners + tuple(first.episodes + owner for owner in second.owners),
        episodes=first.episodes + second.episodes,
        share_key=first.share_key + second.share_key,
    )
    losses, slopes = both.gradients(factors.map(lambda tensor: torch.cat([tensor, tensor])))
    middle = first.episodes
    return (
        (losses[:middle], slopes.map(lambda tensor: tensor[:middle])),
        (losses[middle:], slopes.map(lambda tensor: tensor[middle:])),
    )


@dataclass(frozen=True)
class Precomputed:
    """An objective whose gradients at some factors are known already."""

    objective: FeedbackObjective
    factors: Factors
    computed: tuple[Tensor, Factors]

    def losses(self, factors: Factors) -> Tensor:
        """Return each episode's loss."""
        return self.computed[0] if factors is self.factors else self.objective.losses(factors)

    def gradients(self, factors: Factors) -> tuple[Tensor, Factors]:
        """Return each episode's loss and its gradient."""
        return self.computed if factors is self.factors else self.objective.gradients(factors)

    def select(self, episodes: Sequence[int]) -> FeedbackObjective:
        """Return the objective of some of the episodes; they are asked elsewhere."""
        return self.objective.select(episodes)


def _add(total: Factors, owners: Tensor, part: Factors) -> None:
    total.A.index_add_(0, owners, part.A)
    total.B.index_add_(0, owners, part.B)


def _bits(factors: Factors) -> bytes:
    return b"".join(t.detach().cpu().numpy().tobytes() for t in (factors.A, factors.B))
