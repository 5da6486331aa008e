"""The frozen model: embed, mix, head, and nothing that learns."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larc.checks import instance, text, whole_number
from larc.errors import LarcError
from larc.io.hashes import hash_json
from larc.ledger import Ledger
from larc.residual import Factors
from larc.substrate import beginnings, views
from larc.substrate.chat import chat_frame
from larc.substrate.identity import Identity, identify
from larc.substrate.packing import shares_rows
from larc.substrate.rows import Row, attention_inputs, token_batch
from larc.substrate.shown import showing_none
from larc.substrate.soundness import check_sound
from larc.substrate.text import Encoder, Texts

_TOGETHER: ContextVar[bool] = ContextVar("larc_rows_together", default=False)


@contextmanager
def rows_together() -> Iterator[None]:
    """Compute rows below a boundary in shared batches, in this thread, while the block lasts.

    Faster for many new prompts, and for prompts that begin like earlier ones: the keys of common
    beginnings are used again. The last bits then depend on which rows were new together and on what
    came before. What is computed so is kept apart from rows that were computed alone, and never
    used outside.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> slow = larc.SlowState.initial(substrate, seed=1, boundary=2)
    >>> learner = larc.Learner(substrate, slow)
    >>> with rows_together():
    ...     reads = learner.read_many([(learner.begin(), f"{n}: ", ["a", "b"]) for n in range(8)])
    >>> substrate.ledger.total("below").calls
    1
    """
    token = _TOGETHER.set(True)
    try:
        yield
    finally:
        _TOGETHER.reset(token)


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
        The most memory that activations below a boundary may occupy for reuse. Keys of common
        beginnings, which only `rows_together` makes, may occupy an eighth of it besides.
    acts_on : str
        The square weight that states act on, in the layer at their boundary; empty where they act
        on the residual stream.
    encoder : Encoder
        How texts become tokens.
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
        acts_on: str = "",
        texts: Texts = "plain",
        chat: bool = False,
    ) -> None:
        name = text(name, "the name of a substrate")
        instance(model, "model", PreTrainedModel)
        instance(tokenizer, "tokenizer", PreTrainedTokenizerBase)
        if not isinstance(tokenizer.eos_token_id, int):
            raise LarcError(
                f"the tokenizer of {name} has no end-of-sequence token; set `eos_token` on it, "
                "because every candidate is scored with its end."
            )
        chunk_positions = whole_number(chunk_positions, "chunk_positions", least=1)
        cache_bytes = whole_number(cache_bytes, "cache_bytes")
        instance(chat, "chat", bool)
        instance(acts_on, "acts_on", str)
        self.name = name
        self.model = _unscaled(model).requires_grad_(False).eval()
        check_sound(self.model, name)
        self.tokenizer = tokenizer
        self.ledger = Ledger()
        self.checkpointing = checkpointing
        self.chunk_positions = chunk_positions
        self.cache_bytes = cache_bytes
        self.acts_on = acts_on
        embeddings: Any = model.get_input_embeddings()
        self.encoder = Encoder(tokenizer, int(embeddings.weight.shape[0]), texts)
        #: What a prompt is put into, where prompts are messages of a chat.
        self.chat = chat_frame(tokenizer, name) if chat else None
        #: Tokenised questions, for the scorer to keep; they go with the substrate.
        self.questions: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.RLock()
        #: By boundary, row, and whether it was computed together with others.
        self._below_cache: OrderedDict[tuple[int, Row, bool], Tensor] = OrderedDict()
        self._below_held = 0
        self.beginnings = beginnings.Beginnings(cache_bytes // 8)
        self._reuses: dict[tuple[int, int], bool] = {}
        self._above: dict[tuple[int, bool], Callable[..., Tensor]] = {}
        self._below: dict[int, Callable[..., Tensor]] = {}
        self._packs: dict[int, bool] = {}
        self._checked: set[int] = set()

    def __repr__(self) -> str:
        facts = [f"width={self.width}", f"layers={self.layers}"]
        if self.dtype != torch.float32:
            facts.append(str(self.dtype).removeprefix("torch."))
        if self._packs:  # known once something was asked
            facts.append(f"rows={self.layout}")
        return f"Substrate({self.name!r}, {', '.join(facts)})"

    @cached_property
    def identity(self) -> Identity:
        """Hashes of weights, config, tokenizer, adapter and chat, and what states act on."""
        framed = hash_json([self.chat.before, self.chat.after]) if self.chat else ""
        parts = identify(self.model, self.tokenizer)
        return replace(parts, acts_on=self.acts_on, chat=framed)

    @property
    def width(self) -> int:
        """The width of the hidden vectors, d."""
        return int(self.model.config.get_text_config().hidden_size)

    def width_at(self, boundary: int) -> int:
        """Return the width at a boundary: some models embed narrower than they compute."""
        if boundary > 0 or self.acts_on:
            return self.width
        return int(self.model.get_input_embeddings().weight.shape[1])

    @property
    def layers(self) -> int:
        """How many decoder layers there are."""
        return int(self.model.config.get_text_config().num_hidden_layers)

    @property
    def longest(self) -> int | None:
        """The most positions the model says it can take, where it says so."""
        text = self.model.config.get_text_config()
        most = getattr(text, "max_position_embeddings", None)
        return int(most) if most else None

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

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        # One call at a time: a view holds what a call goes through. And a state that the model
        # shows to its user is no part of the scorer's own calls.
        with self._lock, showing_none():
            yield

    def check_boundary(self, boundary: int) -> None:
        """Refuse a boundary this model does not have; one that was good is not tried again."""
        if type(boundary) is int and boundary in self._checked:
            return
        if not 0 <= whole_number(boundary, "the boundary", least=-self.layers) < self.layers:
            raise LarcError(
                f"boundary {boundary} was asked for; {self.name} has boundaries 0 (the input "
                f"embeddings) to {self.layers - 1} (before the last layer)."
            )
        if self.acts_on:
            views.square_weight(self.model, boundary, self.acts_on)
        if boundary > 0:
            with self._own_work():
                views.check_boundary(self.model, boundary)
                self._below[boundary] = views.below(self.model, boundary)
        self._checked.add(boundary)

    def activations(self, rows: Sequence[Row], boundary: int) -> Tensor:
        """Return what enters the boundary, ``[rows, tokens, d]``, padded on the right.

        Nothing below the boundary depends on a learned state. Above the input, each row is computed
        alone and unpadded, so that what is reused never depends on the batch it was first met in;
        but for `rows_together`.
        """
        self.check_boundary(boundary)
        # Never as inference tensors: a later gradient may need what is kept here.
        with self._own_work(), torch.inference_mode(False), torch.no_grad():
            if boundary == 0:
                tokens = token_batch(rows, self.padding_token).to(self.device)
                embedded: Tensor = self.model.get_input_embeddings()(tokens)
                return embedded
            unique = list(dict.fromkeys(rows))
            known = {row: self._known(row, boundary) for row in unique}
            new = [row for row in unique if known[row] is None]
            if _TOGETHER.get():
                known |= self._together(new, boundary)
            else:
                for row in new:
                    known |= zip([row], self._computed([row], boundary), strict=True)
            hidden = [known[row] for row in rows]
            return torch.nn.utils.rnn.pad_sequence(hidden, batch_first=True)  # type: ignore[arg-type]

    def _known(self, row: Row, boundary: int) -> Tensor | None:
        """Return what enters the boundary, if it is kept."""
        for together in (False, True) if _TOGETHER.get() else (False,):
            key = (boundary, row, together)
            cached = self._below_cache.get(key)
            if cached is not None:
                self._below_cache.move_to_end(key)
                return cached
        return None

    def _together(self, rows: Sequence[Row], boundary: int) -> dict[Row, Tensor]:
        """Compute what enters the boundary for new rows in shared batches, and keep it."""
        parts = [self._part(row, boundary) for row in rows]
        for row in rows:
            self.beginnings.meet(boundary, row)
        if not any(part.past or part.wanted for part in parts):
            return dict(zip(rows, self._computed(rows, boundary), strict=True)) if rows else {}
        done: dict[Row, Tensor] = {}
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        for batch in beginnings.batches(parts):
            hidden, kept = beginnings.continued(
                self._below[boundary], batch, self.padding_token, like
            )
            padded = len(batch) * max(part.length for part in batch)
            self.ledger.add("below", padded, sum(part.length for part in batch))
            for part, activations, blocks in zip(batch, hidden, kept, strict=True):
                done[part.row] = activations
                self._keep((boundary, part.row, True), activations)
                for end, block in zip(part.wanted, blocks, strict=True):
                    self.beginnings.keep(boundary, part.row, end, block)
        return done

    def _part(self, row: Row, boundary: int) -> beginnings.Part:
        """Return a row with what is known of its beginning, where this model can use it."""
        part = beginnings.Part(
            row,
            tuple(self.beginnings.known(boundary, row)),
            tuple(self.beginnings.wanted(boundary, row)),
        )
        used = bool(part.past or part.wanted) and self._can_reuse(boundary, len(row.tokens))
        return part if used else beginnings.Part(row)

    def _can_reuse(self, boundary: int, length: int) -> bool:
        """Whether what is known of a beginning can be used, tried once for doubled lengths."""
        size = max(16, 1 << (length - 1).bit_length())
        size = size if self.longest is None else min(size, self.longest)
        if (boundary, size) not in self._reuses:
            vocabulary = int(self.model.config.get_text_config().vocab_size)
            like = torch.empty(0, dtype=self.dtype, device=self.device)
            self._reuses[boundary, size] = beginnings.reuses(
                self._below[boundary], size, vocabulary, like
            )
        return self._reuses[boundary, size]

    def _computed(self, rows: Sequence[Row], boundary: int) -> list[Tensor]:
        """Compute what enters the boundary for one row, or for several together, and keep it."""
        size = max(len(row.tokens) for row in rows)
        inputs = attention_inputs(rows, size, self.dtype, self.device)
        tokens = token_batch(rows, self.padding_token).to(self.device)
        batch = self._below[boundary](input_ids=tokens, **inputs)
        self.ledger.add("below", len(rows) * size, sum(len(row.tokens) for row in rows))
        computed = []
        for row, hidden in zip(rows, batch, strict=True):
            computed.append(hidden[: len(row.tokens)].clone())
            self._keep((boundary, row, len(rows) > 1), computed[-1])
        return computed

    def _keep(self, key: tuple[int, Row, bool], hidden: Tensor) -> None:
        nbytes = hidden.numel() * hidden.element_size()
        if nbytes <= self.cache_bytes:
            self._below_cache[key] = hidden
            self._below_held += nbytes
        while self._below_held > self.cache_bytes:
            _, dropped = self._below_cache.popitem(last=False)
            self._below_held -= dropped.numel() * dropped.element_size()

    def logits(
        self,
        hidden: Tensor,
        rows: Sequence[Row],
        boundary: int,
        places: Tensor,
        factors: Factors | None = None,
    ) -> Tensor:
        """Run the layers above the boundary, and the head at chosen places of the flattened batch.

        ``factors`` correct the weight that states act on, where the substrate names one.
        Differentiable with respect to ``hidden`` and to them. Returns ``[places, vocabulary]``.
        """
        self.check_boundary(boundary)
        way = (boundary, self.checkpointing)
        with self._own_work():
            if way not in self._above:
                self._above[way] = views.above(
                    self.model, boundary, checkpointing=self.checkpointing, weight=self.acts_on
                )
            length = hidden.shape[1]
            inputs = attention_inputs(rows, length, hidden.dtype, self.device)
            effective = sum(len(row.tokens) for row in rows)
            self.ledger.layouts.add("packed" if rows[0].segments else "plain")
            self.ledger.add("mixer", len(rows) * length, effective)
            self.ledger.add("head", places.numel(), places.numel())
            return self._above[way](hidden, places, factors, **inputs)

    @property
    def layout(self) -> str:
        """How candidates were laid out so far: packed, plain, or packed up to a length.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> substrate.layout, substrate.packs(100), substrate.layout
        ('untried', True, 'packed')
        """
        if not self._packs:
            return "untried"
        if len(set(self._packs.values())) == 1:
            return "packed" if any(self._packs.values()) else "plain"
        return f"packed up to {max(size for size, packs in self._packs.items() if packs)}"

    def packs(self, length: int) -> bool:
        """Whether candidates can share a row of this length, found out by trying it.

        Tried once for every doubling of the length: attention that reaches only so far back, or
        looks at chunks, takes no such mask and would show nothing on a short row.
        """
        size = max(8, 1 << (length - 1).bit_length())
        if self.longest is not None:
            size = max(6, min(size, self.longest))
        if size not in self._packs:
            with self._own_work():
                self._packs[size] = shares_rows(self.model, size)
        return self._packs[size]

    @property
    def padding_token(self) -> int:
        """The token that rows are padded with."""
        padding = self.tokenizer.pad_token_id
        return int(padding) if isinstance(padding, int) else int(self.tokenizer.eos_token_id)


def _unscaled(model: PreTrainedModel) -> PreTrainedModel:
    """Keep RWKV from dividing its weights in place when it first runs: they are frozen.

    The division only keeps float16 from overflowing, and every view would do it again.
    """
    inner: Any = model.base_model
    if getattr(model.config, "rescale_every", 0):
        if inner.layers_are_rescaled:
            inner.train()
            inner._rescale_layers()  # as transformers takes it back before training
        model.config.rescale_every = 0
    return model
