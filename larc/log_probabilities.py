"""Log-probabilities of tokens, with a backward that makes one matrix of the vocabulary's size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

#: Places that are taken together where numbers are widened to float32: as many stay in the cache.
BLOCK = 8


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the log-probability of each place's tokens, ``[places, width]``, at least in float32.

    Examples
    --------
    >>> log_probabilities(torch.zeros(1, 4), torch.tensor([[2]])).exp()
    tensor([[0.2500]])
    """
    result: Tensor
    result, _ = _LogProbabilities.apply(logits, tokens)  # type: ignore[no-untyped-call]  # by torch
    return result


class _LogProbabilities(torch.autograd.Function):
    """``logits.gather(1, tokens) - logits.logsumexp(1)`` with a backward that makes one matrix.

    Left to itself, autograd makes five of them, each of the size of the vocabulary by the places.
    Logits of a lower precision are widened some places at a time, so that there is no matrix of
    float32 at all.
    """

    @staticmethod
    def forward(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if not _narrow(logits):
            total = logits.logsumexp(1, keepdim=True)
            return logits.gather(1, tokens) - total, total
        total = torch.cat([wide.logsumexp(1, keepdim=True) for _, wide in _widened(logits)])
        return logits.gather(1, tokens).float() - total, total

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logits, tokens, total = ctx.saved_tensors
        taken = gradient.sum(1, keepdim=True)
        if torch.is_grad_enabled():  # somebody differentiates the gradient
            wide = logits.float() if _narrow(logits) else logits
            spread = wide.softmax(1) * -taken
            return spread.scatter_add(1, tokens, gradient).to(logits.dtype), None
        if not _narrow(logits):
            spread = (logits - total).exp_().mul_(-taken)
            return spread.scatter_add_(1, tokens, gradient), None
        result = torch.empty_like(logits)
        for some, wide in _widened(logits):
            part = wide.sub_(total[some]).exp_().mul_(-taken[some])
            result[some] = part.scatter_add_(1, tokens[some], gradient[some])
        return result, None


def _narrow(logits: Tensor) -> bool:
    return logits.dtype.itemsize < torch.float32.itemsize


def _widened(logits: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Return some places of a matrix at a time, in float32."""
    for start in range(0, len(logits), BLOCK):
        some = slice(start, start + BLOCK)
        yield some, logits[some].float()
