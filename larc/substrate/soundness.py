"""Whether a model is one that can be scored with, found out on the model itself."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from larc.errors import LarcError, reason
from larc.substrate.shown import showing_none

# Rounding may differ by this much of the logits' own spread before a layout counts as another.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2}


@torch.no_grad()
def check_sound(model: PreTrainedModel, name: str) -> None:
    """Refuse a model whose tokens see what they are to predict, or that gives no numbers.

    Two rows differ in their last token alone: a causal model says the same before it.
    """
    vocabulary = model.config.get_text_config().vocab_size
    row = torch.arange(2, 10, device=model.device) % vocabulary
    rows = torch.stack([row, row])
    rows[1, -1] = (rows[1, -1] + vocabulary // 2) % vocabulary
    try:
        with showing_none():
            logits = model(input_ids=rows, use_cache=False).logits.float()
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, KeyError) as error:
        raise LarcError(
            f"{name} could not be run on a row of tokens ({reason(error)}); give a causal language "
            "model for text."
        ) from error
    if bool(logits.isnan().any()):
        raise LarcError(
            f"{name} gives no numbers (NaN): its weights are damaged; get a whole copy."
        )
    known = logits[logits.isfinite()]
    apart = (logits[0, :-1] - logits[1, :-1]).nan_to_num(0.0).abs().max()
    if float(apart) > TOLERANCE.get(model.dtype, 5e-2) * float(known.std()):
        raise LarcError(
            f"{name} is no causal language model: its tokens see those after them, which they are "
            "to predict; give one that reads from left to right."
        )
