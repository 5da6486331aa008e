"""Rows of tokens as the model takes them: padded to a batch, with positions and a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Row:
    """One row of tokens.

    ``segments`` is 0 for what every later token may see and j for a token that only segment j may
    see; positions restart after the shared part. A row without segments is plain causal text.

    Examples
    --------
    >>> Row((5, 6, 7, 8), segments=(0, 0, 1, 2), positions=(0, 1, 2, 2)).visible.int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 0],
            [1, 1, 0, 1]], dtype=torch.int32)
    """

    tokens: tuple[int, ...]
    segments: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    @property
    def visible(self) -> Tensor:
        """Which token (column) each token (row) may see."""
        causal = torch.ones(len(self.tokens), len(self.tokens), dtype=torch.bool).tril()
        if not self.segments:
            return causal
        segments = torch.tensor(self.segments)
        return causal & ((segments[None, :] == 0) | (segments[None, :] == segments[:, None]))


def padded_length(rows: Sequence[Row]) -> int:
    """Return the length of the longest row."""
    return max(len(row.tokens) for row in rows)


def token_batch(rows: Sequence[Row], padding: int, length: int | None = None) -> Tensor:
    """Return ``[rows, length]`` token ids, padded on the right."""
    batch = torch.full((len(rows), length or padded_length(rows)), padding)
    for index, row in enumerate(rows):
        batch[index, : len(row.tokens)] = torch.tensor(row.tokens)
    return batch


def attention_inputs(
    rows: Sequence[Row], length: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    """Return the mask and positions to call the model with, for rows all of one kind.

    Rows with segments get a four-dimensional additive mask and their own positions. Plain rows get
    the ordinary two-dimensional mask and no positions: padding is on the right, so a causal model
    of any kind counts them right by itself.
    """
    if not rows[0].segments:
        mask = torch.zeros(len(rows), length, dtype=torch.long)
        for index, row in enumerate(rows):
            mask[index, : len(row.tokens)] = 1
        return {"attention_mask": mask.to(device)}
    positions = torch.zeros(len(rows), length, dtype=torch.long)
    # Padding sees itself: a row of the mask with nothing visible would give NaN.
    visible = torch.eye(length, dtype=torch.bool).repeat(len(rows), 1, 1)
    for index, row in enumerate(rows):
        size = len(row.tokens)
        positions[index, :size] = torch.tensor(row.positions)
        visible[index, :size, :size] = row.visible
    mask = torch.zeros(len(rows), 1, length, length, dtype=dtype)
    mask.masked_fill_(~visible[:, None], torch.finfo(dtype).min)
    return {"attention_mask": mask.to(device), "position_ids": positions.to(device)}
