"""Ways through one frozen model: up to a layer, from a layer on, with the head at chosen places.

A view is a shallow copy of the model: same weights, another list of layers or another head. The
model itself is never changed, and keeps its number of layers so that whatever it decides by a
layer's index stays right.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from larc.errors import LarcError
from larc.residual import Factors, apply_correction
from larc.substrate.shown import showing_none


class _Around(nn.Module):
    """Stands where a module stood; what it does not define itself is asked of that module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


class _Enter(_Around):
    """Stands for a layer below the boundary; the last of them gives what enters the next."""

    given: Tensor | None = None
    # Some layers return their activations alone, some with more behind them.
    as_tuple = False

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        hidden = hidden_states if self.given is None else self.given
        return (hidden, None, None) if self.as_tuple else hidden


class _Leave(_Around):
    """Ends the forward here: nothing above is needed."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise _Left(hidden_states)


class _Left(Exception):
    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


class _Recomputed(_Around):
    """Keeps only the layer's input for the backward pass and computes the rest again."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return checkpoint(self._plainly, *args, use_reentrant=False, **kwargs)

    def _plainly(self, *args: Any, **kwargs: Any) -> Any:
        with showing_none():  # computed again in the backward pass, wherever that is
            return self.inner(*args, **kwargs)


class _ChosenPlaces(_Around):
    """Evaluates the head at chosen places of the flattened batch only."""

    places: Tensor | None = None

    def forward(self, hidden: Tensor) -> Tensor:
        assert self.places is not None
        flat = hidden.reshape(-1, hidden.shape[-1])
        logits: Tensor = self.inner(flat.index_select(0, self.places))
        return logits


class _Corrected(_Around):
    """A weight ``W`` that acts as ``W + B A``, with factors of its own for every row."""

    factors: Factors | None = None

    def forward(self, hidden: Tensor) -> Tensor:
        output: Tensor = self.inner(hidden)
        return output if self.factors is None else apply_correction(output, hidden, self.factors)


