"""What all peers share: bringing them in, and scoring candidates the way they are used.

A peer gets one row per candidate, padded on the right, with the ordinary mask; the head only from
where the first answer of the batch begins, which `transformers` offers to everybody. It can be
given our packed rows too, so that only its way of keeping states apart is compared.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import expected_risk
from larc.questions import EncodedQuestion
from larc.substrate.rows import attention_inputs, token_batch


class PeerMissing(LarcError):
    """A peer is not installed; the rest can be measured all the same."""


def need(name: str) -> Any:
    """Return a peer's package, or say how to install it.

    Examples
    --------
    >>> need("no_such_peer")
    Traceback (most recent call last):
    ...
    benchmarks.speed.peers.PeerMissing: no_such_peer is not installed; ...
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old packages on a new torch
            return importlib.import_module(name)
    except ImportError as error:
        how = (
            "`pip install --no-deps pyreft pyvene` brings it, after `pip install 'larc-lm[bench]'`"
            if name in ("pyreft", "pyvene")
            else "`pip install 'larc-lm[bench]'` brings it"
        )
        raise PeerMissing(f"{name} is not installed; {how}.") from error


@dataclass(frozen=True)
class Rows:
    """Questions laid out for a peer, and where their answers are predicted.

    ``tail`` is how many of the last columns the head is wanted at; ``owners`` says which question
    a row belongs to.
    """

    tokens: Tensor
    attention: dict[str, Tensor]
    owners: tuple[int, ...]
    tail: int
    places: Tensor
    wanted: Tensor
    candidate: Tensor
    lengths: Tensor
    counts: tuple[int, ...]

    @property
    def inputs(self) -> dict[str, Any]:
        """What to call a model of `transformers` with."""
        return {
            "input_ids": self.tokens,
            **self.attention,
            "logits_to_keep": self.tail,
            "use_cache": False,
        }

    def energies(self, logits: Tensor) -> list[Tensor]:
        """Return each question's energies from the logits of the last columns."""
        return self.energies_at(logits.reshape(-1, logits.shape[-1]).index_select(0, self.places))

    def energies_at(self, chosen: Tensor) -> list[Tensor]:
        """Return each question's energies from the logits where its answers are predicted."""
        log_probabilities = chosen.gather(1, self.wanted[:, None])[:, 0] - chosen.logsumexp(1)
        sums = log_probabilities.new_zeros(len(self.lengths)).index_add(
            0, self.candidate, log_probabilities
        )
        return list((sums / self.lengths).split(self.counts))


def rows_of(
    questions: Sequence[EncodedQuestion], length: int | None = None, *, packed: bool = False
) -> Rows:
    """Lay questions out with one row per candidate, padded to the longest or to a length."""
    laid = [question.packed if packed else question.plain for question in questions]
    rows = [row for layout in laid for row in layout.rows]
    owners = tuple(number for number, layout in enumerate(laid) for _ in layout.rows)
    tokens = token_batch(rows, 0, length)  # what padding is does not matter under the mask
    total = tokens.shape[1]
    answers = [
        (owners.index(number) + answer.row, answer.columns, candidate)
        for number, (layout, question) in enumerate(zip(laid, questions, strict=True))
        for answer, candidate in zip(layout.answers, question.candidates, strict=True)
    ]
    tail = total - min(columns[0] for _, columns, _ in answers)
    places: list[int] = []
    wanted: list[int] = []
    candidate: list[int] = []
    for number, (row, columns, own_tokens) in enumerate(answers):
        places += [row * tail + column - (total - tail) for column in columns]
        wanted += own_tokens
        candidate += [number] * len(own_tokens)
    return Rows(
        tokens,
        attention_inputs(rows, total, torch.float32, tokens.device),
        owners,
        tail,
        places=torch.tensor(places),
        wanted=torch.tensor(wanted),
        candidate=torch.tensor(candidate),
        lengths=torch.tensor([len(own_tokens) for _, _, own_tokens in answers]),
        counts=tuple(len(question.candidates) for question in questions),
    )


def batches(
    questions: Sequence[EncodedQuestion], positions: int, *, packed: bool = False
) -> Iterator[list[int]]:
    """Yield indices of questions alike in length whose rows fit a number of positions."""
    laid = [question.packed if packed else question.plain for question in questions]
    lengths = [max(len(row.tokens) for row in layout.rows) for layout in laid]
    chunk: list[int] = []
    rows = 0
    for index in sorted(range(len(questions)), key=lengths.__getitem__):
        count = len(laid[index].rows)
        if chunk and (rows + count) * lengths[index] > positions:
            yield chunk
            chunk, rows = [], 0
        chunk.append(index)
        rows += count
    yield chunk


def risks(scores: Sequence[Tensor], losses: Sequence[Sequence[float]]) -> Tensor:
    """Return the sum of the episodes' expected risks.

    Examples
    --------
    >>> risks([torch.zeros(2), torch.zeros(2)], [(0.0, 1.0), (1.0, 1.0)])
    tensor(1.5000)
    """
    return torch.stack(
        [expected_risk(s, values) for s, values in zip(scores, losses, strict=True)]
    ).sum()
