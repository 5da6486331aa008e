"""Common beginnings of rows: their keys and values below a boundary, computed once and used again.

Prompts of one stream begin alike: the same instruction, the same repository, the same latest case.
Nothing after a token changes what is below the boundary at that token, so only what is new has to
be computed. Beginnings are kept in blocks of a few tokens, each under all the tokens up to its end
and the boundary; the model's weights never change. A block is kept when it is met for the second
time: what is never met again takes no memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from larc.substrate.rows import Row, attention_inputs, token_batch

#: Tokens in a block: reuse ends at a multiple of it.
BLOCK = 8
#: So many beginnings are remembered as met, by their hashes alone.
_MOST_MET = 65_536
#: Rows of one call are at most this much longer, padded, than they are.
_PADDED = 1.2
# How far float32 sums in another order may move an activation, of the activations' own spread.
_SAME = 1e-3
Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Block:
    """What is kept of some tokens: ``[layers, 2, heads, BLOCK, width]``, and ``[BLOCK, d]``."""

    keys_values: Tensor
    hidden: Tensor

    @property
    def nbytes(self) -> int:
        """How much memory it occupies."""
        return self.keys_values.nbytes + self.hidden.nbytes


class Beginnings:
    """Blocks of common beginnings within a bound of memory; what was used longest ago goes first.

    Examples
    --------
    >>> beginnings = Beginnings(most_bytes=2**20)
    >>> row = Row(tuple(range(20)), segments=(0,) * 18 + (1, 2), positions=(*range(18), 18, 18))
    >>> beginnings.wanted(2, row)
    []
    >>> beginnings.meet(2, row)
    >>> beginnings.wanted(2, row)
    [8, 16]
    >>> beginnings.known(2, row)
    []
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held = 0
        self._blocks: OrderedDict[Key, Block] = OrderedDict()
        self._met: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def known(self, boundary: int, row: Row) -> list[Block]:
        """Return the blocks that are known of a row's beginning, from its first token on."""
        blocks: list[Block] = []
        for end in _ends(row):
            block = self._blocks.get((boundary, row.tokens[:end]))
            if block is None:
                break
            blocks.append(block)
        # The longest first: a block without those before it would be of no use.
        for number in range(len(blocks), 0, -1):
            self._blocks.move_to_end((boundary, row.tokens[: number * BLOCK]))
        return blocks

    def wanted(self, boundary: int, row: Row) -> list[int]:
        """Return where blocks of a row's beginning end that were met before and are not kept."""
        keys = [(boundary, row.tokens[:end]) for end in _ends(row)]
        return [len(key[1]) for key in keys if hash(key) in self._met and key not in self._blocks]

    def meet(self, boundary: int, row: Row) -> None:
        """Remember that the blocks of a row's beginning were met."""
        for end in _ends(row) if self.most_bytes else ():
            mark = hash((boundary, row.tokens[:end]))
            self._met[mark] = None
            self._met.move_to_end(mark)
        while len(self._met) > _MOST_MET:
            self._met.popitem(last=False)

    def keep(self, boundary: int, row: Row, end: int, block: Block) -> None:
        """Keep the block that ends at a token of a row."""
        key = (boundary, row.tokens[:end])
        if key in self._blocks or block.nbytes > self.most_bytes:
            return
        self._blocks[key] = block
        self.held += block.nbytes
        while self.held > self.most_bytes:
            _, dropped = self._blocks.popitem(last=False)
            self.held -= dropped.nbytes


def _ends(row: Row) -> range:
    """Return where the blocks of a row's beginning end; at least one token is left over.

    A row without segments is for a model that takes no mask, and has none.
    """
    if not row.segments:
        return range(0)
    shared = row.segments.index(1) if 1 in row.segments else len(row.tokens)
    return range(BLOCK, min(shared, len(row.tokens) - 1) + 1, BLOCK)


@dataclass(frozen=True)
class Part:
    """A row, what is known of its beginning, and where the blocks end that are to be kept."""

    row: Row
    past: tuple[Block, ...] = ()
    wanted: tuple[int, ...] = ()

    @property
    def start(self) -> int:
        """How many of its tokens are known."""
        return BLOCK * len(self.past)

    @property
    def length(self) -> int:
        """How many of its tokens are to be computed."""
        return len(self.row.tokens) - self.start