def layer_list(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    """Return the name and the list of the model's decoder layers."""
    count = model.config.get_text_config().num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return name, module
    raise LarcError(
        f"no list of {count} decoder layers was found in {type(model).__name__}; "
        "use the input boundary (boundary=0) with this model."
    )


def below(model: PreTrainedModel, boundary: int) -> Callable[..., Tensor]:
    """Return a function from model inputs to the activations that enter layer ``boundary``."""
    name, layers = layer_list(model)
    replaced = [_Leave(layer) if i == boundary else layer for i, layer in enumerate(layers)]
    view = _with_modules(model, {name: nn.ModuleList(replaced)})

    def run(**inputs: Any) -> Tensor:
        try:
            view(**inputs, use_cache=False)
        except _Left as left:
            return left.hidden
        raise LarcError(f"the model never reached layer {boundary}; use another boundary.")

    return run


def square_weight(model: PreTrainedModel, boundary: int, weight: str) -> nn.Module:
    """Return a linear module of the layer at a boundary, refusing one that is not d by d."""
    layer = layer_list(model)[1][boundary]
    width = model.config.get_text_config().hidden_size
    modules: dict[str, nn.Module] = dict(layer.named_modules())
    square = [
        name
        for name, module in modules.items()
        if getattr(getattr(module, "weight", None), "shape", None) == (width, width)
    ]
    if weight not in square:
        raise LarcError(
            f"layer {boundary} has no weight {weight!r} of {width} by {width} numbers; "
            f"use one of {', '.join(square) or 'another model: it has none'}."
        )
    return modules[weight]


def above(
    model: PreTrainedModel, boundary: int, *, checkpointing: bool = False, weight: str = ""
) -> Callable[..., Tensor]:
    """Return a function from activations at a boundary to logits at chosen places.

    The function takes ``hidden`` (``[rows, tokens, d]``), ``places`` (indices into the flattened
    batch), ``factors`` of a weight of the first layer, if one is named, and the model's mask and
    positions; it returns ``[places, vocabulary]``.
    """
    head = model.get_output_embeddings()
    head_name = next(name for name, module in model.named_modules() if module is head)
    chosen = _ChosenPlaces(head)
    replacements: dict[str, nn.Module] = {head_name: chosen}
    enter: _Enter | None = None
    corrected: _Corrected | None = None
    if boundary > 0 or checkpointing or weight:
        name, layers = layer_list(model)
        replaced: list[nn.Module] = [
            _Enter(layer) if i < boundary else _Recomputed(layer) if checkpointing else layer
            for i, layer in enumerate(layers)
        ]
        if weight:
            corrected = _Corrected(square_weight(model, boundary, weight))
            replaced[boundary] = _with_modules(layers[boundary], {weight: corrected})
        if boundary > 0:
            tuples = _returns_tuple(model, layers[boundary - 1])
            for layer in replaced[:boundary]:
                layer.as_tuple = tuples  # type: ignore[assignment]  # a plain attribute
            enter = replaced[boundary - 1]  # type: ignore[assignment]  # made just above
        replacements[name] = nn.ModuleList(replaced)
    view = _with_modules(model, replacements)
    embeddings: Any = model.get_input_embeddings()
    width: int = embeddings.weight.shape[1]

    def run(
        hidden: Tensor, places: Tensor, factors: Factors | None = None, **inputs: Any
    ) -> Tensor:
        chosen.places = places
        if corrected is not None:
            corrected.factors = factors
        embedded = hidden
        if enter is not None:
            enter.given = hidden
            # What comes from below is forgotten; it only has to look like embeddings.
            embedded = hidden.new_zeros(*hidden.shape[:2], width)
        try:
            logits: Tensor = view(inputs_embeds=embedded, use_cache=False, **inputs).logits
        finally:  # the views outlive the call; its activations must not
            chosen.places = None
            if enter is not None:
                enter.given = None
            if corrected is not None:
                corrected.factors = None
        return logits.reshape(places.numel(), -1)

    return run


def check_boundary(model: PreTrainedModel, boundary: int) -> None:
    """Refuse a boundary at which the two halves do not give the whole model's answer."""
    tokens = _some_tokens(model)
    try:
        with torch.no_grad():
            whole = model(input_ids=tokens, use_cache=False).logits[0].float()
            hidden = below(model, boundary)(input_ids=tokens)
            places = torch.arange(tokens.shape[1], device=model.device)
            halves = above(model, boundary)(hidden, places).float()
        # The same kernels on the same shapes: anything but rounding is another function.
        same = torch.allclose(whole, halves, atol=1e-3, rtol=1e-3)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, KeyError):
        same = False
    if not same:
        raise LarcError(
            f"{type(model).__name__} cannot be entered before layer {boundary}: the layers above "
            "need more than the activations there; use the input boundary (boundary=0)."
        )


def _some_tokens(model: PreTrainedModel) -> Tensor:
    vocabulary = model.config.get_text_config().vocab_size
    tokens: Tensor = torch.arange(2, 10, device=model.device)[None] % vocabulary
    return tokens


def _returns_tuple(model: PreTrainedModel, layer: nn.Module) -> bool:
    tuples: list[bool] = []
    hook = layer.register_forward_hook(lambda _, __, out: tuples.append(isinstance(out, tuple)))
    try:
        with torch.no_grad():
            model(input_ids=_some_tokens(model), use_cache=False)
    finally:
        hook.remove()
    return any(tuples)


def _with_modules(model: nn.Module, replacements: dict[str, nn.Module]) -> Any:
    view = _shallow(model)
    copied: dict[str, nn.Module] = {"": view}
    for path, module in replacements.items():
        *parents, last = path.split(".")
        owner, trail = view, ""
        for part in parents:
            trail = f"{trail}.{part}" if trail else part
            if trail not in copied:
                copied[trail] = owner._modules[part] = _shallow(owner._modules[part])
            owner = copied[trail]
        owner._modules[last] = module
    return view


def _shallow(module: Any) -> Any:
    clone = copy.copy(module)
    clone._modules = dict(module._modules)
    return clone
