"""Attention for rows with a mask of their own, without a copy of the keys for every query head.

Where several query heads share a key head, `transformers` repeats the keys before a masked call of
torch's attention. On a CPU torch's kernel takes them as they are: the same numbers, fewer of them
moved, and their gradients summed inside. In bfloat16 that kernel is slower than in float32, its
backward by far; there short rows are attended to by two matrix multiplications with a float32
softmax between them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "larc_shared_keys"
# Whose attention was read, and gives the attention function nothing but what it handles here. Some
# others build a sparse mask, or not, by the name of the function.
_READ = ("llama", "mistral", "qwen2", "qwen3")
#: Rows up to this length have few enough weights of attention to be held whole.
_SHORT = 1024


def shared_keys_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend as `transformers` does by default, with shared keys left shared where torch can."""
    # What a call may bring besides (a bias, a cap, a paged cache) is left to transformers.
    special = any(others.get(name) is not None for name in ("position_bias", "softcap", "cache"))
    shared = query.shape[1] != key.shape[1]
    if special or not shared or attention_mask is None or query.device.type != "cpu":
        result: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **others
        )
        return result
    if query.dtype == torch.bfloat16 and key.shape[2] <= _SHORT and not dropout:
        return _grouped(query, key, value, attention_mask, scaling), None
    output = nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=True,
    )
    return output.transpose(1, 2).contiguous(), None


def _grouped(
    query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float | None
) -> Tensor:
    """Return ``[rows, length, heads, width]``; query heads that share a key head are one matrix."""
    rows, heads, length, width = query.shape
    shared = key.shape[1]
    scale = width**-0.5 if scaling is None else scaling
    together = query.reshape(rows, shared, heads // shared * length, width)
    scores = (together @ key.transpose(2, 3)).view(rows, shared, heads // shared, length, -1)
    if attention_mask.dtype == torch.bool:
        weights = (scores.float() * scale).masked_fill(
            ~attention_mask[:, :, None], torch.finfo(torch.float32).min
        )
    else:
        weights = scores.float() * scale + attention_mask[:, :, None]
    weights = weights.softmax(-1).to(query.dtype).view(rows, shared, heads // shared * length, -1)
    output = (weights @ value).view(rows, heads, length, width)
    return output.transpose(1, 2).contiguous()


AttentionInterface.register(_NAME, shared_keys_attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)


def share_keys(model: PreTrainedModel) -> None:
    """Let a model of a kind that is known use torch's attention with shared keys."""
    if model.config.model_type in _READ and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(_NAME)
