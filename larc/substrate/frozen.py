"""The frozen model: embed, mix, head, and nothing that learns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larc.errors import LarcError
from larc.ledger import Ledger
from larc.substrate import views
from larc.substrate.identity import Identity, identify
from larc.substrate.rows import Row, attention_inputs, padded_length, token_batch


class Substrate:
    """A causal language model, frozen and in evaluation mode, that activations can be put into.

    Make one with `larc.load_substrate`.

    Attributes
    ----------
    model, tokenizer
        The model and its tokenizer, as `transformers` made them. Gradients flow through the model
        to its input, never into its weights.
    identity : Identity
        Hashes of weights, config, tokenizer and adapter, computed when first asked for.
    ledger : Ledger
        What the model was made to do so far.
    checkpointing : bool
        Recompute activations in the backward pass instead of keeping them.
    chunk_positions : int
        The most padded positions put through the model in one call.
    cache_bytes : int
        The most memory that activations below a boundary may occupy for reuse.
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        checkpointing: bool = False,
        chunk_positions: int = 2048,
        cache_bytes: int = 512 * 2**20,
    ) -> None:
        if not isinstance(tokenizer.eos_token_id, int):
            raise LarcError(
                f"the tokenizer of {name} has no end-of-sequence token; set `eos_token` on it, "
                "because every candidate is scored with its end."
            )
        self.name = name
        self.model = model.requires_grad_(False).eval()
        self.tokenizer = tokenizer
        self.ledger = Ledger()
        self.checkpointing = checkpointing
        self.chunk_positions = chunk_positions
        self.cache_bytes = cache_bytes
        self._below_cache: OrderedDict[tuple[int, Row], Tensor] = OrderedDict()
        self._below_held = 0
        self._above: dict[tuple[int, bool], Callable[..., Tensor]] = {}
        self._below: dict[int, Callable[..., Tensor]] = {}

    def __repr__(self) -> str:
        return f"Substrate({self.name!r}, width={self.width}, layers={self.layers})"

    @cached_property
    def identity(self) -> Identity:
        """Hashes of weights, config, tokenizer and adapter."""
        return identify(self.model, self.tokenizer)

    @property
    def width(self) -> int:
        """The width of the hidden vectors, d."""
        return int(self.model.config.get_text_config().hidden_size)

    @property
    def layers(self) -> int:
        """How many decoder layers there are."""
        return int(self.model.config.get_text_config().num_hidden_layers)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self.model.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the activations."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    def check_boundary(self, boundary: int) -> None:
        """Refuse a boundary this model does not have."""
        if not 0 <= boundary < self.layers:
            raise LarcError(
                f"boundary {boundary} was asked for; {self.name} has boundaries 0 (the input "
                f"embeddings) to {self.layers - 1} (before the last layer)."
            )
        if boundary > 0 and boundary not in self._below:
            views.check_boundary(self.model, boundary)
            self._below[boundary] = views.below(self.model, boundary)

    def activations(self, rows: Sequence[Row], boundary: int) -> Tensor:
        """Return what enters the boundary, ``[rows, tokens, d]``, padded on the right.

        Nothing below the boundary depends on a learned state. Above the input, each row is computed
        alone and unpadded, so that what is reused never depends on the batch it was first met in.
        """
        if boundary == 0:
            tokens = token_batch(rows, self._padding_token).to(self.device)
            with torch.no_grad():
                embedded: Tensor = self.model.get_input_embeddings()(tokens)
            return embedded
        self.check_boundary(boundary)
        return torch.nn.utils.rnn.pad_sequence(
            [self._activations_of(row, boundary) for row in rows], batch_first=True
        )

    def _activations_of(self, row: Row, boundary: int) -> Tensor:
        key = (boundary, row)
        cached = self._below_cache.get(key)
        if cached is not None:
            self._below_cache.move_to_end(key)
            return cached
        size = len(row.tokens)
        inputs = attention_inputs([row], size, self.dtype, self.device)
        tokens = token_batch([row], self._padding_token).to(self.device)
        with torch.no_grad():
            hidden = self._below[boundary](input_ids=tokens, **inputs)[0].clone()
        self.ledger.add("below", size, size)
        held = hidden.numel() * hidden.element_size()
        if held <= self.cache_bytes:
            self._below_cache[key] = hidden
            self._below_held += held
        while self._below_held > self.cache_bytes:
            _, dropped = self._below_cache.popitem(last=False)
            self._below_held -= dropped.numel() * dropped.element_size()
        return hidden

    def logits(self, hidden: Tensor, rows: Sequence[Row], boundary: int, places: Tensor) -> Tensor:
        """Run the layers above the boundary, and the head at chosen places of the flattened batch.

        Differentiable with respect to ``hidden``. Returns ``[places, vocabulary]``.
        """
        way = (boundary, self.checkpointing)
        if way not in self._above:
            self.check_boundary(boundary)
            self._above[way] = views.above(self.model, boundary, checkpointing=self.checkpointing)
        length = hidden.shape[1]
        inputs = attention_inputs(rows, length, hidden.dtype, self.device)
        effective = sum(len(row.tokens) for row in rows)
        self.ledger.add("mixer", len(rows) * length, effective)
        self.ledger.add("head", places.numel(), places.numel())
        return self._above[way](hidden, places, **inputs)

    @cached_property
    def packs(self) -> bool:
        """Whether candidates can share one row, found out by trying it once on a short row."""
        text = self.model.config.get_text_config()
        tokens = [2 + index % (text.vocab_size - 2) for index in range(6)]
        shared = Row(tuple(tokens), segments=(0, 0, 1, 1, 2, 2), positions=(0, 1, 2, 3, 2, 3))
        plain = [Row((*tokens[:2], *tokens[2:4])), Row((*tokens[:2], *tokens[4:]))]
        try:
            packed = self._last_logits([shared], [3, 5])
        except (TypeError, ValueError, RuntimeError):
            return False
        return torch.allclose(packed, self._last_logits(plain, [3, 7]), atol=1e-2, rtol=1e-2)

    def _last_logits(self, rows: Sequence[Row], places: list[int]) -> Tensor:
        hidden = self.activations(rows, boundary=0)
        inputs = attention_inputs(rows, padded_length(rows), hidden.dtype, self.device)
        with torch.no_grad():
            run = views.above(self.model, 0)
            return run(hidden, torch.tensor(places, device=self.device), **inputs).float()

    @property
    def window(self) -> int | None:
        """How far back the model's attention reaches, where it is limited."""
        text = self.model.config.get_text_config()
        limited = getattr(text, "use_sliding_window", True)
        window = getattr(text, "sliding_window", None)
        return int(window) if limited and window else None

    @property
    def _padding_token(self) -> int:
        padding = self.tokenizer.pad_token_id
        return int(padding) if isinstance(padding, int) else int(self.tokenizer.eos_token_id)
