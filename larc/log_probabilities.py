"""Log-probabilities of tokens, with a backward that makes one matrix of the vocabulary's size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the log-probability of each place's tokens, ``[places, width]``.

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
    """

    @staticmethod
    def forward(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        total = logits.logsumexp(1, keepdim=True)
        return logits.gather(1, tokens) - total, total

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logits, tokens, total = ctx.saved_tensors
        taken = gradient.sum(1, keepdim=True)
        if torch.is_grad_enabled():  # somebody differentiates the gradient
            spread = logits.softmax(1) * -taken
            return spread.scatter_add(1, tokens, gradient), None
        spread = (logits - total).exp_().mul_(-taken)
        return spread.scatter_add_(1, tokens, gradient), None
