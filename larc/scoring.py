"""From questions to energies, and from those to a policy.

A candidate's energy is the mean log-probability of its tokens and of the end of sequence after
them; a softmax of the energies is the policy. Two other energies can be chosen: the sum in place of
the mean, and the mean less what it is without the question, the candidate's own prior: what follows
the prompt's last line alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

from larc.errors import LarcError
from larc.log_probabilities import log_probabilities
from larc.questions import EncodedQuestion, Laid
from larc.residual import Factors, apply_residual
from larc.substrate.frozen import Substrate
from larc.substrate.rows import Row

Layout = Literal["packed", "plain"]
Normalise = Literal["mean", "sum", "prior"]


def checked_normalise(name: str) -> Normalise:
    """Return the name of a way to score, refusing one that is unknown.

    Examples
    --------
    >>> checked_normalise("prior")
    'prior'
    """
    for known in get_args(Normalise):
        if name == known:
            return known  # type: ignore[no-any-return]  # one of the Literal's own
    raise LarcError(f"normalise={name!r} is unknown; use one of {', '.join(get_args(Normalise))}.")


def layout_for(substrate: Substrate, question: EncodedQuestion) -> Laid:
    """Choose the shared row where the model can take it, and plain rows where it cannot."""
    packed = question.packed
    return packed if substrate.packs(len(packed.rows[0].tokens)) else question.plain


def chunks(
    substrate: Substrate,
    questions: Sequence[EncodedQuestion],
    layout: Layout | None = None,
    *,
    padding: float | None = None,
) -> Iterator[list[int]]:
    """Yield indices of questions to put through the model together, alike in length.

    Each chunk stays within the substrate's ``chunk_positions``, padding included, unless a single
    question is larger. ``padding`` bounds the padding of a chunk, as a share of what it holds.
    """
    shapes, sizes = [], []
    for question in questions:
        parts = [_laid(substrate, part, layout) for part in _parts(substrate, question, layout)]
        lengths = [len(row.tokens) for laid in parts for row in laid.rows]
        # Plain and packed rows take different masks, so they never share a call.
        shapes.append((bool(parts[0].rows[0].segments), max(lengths), len(lengths)))
        sizes.append(sum(lengths))
    chunk: list[int] = []
    rows = held = 0
    for index in sorted(range(len(questions)), key=lambda index: shapes[index][:2]):
        kind, length, count = shapes[index]
        positions = (rows + count) * length
        fits = positions <= substrate.chunk_positions and (
            padding is None or positions <= (1 + padding) * (held + sizes[index])
        )
        if chunk and not (fits and shapes[chunk[-1]][0] == kind):
            yield chunk
            chunk, rows, held = [], 0, 0
        chunk.append(index)
        rows += count
        held += sizes[index]
    if chunk:
        yield chunk


def energies(
    substrate: Substrate,
    questions: Sequence[EncodedQuestion],
    factors: Factors,
    boundary: int = 0,
    *,
    owners: Sequence[int] | None = None,
    layout: Layout | None = None,
    summed: bool = False,
) -> list[Tensor]:
    """Score questions in one physical batch, or a large one in several.

    Differentiable with respect to the factors.

    Parameters
    ----------
    substrate, questions
        The model, and what is asked of it.
    factors
        One state for every question, or a stack of private ones.
    boundary
        Where the residual is: 0 for the input embeddings, k for before layer k.
    owners
        Which state of the stack each question is read with; by default the i-th with the i-th.
    layout
        ``"packed"`` or ``"plain"``; chosen for the model by default.
    summed
        Whether an energy is the sum over a candidate's tokens, and not their mean.

    Returns
    -------
    list of Tensor
        For each question its candidates' energies, float32.
    """
    parts = [_parts(substrate, question, layout) for question in questions]
    if all(len(several) == 1 for several in parts):
        return _energies(substrate, questions, factors, boundary, owners, layout, summed)
    # A candidate's energy depends on no other candidate: parts of a question are questions.
    flat = [part for several in parts for part in several]
    owner_of = list(range(len(questions))) if owners is None else list(owners)
    states = [owner for owner, several in zip(owner_of, parts, strict=True) for _ in several]
    scores: list[Tensor] = [torch.empty(0)] * len(flat)
    for chunk in chunks(substrate, flat, layout):
        asked, mine = [flat[index] for index in chunk], [states[index] for index in chunk]
        read = _energies(substrate, asked, factors, boundary, mine, layout, summed)
        for index, score in zip(chunk, read, strict=True):
            scores[index] = score
    ends = list(accumulate(map(len, parts), initial=0))
    return [torch.cat(scores[start:end]) for start, end in pairwise(ends)]


def _parts(
    substrate: Substrate, question: EncodedQuestion, layout: Layout | None
) -> list[EncodedQuestion]:
    """Return a question as several of the same prompt, where one call of it would be too large.

    A row's mask has the square of its length. So a row has no more than ``chunk_positions``, or
    twice the prompt where that is more: then repeating the prompt at most doubles the positions.
    """
    if layout is not None:
        return [question]
    start, sizes = len(question.prompt), [len(tokens) - 1 for tokens in question.candidates]
    most = max(substrate.chunk_positions, 2 * start + max(sizes))
    if start + sum(sizes) <= most and substrate.packs(start + sum(sizes)):
        return [question]
    packs = substrate.packs(min(most, start + sum(sizes)))
    parts: list[list[tuple[int, ...]]] = [[]]
    length = start if packs else 0
    for tokens, size in zip(question.candidates, sizes, strict=True):
        taken = size if packs else start + max(sizes)  # a row of its own, padded
        if parts[-1] and length + taken > most:
            parts.append([])
            length = start if packs else 0
        parts[-1].append(tokens)
        length += taken
    return [EncodedQuestion(question.prompt, tuple(part)) for part in parts]


def _energies(
    substrate: Substrate,
    questions: Sequence[EncodedQuestion],
    factors: Factors,
    boundary: int,
    owners: Sequence[int] | None,
    layout: Layout | None,
    summed: bool,
) -> list[Tensor]:
    rows: list[Row] = []
    row_owners: list[int] = []
    laid_questions = [_laid(substrate, question, layout) for question in questions]
    starts = []
    for number, laid in enumerate(laid_questions):
        starts.append(len(rows))
        rows += laid.rows
        row_owners += [owners[number] if owners is not None else number] * len(laid.rows)
    hidden = substrate.activations(rows, boundary)
    if factors.A.ndim == 3:
        factors = factors.at(torch.tensor(row_owners, device=factors.A.device))
    if not substrate.acts_on:
        hidden = apply_residual(hidden, factors)
    gather = _Gather(hidden.shape[1])
    for start, laid, question in zip(starts, laid_questions, questions, strict=True):
        gather.add(start, laid, question)
    inside = factors if substrate.acts_on else None
    logits = substrate.logits(hidden, rows, boundary, gather.places(hidden.device), inside)
    return gather.energies(logits, summed=summed)


class _Gather:
    """Collects where each candidate token is predicted, and sums what is found there.

    Candidates share the prompt's last place, so a place can be asked for several tokens: its row
    of ``tokens`` lists them. Sums then never race, and are the same in every run.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self.place_of: dict[int, int] = {}
        self.tokens: list[list[int]] = []
        self.entries: list[tuple[int, int, int]] = []  # index, slot, candidate
        self.lengths: list[int] = []
        self.counts: list[int] = []

    def add(self, start: int, laid: Laid, question: EncodedQuestion) -> None:
        self.counts.append(len(question.candidates))
        for answer, candidate in zip(laid.answers, question.candidates, strict=True):
            number = len(self.lengths)
            self.lengths.append(len(candidate))
            for column, token in zip(answer.columns, candidate, strict=True):
                flat = (start + answer.row) * self.length + column
                index = self.place_of.setdefault(flat, len(self.tokens))
                if index == len(self.tokens):
                    self.tokens.append([])
                self.entries.append((index, len(self.tokens[index]), number))
                self.tokens[index].append(token)

    def places(self, device: torch.device) -> Tensor:
        return torch.tensor(list(self.place_of), device=device)

    def energies(self, logits: Tensor, *, summed: bool) -> list[Tensor]:
        width = max(map(len, self.tokens))
        padded = [tokens + [0] * (width - len(tokens)) for tokens in self.tokens]
        device = logits.device
        table = log_probabilities(logits, torch.tensor(padded, device=device))
        entries = torch.tensor(self.entries, device=device)
        values = table.reshape(-1).index_select(0, entries[:, 0] * width + entries[:, 1])
        lengths = torch.tensor(self.lengths, device=device)
        sums = values.new_zeros(len(self.lengths)).index_add(0, entries[:, 2], values)
        return list((sums if summed else sums / lengths).split(self.counts))


def _laid(substrate: Substrate, question: EncodedQuestion, layout: Layout | None) -> Laid:
    if layout is None:
        return layout_for(substrate, question)
    return question.packed if layout == "packed" else question.plain


def policy(scores: Tensor) -> Tensor:
    """Return the probabilities of the candidates: a softmax of their energies.

    Examples
    --------
    >>> policy(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return scores.softmax(-1)
