"""What makes a substrate the same substrate: hashes of weights, config, tokenizer and adapter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larc.io.hashes import hash_json, hash_tensors

# These say where a config was read from and how it is run, not what it describes. (The class is
# hashed from the model itself: saving writes it into the config of a model that never had it.)
_VOLATILE = {
    "architectures",
    "_name_or_path",
    "_model_name_or_path",
    "_attn_implementation",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "quantization_config",
    "use_cache",
}
_ADAPTER_MARK = "lora_"


@dataclass(frozen=True)
class Identity:
    """SHA-256 names of the parts of a substrate; ``adapter`` is empty where there is none.

    ``acts_on`` names the weight that states act on, and is empty where that is the residual stream.
    ``chat`` is of what prompts are put into, and empty where they are given as they are.
    The weights are hashed as they are in memory, so the same file loaded in another precision is
    another substrate: it computes another function.
    """

    weights: str
    config: str
    tokenizer: str
    adapter: str = ""
    acts_on: str = ""
    chat: str = ""

    @property
    def digest(self) -> str:
        """One name for all of it."""
        return hash_json(self.parts)

    @property
    def parts(self) -> dict[str, str]:
        """The names by part; later ones only where they are set, so that older digests hold."""
        return {k: v for k, v in asdict(self).items() if v or k not in ("acts_on", "chat")}


def identify(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Identity:
    """Return the identity of a model with its tokenizer, an injected adapter told apart."""
    tensors = dict(_distinct_tensors(model))
    adapter = [(name, tensor) for name, tensor in tensors.items() if _ADAPTER_MARK in name]
    # An injected adapter renames what it wraps; the base weights keep their own names here.
    base = [
        (name.replace(".base_layer.", "."), tensor)
        for name, tensor in tensors.items()
        if _ADAPTER_MARK not in name
    ]
    adapter_settings = _adapter_settings(model) if adapter else None
    return Identity(
        weights=hash_tensors(base),
        config=hash_json([type(model).__name__, _without_volatile(model.config.to_dict())]),
        tokenizer=_hash_tokenizer(tokenizer),
        adapter=hash_json([hash_tensors(adapter), adapter_settings]) if adapter else "",
    )


def _distinct_tensors(model: nn.Module) -> Iterable[tuple[str, Tensor]]:
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in sorted(model.state_dict().items()):
        storage = (tensor.data_ptr(), tuple(tensor.shape))
        if storage not in seen:  # tied weights are one tensor
            seen.add(storage)
            yield name, tensor


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_volatile(v) for k, v in value.items() if k not in _VOLATILE}
    return value


def _adapter_settings(model: PreTrainedModel) -> Any:
    scales = {
        name: module.scaling
        for name, module in model.named_modules()
        if isinstance(getattr(module, "scaling", None), dict)
    }
    return sorted(scales.items())


def _hash_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state: Any = sorted(tokenizer.get_vocab().items())
    if backend is not None:
        # Padding and truncation are how it was last called, not what it is.
        state = {**json.loads(backend.to_str()), "padding": None, "truncation": None}
    return hash_json([state, {k: str(v) for k, v in tokenizer.special_tokens_map.items()}])
