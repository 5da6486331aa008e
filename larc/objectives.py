"""What a stack of episodes is to lower: the mean loss of each one's own feedback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from larc.feedback import Feedback
from larc.questions import EncodedQuestion, Limits, ask, prior_question
from larc.residual import Factors
from larc.scoring import Normalise, chunks, energies
from larc.substrate.frozen import Substrate

#: A state, and candidates without their question.
PriorKey = tuple[Hashable, EncodedQuestion]


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
    normalise
        What an energy is. A prior is read once for each state and set of candidates, and is
        differentiated with the rest.
    offsets
        Of each episode a private bias for candidates, by their texts; for none by default.
    energy_slopes
        Of each piece the slopes of its share of the loss at its energies, after `gradients`.
    """

    substrate: Substrate
    boundary: int
    feedback: tuple[Feedback, ...]
    questions: tuple[EncodedQuestion, ...]
    owners: tuple[int, ...]
    episodes: int
    share_key: tuple[Hashable, ...]
    padding: float | None = None
    normalise: Normalise = "mean"
    offsets: tuple[Mapping[str, float], ...] = ()
    energy_slopes: dict[int, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(
        substrate: Substrate,
        boundary: int,
        feedback: Sequence[Sequence[Feedback]],
        limits: Limits | None = None,
        share_key: Sequence[Hashable] | None = None,
        padding: float | None = None,
        normalise: Normalise = "mean",
        offsets: Sequence[Mapping[str, float]] = (),
    ) -> FeedbackObjective:
        """Collect the feedback of each episode, refusing what cannot be scored."""
        pieces = tuple(piece for items in feedback for piece in items)
        owners = tuple(number for number, items in enumerate(feedback) for _ in items)
        questions = tuple(ask(substrate, p.prompt, p.candidates, limits) for p in pieces)
        marks = tuple(range(len(feedback)) if share_key is None else share_key)
        return FeedbackObjective(
            substrate,
            boundary,
            pieces,
            questions,
            owners,
            len(feedback),
            marks,
            padding,
            normalise,
            tuple(offsets),
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
            offsets=tuple(self.offsets[e] for e in episodes) if self.offsets else (),
            energy_slopes={},
        )

    @cached_property
    def _counts(self) -> Counter[int]:
        return Counter(self.owners)

    def losses(self, factors: Factors) -> Tensor:
        """Return each episode's mean loss, ``[episodes]``, differentiable."""
        total = torch.zeros(self.episodes, device=factors.A.device)
        priors = self._priors(factors)
        for chunk in chunks(self.substrate, self.questions, padding=self.padding):
            owners = [self.owners[piece] for piece in chunk]
            scores = self._energies(factors, [self.questions[piece] for piece in chunk], owners)
            losses = [
                self._loss(piece, score - priors[self._prior_key(piece)] if priors else score)
                for piece, score in zip(chunk, scores, strict=True)
            ]
            into = torch.tensor(owners, device=total.device)
            total = total.index_add(0, into, torch.stack(losses))
        return total

    def _prior_key(self, piece: int) -> tuple[int, EncodedQuestion]:
        return self.owners[piece], prior_question(self.substrate, self.questions[piece])

    def _priors(self, factors: Factors) -> dict[tuple[int, EncodedQuestion], Tensor]:
        """Return the energies of candidates without a question, of each episode that needs them."""
        priors: dict[tuple[int, EncodedQuestion], Tensor] = {}
        if self.normalise != "prior":
            return priors
        keys = list(dict.fromkeys(map(self._prior_key, range(len(self.questions)))))
        questions = [question for _, question in keys]
        for chunk in chunks(self.substrate, questions, padding=self.padding):
            owners = [keys[index][0] for index in chunk]
            scores = self._energies(factors, [questions[index] for index in chunk], owners)
            priors |= {keys[index]: score for index, score in zip(chunk, scores, strict=True)}
        return priors

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
            states = self._states(factors)
            priors = _PriorReads(self, factors, states) if self.normalise == "prior" else None
            share_key: dict[tuple[int, int], list[list[int]]] = {}
            for pieces in self._reads(states):
                candidates = len(self.questions[pieces[0]].candidates)
                # What is differentiated together goes through the same backwards.
                share_key.setdefault((min(len(pieces), candidates + 1), candidates), []).append(
                    pieces
                )
            for reads in share_key.values():
                asked = [self.questions[pieces[0]] for pieces in reads]
                for chunk in chunks(self.substrate, asked, padding=self.padding):
                    self._add_chunk(
                        factors, [reads[index] for index in chunk], total, slopes, priors
                    )
            if priors is not None:
                priors.add_to(slopes)
        return total, slopes

    def _states(self, factors: Factors) -> list[Hashable]:
        """Return what tells the states of the episodes apart; of one state, the same."""
        marks = Counter(self.share_key)
        return [
            (mark, _bits(factors.at(owner))) if marks[mark] > 1 else (mark, b"")
            for owner, mark in enumerate(self.share_key)
        ]

    def _reads(self, states: Sequence[Hashable]) -> list[list[int]]:
        """Return the pieces of feedback by what they have to read: a question, under a state."""
        reads: dict[tuple[EncodedQuestion, Hashable], list[int]] = {}
        for piece, (question, owner) in enumerate(zip(self.questions, self.owners, strict=True)):
            reads.setdefault((question, states[owner]), []).append(piece)
        return list(reads.values())

    def _add_chunk(
        self,
        factors: Factors,
        reads: Sequence[list[int]],
        total: Tensor,
        slopes: Factors,
        priors: _PriorReads | None,
    ) -> None:
        """Read some questions once and add what each piece of feedback makes of them."""
        device = total.device
        owners = [self.owners[pieces[0]] for pieces in reads]
        # A copy for each read, so that each read has a gradient of its own.
        leaf = factors.at(torch.tensor(owners, device=device)).leaf()
        scores = torch.stack(self._energies(leaf, [self.questions[pieces[0]] for pieces in reads]))
        pieces = [(read, piece) for read, members in enumerate(reads) for piece in members]
        at = scores.detach()[[read for read, _ in pieces]]
        if priors is not None:
            at = at - torch.stack([priors.of(piece) for _, piece in pieces])
        at.requires_grad_()
        losses = torch.stack([self._loss(p, row) for (_, p), row in zip(pieces, at, strict=True)])
        (weights,) = torch.autograd.grad(losses.sum(), at)  # each piece's slopes at the energies
        self.energy_slopes.update(zip((piece for _, piece in pieces), weights, strict=True))
        into = [self.owners[piece] for _, piece in pieces]
        total.index_add_(0, torch.tensor(into, device=device), losses.detach())
        if priors is not None:
            for (_, piece), weight in zip(pieces, weights, strict=True):
                priors.weigh(piece, weight)
        self.spread(leaf, scores, [read for read, _ in pieces], into, weights, slopes)

    def spread(
        self,
        leaf: Factors,
        scores: Tensor,
        reads: Sequence[int],
        owners: Sequence[int],
        weights: Tensor,
        slopes: Factors,
    ) -> None:
        """Add the gradient of weighted energies to the slopes of whom they belong to.

        Entry by entry: which read it weighs, whose it is, and the weights. Entries of one read
        follow each other.
        """
        device = scores.device
        into, source = (torch.tensor(n, device=device) for n in (list(owners), list(reads)))
        counts = Counter(reads)
        most, candidates = max(counts.values()), scores.shape[1]
        if most <= candidates:
            # One backward for the first piece of every read, one for the second, and so on.
            offset = torch.tensor([n for c in counts.values() for n in range(c)], device=device)
            for number in range(most):
                chosen = (offset == number).nonzero()[:, 0]
                unit = weights[chosen]
                if len(chosen) < len(scores):  # not every read has that many
                    unit = torch.zeros_like(scores).index_copy(0, source[chosen], unit)
                pulled = self._pulled(leaf, scores, unit, last=number == most - 1)
                if len(chosen) < len(scores):
                    pulled = pulled.at(source[chosen])
                _add(slopes, into[chosen], pulled)
            return
        # More pieces than candidates: one backward for each candidate serves them all.
        for candidate in range(candidates):
            unit = torch.zeros_like(scores)
            unit[:, candidate] = 1
            pulled = self._pulled(leaf, scores, unit, last=candidate == candidates - 1)
            each, share = pulled.at(source), weights[:, candidate, None, None]
            _add(slopes, into, Factors(share * each.A, share * each.B))

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
        summed = self.normalise == "sum"
        return energies(
            self.substrate, questions, factors, self.boundary, owners=owners, summed=summed
        )

    def offset_slopes(self) -> list[dict[str, float]]:
        """Return each episode's slopes of its loss at its private offsets, after `gradients`."""
        slopes: list[dict[str, float]] = [{} for _ in range(self.episodes)]
        for piece, weights in sorted(self.energy_slopes.items()):
            summed = slopes[self.owners[piece]]
            for text, slope in zip(self.feedback[piece].candidates, weights.tolist(), strict=True):
                summed[text] = summed.get(text, 0.0) + slope
        return slopes

    def _loss(self, piece: int, scores: Tensor) -> Tensor:
        private = self.offsets[self.owners[piece]] if self.offsets else {}
        if private:
            texts = self.feedback[piece].candidates
            scores = scores + scores.new_tensor([private.get(text, 0.0) for text in texts])
        return self.feedback[piece].loss(scores) / self._counts[self.owners[piece]]


class _PriorReads:
    """Candidates read without a question: once for each state and set, for all of its pieces.

    What pieces of feedback pull at their energies, they pull at the prior the other way.
    """

    def __init__(
        self, objective: FeedbackObjective, factors: Factors, states: Sequence[Hashable]
    ) -> None:
        self.objective, self.states = objective, states
        pieces: dict[PriorKey, int] = {}
        for piece in range(len(objective.questions)):
            pieces.setdefault(self._key(piece), piece)
        by_size: dict[int, list[PriorKey]] = {}
        for key in pieces:
            by_size.setdefault(len(key[1].candidates), []).append(key)
        #: Of each physical batch: the keys that it read, under which factors, and the energies.
        self.batches: list[tuple[list[PriorKey], Factors, Tensor]] = []
        self.energies: dict[PriorKey, Tensor] = {}
        self.weights: dict[PriorKey, dict[int, Tensor]] = {key: {} for key in pieces}
        for keys in by_size.values():
            asked = [question for _, question in keys]
            for chunk in chunks(objective.substrate, asked, padding=objective.padding):
                members = [keys[index] for index in chunk]
                owners = [objective.owners[pieces[key]] for key in members]
                leaf = factors.at(torch.tensor(owners, device=factors.A.device)).leaf()
                scores = torch.stack(objective._energies(leaf, [asked[index] for index in chunk]))
                self.batches.append((members, leaf, scores))
                self.energies |= dict(zip(members, scores.detach(), strict=True))

    def _key(self, piece: int) -> PriorKey:
        owner, question = self.objective._prior_key(piece)
        return self.states[owner], question

    def of(self, piece: int) -> Tensor:
        """Return the prior energies of a piece's candidates."""
        return self.energies[self._key(piece)]

    def weigh(self, piece: int, weights: Tensor) -> None:
        """Take in how a piece weighs its energies."""
        kept, owner = self.weights[self._key(piece)], self.objective.owners[piece]
        kept[owner] = kept[owner] - weights if owner in kept else -weights

    def add_to(self, slopes: Factors) -> None:
        """Add the gradient through the priors to the slopes of whom they belong to."""
        for keys, leaf, scores in self.batches:
            entries = [
                (read, owner, weights)
                for read, key in enumerate(keys)
                for owner, weights in self.weights[key].items()
            ]
            reads, owners, weights = zip(*entries, strict=True)
            self.objective.spread(leaf, scores, reads, owners, torch.stack(weights), slopes)


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
        offsets=first.offsets + second.offsets,
        energy_slopes={},
    )
    losses, slopes = both.gradients(factors.map(lambda tensor: torch.cat([tensor, tensor])))
    pieces = len(first.feedback)
    for piece, weights in both.energy_slopes.items():
        if piece < pieces:
            first.energy_slopes[piece] = weights
        else:
            second.energy_slopes[piece - pieces] = weights
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
