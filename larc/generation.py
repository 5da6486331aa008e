"""The model itself under fast states: any call of it, and texts generated in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from larc.checks import text
from larc.errors import LarcError, reason
from larc.questions import ADVICE, Limits, encoded_prompt
from larc.residual import Factors, apply_correction, apply_residual
from larc.substrate.frozen import Substrate
from larc.substrate.shown import showing, shown_by
from larc.substrate.views import layer_list, square_weight


@dataclass(frozen=True)
class Active:
    """Factors that a model shows: where they belong, and what gives them.

    Attributes
    ----------
    boundary, weight
        The boundary, and the weight of the layer there if they act on one.
    factors
        Gives the factors of the moment: one state for all rows, or a stack with one for each row.
        Rows that a search makes of one row are next to each other, and of its state.
    """

    boundary: int
    weight: str
    factors: Callable[[], Factors]

    def of_rows(self, rows: int) -> Factors:
        """Return the factors for a batch of so many rows."""
        now = self.factors()
        if now.A.ndim == 2 or len(now.A) == rows:
            return now
        return now.map(lambda tensor: tensor.repeat_interleave(rows // len(now.A), 0))


@contextmanager
def active(substrate: Substrate, boundary: int, factors: Callable[[], Factors]) -> Iterator[None]:
    """Run the model under some factors, for calls in this thread and context alone."""
    _install(substrate.model, boundary, substrate.acts_on)
    with showing(substrate.model, Active(boundary, substrate.acts_on, factors)):
        yield


# A hook stays once it is there: taking one away while another thread is in the model is not safe.
# It does nothing where its context shows no state at its place.
_INSTALLED: WeakKeyDictionary[Any, set[tuple[int, str]]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def _install(model: Any, boundary: int, weight: str) -> None:
    """Give a model the hook through which states at a boundary are shown."""
    with _LOCK:
        places = _INSTALLED.setdefault(model, set())
        if (boundary, weight) in places:
            return
        key = id(model)  # and not the model, which would never be let go

        def now(hidden: Tensor) -> Factors | None:
            state = shown_by(key)
            if not isinstance(state, Active) or (state.boundary, state.weight) != (
                boundary,
                weight,
            ):
                return None
            return state.of_rows(len(hidden))

        def corrected(_: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            factors = now(output)
            return None if factors is None else apply_correction(output, args[0], factors)

        def embedded(_: Any, __: Any, output: Tensor) -> Tensor | None:
            factors = now(output)
            return None if factors is None else apply_residual(output, factors)

        # Without `kwargs` it is called by a thread that met it half installed: nothing is shown to
        # such a thread.
        def enter(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
            if kwargs is None:
                return None
            hidden = args[0] if args else kwargs["hidden_states"]
            factors = now(hidden)
            if factors is None:
                return None
            moved = apply_residual(hidden, factors)
            if args:
                return (moved, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": moved}

        if weight:
            square_weight(model, boundary, weight).register_forward_hook(corrected)
        elif boundary == 0:
            model.get_input_embeddings().register_forward_hook(embedded)
        else:
            layer = layer_list(model)[1][boundary]
            layer.register_forward_pre_hook(enter, with_kwargs=True)
        places.add((boundary, weight))


def checked_prompt(
    substrate: Substrate, prompt: str, limits: Limits, further: int
) -> tuple[int, ...]:
    """Return the tokens of a prompt that so many are to follow, refusing one that is too long."""
    prompt = text(prompt, "the prompt")
    substrate.encoder.check_length(prompt, limits.prompt, "the prompt", ADVICE["prompt"])
    tokens = encoded_prompt(substrate, prompt)
    if not 0 < len(tokens) <= limits.prompt:
        raise LarcError(
            f"the prompt has {len(tokens)} tokens; give 1 to {limits.prompt}: {ADVICE['prompt']}."
        )
    if substrate.longest is not None and len(tokens) + further > substrate.longest:
        raise LarcError(
            f"the prompt and its continuation may take {len(tokens) + further} positions, and "
            f"{substrate.name} has {substrate.longest}; shorten one of them."
        )
    return tokens


def batches(lengths: Sequence[int], substrate: Substrate) -> Iterator[list[int]]:
    """Yield indices of rows to generate together, alike in length, within `chunk_positions`."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if batch and (len(batch) + 1) * lengths[index] > substrate.chunk_positions:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@torch.no_grad()
def generate(
    substrate: Substrate,
    boundary: int,
    factors: Factors,
    prompts: Sequence[tuple[int, ...]],
    max_new_tokens: int,
    options: dict[str, Any],
) -> list[str]:
    """Continue prompts in one batch, each under its own state of a stack."""
    if options.get("num_return_sequences", 1) != 1:
        raise LarcError("one text is generated for each request; give a request several times.")
    model: Any = substrate.model
    length, padding = max(map(len, prompts)), substrate.padding_token
    # Padded on the left, so that every row goes on from its last token.
    ids = torch.tensor([[padding] * (length - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in prompts])
    how = {"do_sample": False, "pad_token_id": padding, **options}
    try:
        with active(substrate, boundary, lambda: factors):
            rows = model.generate(
                ids.to(substrate.device),
                attention_mask=mask.to(substrate.device),
                max_new_tokens=max_new_tokens,
                **how,
            )
    except (TypeError, ValueError) as error:
        raise LarcError(f"the model generates nothing so ({reason(error)}).") from error
    tokenizer: Any = substrate.tokenizer
    return [tokenizer.decode(row[length:], skip_special_tokens=True) for row in rows]
