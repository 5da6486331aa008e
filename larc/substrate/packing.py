"""Whether candidates can share a row of a model: found out by trying it, in float32.

A model that does not honour the mask of a shared row computes another function. In bfloat16
rounding alone moves logits by a tenth of their spread, so the question is asked in float32,
whatever the model is in, and bfloat16 only has to be as near to that with a shared row as it is
with plain ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from transformers import PreTrainedModel

from larc.substrate import views
from larc.substrate.rows import Row, attention_inputs, padded_length, token_batch

# How far float32 sums in another order may move a logit, of the logits' own spread.
_SAME = 1e-3
# How much farther from float32 than plain rows a shared row may be in another precision: the same
# rounding in other places, measured at 0.4 to 1.05 of it; a mask not honoured is far beyond.
_ROUNDING = 3.0


class InFloat32(TorchDispatchMode):
    """Computes in float32 with a model of another precision, a weight at a time.

    Examples
    --------
    >>> layer = torch.nn.Linear(2, 1, dtype=torch.bfloat16)
    >>> with InFloat32():
    ...     layer(torch.ones(1, 2)).dtype
    torch.float32
    """

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry out one operation with every number in float32."""
        if function is torch.ops.aten.embedding.default:  # rows of a table: no copy of all of it
            return function(*args, **(kwargs or {})).float()
        return function(*tree_map(_widened, args), **tree_map(_widened, kwargs or {}))


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype == torch.bfloat16:
        return value.float()
    return torch.float32 if value is torch.bfloat16 else value


def shares_rows(model: PreTrainedModel, size: int) -> bool:
    """Whether two candidates in one row of ``size`` tokens get the logits of rows of their own."""
    vocabulary = int(model.config.get_text_config().vocab_size)
    prompt = tuple(2 + (7 * index * index + index) % (vocabulary - 2) for index in range(size - 4))
    start = len(prompt)
    shared = Row(
        (*prompt, 2, 3, 4, 5),
        segments=(0,) * start + (1, 1, 2, 2),
        positions=(*range(start), start, start + 1, start, start + 1),
    )
    apart = [Row((*prompt, 2, 3)), Row((*prompt, 4, 5))]
    in_shared, in_apart = [start + 1, start + 3], [start + 1, 2 * start + 3]
    exact = model.dtype == torch.float32
    wide: Any = nullcontext() if exact else InFloat32()  # type: ignore[no-untyped-call]  # by torch
    try:
        with wide:
            packed = _logits(model, [shared], in_shared, torch.float32)
        rounded = packed if exact else _logits(model, [shared], in_shared, model.dtype)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):
        return False
    with wide:
        plain = _logits(model, apart, in_apart, torch.float32)
    spread = float(plain.std())
    if not float((packed - plain).abs().max()) <= _SAME * spread:
        return False
    if exact:
        return True
    allowed = _ROUNDING * _distance(_logits(model, apart, in_apart, model.dtype), plain)
    return _distance(rounded, plain) <= allowed + _SAME * spread


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).square().mean().sqrt())


def _logits(
    model: PreTrainedModel, rows: Sequence[Row], places: list[int], dtype: torch.dtype
) -> Tensor:
    device = model.device
    inputs = attention_inputs(rows, padded_length(rows), dtype, device)
    with torch.no_grad():
        embedded = model.get_input_embeddings()(token_batch(rows, padding=0).to(device))
        run = views.above(model, 0)
        return run(embedded.to(dtype), torch.tensor(places, device=device), **inputs).float()
