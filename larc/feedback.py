"""Feedback: what is said about the candidates of one question, as one label or as losses."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from larc.checks import number, shown, text
from larc.errors import LarcError

if TYPE_CHECKING:  # feedback can be written down without loading torch
    from torch import Tensor


def checked_candidates(candidates: Sequence[str]) -> tuple[str, ...]:
    """Return the candidates, refusing what cannot be chosen among.

    Examples
    --------
    >>> checked_candidates(["a", ""])
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: candidate 1 is empty; give every candidate some text.
    """
    if isinstance(candidates, str | bytes):
        raise LarcError(f"the candidates are one text, {shown(candidates)}; give a list of texts.")
    try:
        texts = tuple(candidates)
    except TypeError:
        raise LarcError(f"the candidates {shown(candidates)} are no list of texts.") from None
    if not texts:
        raise LarcError("no candidates were given; give a list of at least one text.")
    texts = tuple(text(one, f"candidate {index}") for index, one in enumerate(texts))
    if "" in texts:
        raise LarcError(f"candidate {texts.index('')} is empty; give every candidate some text.")
    if len(set(texts)) < len(texts):
        raise LarcError("two candidates are the same; give each candidate once.")
    return texts


def checked_losses(
    losses: Sequence[float], candidates: int, what: str = "losses"
) -> tuple[float, ...]:
    """Return the losses as floats, refusing a wrong number of them or one that is not finite.

    Examples
    --------
    >>> checked_losses([0, 1], candidates=3)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 2 losses were given for 3 candidates; give one each.
    """
    try:
        if isinstance(losses, str | bytes):
            raise TypeError
        given = tuple(losses)
    except TypeError:
        raise LarcError(
            f"the {what} {shown(losses)} are not a list of numbers; give one each."
        ) from None
    values = tuple(
        float(loss) if isinstance(loss, bool) else number(loss, f"one of the {what}")
        for loss in given
    )
    if len(values) != candidates:
        raise LarcError(
            f"{len(values)} {what} were given for {candidates} candidates; give one each."
        )
    return values


def expected_risk(scores: Tensor, losses: Sequence[float]) -> Tensor:
    """Return the expected loss of the policy over candidates.

    Its derivative with respect to an energy is ``p_j (loss_j - expected loss)``.

    Examples
    --------
    >>> import torch
    >>> expected_risk(torch.zeros(4), (0.0, 1.0, 0.5, 0.5))
    tensor(0.5000)
    """
    return scores.softmax(-1) @ scores.new_tensor(losses)


def label_cross_entropy(scores: Tensor, index: int) -> Tensor:
    """Return minus the log-probability of the right candidate.

    Examples
    --------
    >>> import torch
    >>> label_cross_entropy(torch.zeros(4), 2)
    tensor(1.3863)
    """
    return -scores.log_softmax(-1)[index]


def label_half_brier(scores: Tensor, index: int) -> Tensor:
    """Return half the squared distance between the policy and the right candidate.

    Examples
    --------
    >>> import torch
    >>> label_half_brier(torch.zeros(4), 2)
    tensor(0.3750)
    """
    policy = scores.softmax(-1)
    return 0.5 * (policy.square().sum() + 1) - policy[index]


def with_offsets(
    probabilities: NDArray[np.float64], offsets: Sequence[float]
) -> NDArray[np.float64]:
    """Return the policy with a bias added to every candidate's energy.

    Examples
    --------
    >>> with_offsets(np.array([0.5, 0.5]), (0.0, np.log(3.0))).round(6)
    array([0.25, 0.75])
    """
    if not offsets:
        return probabilities
    # A softmax of log-probabilities plus a bias is the softmax of the energies plus that bias.
    odds = probabilities * np.exp(np.asarray(offsets) - max(offsets))
    return np.asarray(odds / odds.sum())


@dataclass(frozen=True)
class Unlabelled:
    """A question whose feedback is kept closed: it can be read, and nothing more.

    Examples
    --------
    >>> Unlabelled("2+2=", ["4", "5"]).candidates
    ('4', '5')
    """

    prompt: str
    candidates: Sequence[str]
    offsets: Sequence[float] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", checked_candidates(self.candidates))


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

    def permuted(self, stream: np.random.Generator) -> CandidateLosses:
        """Return the same losses dealt to the candidates at random: sham feedback."""
        return replace(self, losses=stream.permutation(np.asarray(self.losses)).tolist())


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
            scores = scores + scores.new_tensor(self.offsets)
        return label_cross_entropy(scores, self.index)

    @property
    def losses(self) -> tuple[float, ...]:
        """The label as losses: 0 for the right candidate and 1 for every other."""
        return tuple(float(number != self.index) for number in range(len(self.candidates)))

    def permuted(self, stream: np.random.Generator) -> Label:
        """Return the label moved by a random permutation of the candidates: sham feedback."""
        order = stream.permutation(len(self.candidates))
        return replace(self, index=int(np.argsort(order)[self.index]))


@dataclass(frozen=True)
class BrierLabel(Label):
    """A label whose loss is half-Brier, in place of cross-entropy.

    Examples
    --------
    >>> import torch
    >>> BrierLabel("2+2=", ["4", "5"], 0).loss(torch.zeros(2))
    tensor(0.2500)
    """

    def loss(self, scores: Tensor) -> Tensor:
        """Return the half-Brier loss of the label at these energies."""
        if self.offsets:
            scores = scores + scores.new_tensor(self.offsets)
        return label_half_brier(scores, self.index)


Feedback = CandidateLosses | Label