def batches(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield parts to be computed together: alike in what is left of them.

    Examples
    --------
    >>> rows = [Row(tuple(range(size))) for size in (10, 30, 11)]
    >>> [[part.length for part in batch] for batch in batches([Part(row) for row in rows])]
    [[30], [11, 10]]
    """
    batch: list[Part] = []
    for part in sorted(parts, key=lambda part: -part.length):
        held = sum(one.length for one in batch) + part.length
        if batch and (len(batch) + 1) * batch[0].length > _PADDED * held:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def continued(
    below: Callable[..., Tensor], parts: Sequence[Part], padding: int, like: Tensor
) -> tuple[list[Tensor], list[list[Block]]]:
    """Compute what is left of some rows; returns their activations, and the blocks to be kept.

    ``like`` is a tensor of the model's type, where the model is.
    """
    cache = _past(parts, like)
    past = max(part.start for part in parts)
    rows = [Row(part.row.tokens[part.start :]) for part in parts]
    tokens = token_batch(rows, padding).to(like.device)
    new = below(input_ids=tokens, past_key_values=cache, **_inputs(parts, past, like))
    hidden, kept = [], []
    for number, part in enumerate(parts):
        fresh = new[number, : part.length]
        hidden.append(torch.cat([*(block.hidden for block in part.past), fresh]))
        blocks = []
        for end in part.wanted:
            column = past + end - BLOCK - part.start
            span = slice(column, column + BLOCK)
            pairs = [
                (layer.keys[number, :, span], layer.values[number, :, span])
                for layer in cache.layers
            ]
            stacked = torch.stack([torch.stack(pair) for pair in pairs])
            blocks.append(Block(stacked, hidden[-1][end - BLOCK : end].clone()))
        kept.append(blocks)
    return hidden, kept


def _past(parts: Sequence[Part], like: Tensor) -> Any:
    """Return a cache of what is known, padded on the right to the longest."""
    cache: Any = DynamicCache()
    longest = max(part.start for part in parts)
    if not longest:
        return cache
    first = next(part.past[0] for part in parts if part.past).keys_values
    layers, _, heads, _, width = first.shape
    known = like.new_zeros(len(parts), layers, 2, heads, longest, width)
    for number, part in enumerate(parts):
        for index, block in enumerate(part.past):
            known[number, ..., index * BLOCK : (index + 1) * BLOCK, :] = block.keys_values
    for layer in range(layers):
        cache.update(known[:, layer, 0], known[:, layer, 1], layer)
    return cache


def _inputs(parts: Sequence[Part], past: int, like: Tensor) -> dict[str, Tensor]:
    """Return the mask and positions of what is left of rows, behind a past padded on the right."""
    size = max(part.length for part in parts)
    positions = torch.zeros(len(parts), size, dtype=torch.long)
    visible = torch.zeros(len(parts), size, past + size, dtype=torch.bool)
    # Padding sees itself: a row of the mask with nothing visible would give NaN.
    visible[:, range(size), range(past, past + size)] = True
    for number, part in enumerate(parts):
        start, length, row = part.start, part.length, part.row
        told = row.positions or range(len(row.tokens))
        positions[number, :length] = torch.tensor(told[start:])
        seen = row.visible[start:]
        visible[number, :length, :start] = seen[:, :start]
        visible[number, :length, past : past + length] = seen[:, start:]
    mask = torch.zeros(visible.shape, dtype=like.dtype)
    mask.masked_fill_(~visible, torch.finfo(like.dtype).min)
    return {
        "attention_mask": mask[:, None].to(like.device),
        "position_ids": positions.to(like.device),
    }


def reuses(below: Callable[..., Tensor], size: int, vocabulary: int, like: Tensor) -> bool:
    """Whether a row of ``size`` tokens, its half known, gets the activations of the whole row.

    Tried with made-up tokens, in float32 only: elsewhere rounding would hide another function.
    """
    if like.dtype != torch.float32:
        return False
    size = max(size, 2 * BLOCK)
    half = size // 2 // BLOCK * BLOCK
    tokens = [2 + (7 * index * index + index) % (vocabulary - 2) for index in range(size)]
    row = Row(
        tuple(tokens),
        segments=(0,) * (size - 2) + (1, 2),
        positions=(*range(size - 2), size - 2, size - 2),
    )
    whole = Part(row, wanted=tuple(range(BLOCK, half + 1, BLOCK)))
    inputs = attention_inputs([row], size, like.dtype, like.device)
    plain = below(input_ids=token_batch([row], 0).to(like.device), **inputs)[0]
    try:
        (first,), (blocks,) = continued(below, [whole], 0, like)
        (again,), _ = continued(below, [Part(row, tuple(blocks))], 0, like)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, KeyError):
        return False
    distance = max(float((one - plain).abs().max()) for one in (first, again))
    return distance <= _SAME * float(plain.std())
