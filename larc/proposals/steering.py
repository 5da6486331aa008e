"""The model itself under a stack of states, one for each row of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from larc.residual import Factors, apply_correction, apply_residual
from larc.substrate.frozen import Substrate
from larc.substrate.views import layer_list, square_weight


@contextmanager
def active(substrate: Substrate, boundary: int, factors: Callable[[], Factors]) -> Iterator[None]:
    """Run the model under factors: one pair for all rows of a call, or a stack with one for each.

    A state that the caller shows with `Learner.active` is left out meanwhile.
    """
    model = substrate.model

    def corrected(_: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return apply_correction(output, args[0], factors())

    def embedded(_: Any, __: Any, output: Tensor) -> Tensor:
        return apply_residual(output, factors())

    def enter(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (apply_residual(args[0], factors()), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": apply_residual(kwargs["hidden_states"], factors())}

    with substrate._own_work():
        if substrate.acts_on:
            weight = square_weight(model, boundary, substrate.acts_on)
            hook = weight.register_forward_hook(corrected)
        elif boundary == 0:
            hook = model.get_input_embeddings().register_forward_hook(embedded)
        else:
            layer = layer_list(model)[1][boundary]
            hook = layer.register_forward_pre_hook(enter, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()
