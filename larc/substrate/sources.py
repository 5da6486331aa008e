"""Where a frozen model comes from: presets, directories, GGUF files, the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from larc.errors import LarcError, reason
from larc.substrate.adapter import attach_adapter
from larc.substrate.attention import share_keys
from larc.substrate.fetching import cached_model, convert_gguf, quiet_unless_terminal
from larc.substrate.frozen import Substrate
from larc.substrate.presets import FETCHED
from larc.substrate.tiny import byte_tokenizer, random_llama


@dataclass(frozen=True)
class HubPreset:
    """A model of the hub under a short name, at one revision and precision."""

    repository: str
    revision: str
    dtype: str


HUB_PRESETS = {
    "minicpm5-1b-sft": HubPreset(
        "openbmb/MiniCPM5-1B-SFT", "a60b37f1fc409c54e1e337b0723aaac6f92dfec0", "bfloat16"
    ),
}
PRESETS = ("tiny", *FETCHED, *HUB_PRESETS)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_substrate(
    source: str | Path,
    *,
    revision: str | None = None,
    adapter: str | Path | None = None,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype | None = None,
    checkpointing: bool = False,
    chunk_positions: int = 2048,
    cache_bytes: int = 512 * 2**20,
    acts_on: str = "",
    chat: bool = False,
    trust_remote_code: bool = False,
) -> Substrate:
    """Load a causal language model, frozen, ready to carry a learning state.

    Parameters
    ----------
    source
        ``"tiny"`` (random, made on the spot); ``"smollm2-135m"``, ``"stories15m"``,
        ``"qwen2.5-coder-0.5b"`` or ``"qwen2.5-coder-1.5b"`` (after ``larc fetch``);
        ``"minicpm5-1b-sft"``, a model directory, a ``.gguf`` file, or a hub id.
    revision
        The hub revision; only for hub ids.
    adapter
        A PEFT LoRA directory that becomes part of the frozen model.
    device, dtype
        Where it runs, and ``"float32"`` (the default) or ``"bfloat16"``.
    checkpointing
        Recompute activations in the backward pass: less memory, same gradients, more time.
    chunk_positions
        The most padded positions put through the model in one call; bounds memory.
    cache_bytes
        The most memory for reusing activations below a boundary.
    acts_on
        A square weight of each layer, such as ``"self_attn.o_proj"``, for states to act on: then
        they are a LoRA ``W + B A`` of it in the layer at their boundary. By default they act on
        the residual stream.
    chat
        Put every prompt into the model's chat template, as a user's message; candidates are then
        the assistant's answers. Part of the substrate's identity.
    trust_remote_code
        Run model code that comes with a hub repository or directory. Never by default.

    Examples
    --------
    >>> load_substrate("tiny")
    Substrate('tiny', width=32, layers=4)
    """
    if revision is not None and (str(source) in PRESETS or Path(source).exists()):
        raise LarcError(f"revision was given for {source}; only hub ids have revisions.")
    # Loading draws first weights that the loaded ones replace; nobody else's stream is touched.
    with torch.random.fork_rng(devices=[]):
        model, tokenizer = _model_and_tokenizer(str(source), revision, dtype, trust_remote_code)
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:
            raise LarcError(f"the model cannot run on {device} here ({reason(error)}).") from error
        share_keys(model)
        if adapter is not None:
            attach_adapter(model, tokenizer, adapter)
    return Substrate(
        str(source),
        model,
        tokenizer,
        checkpointing=checkpointing,
        chunk_positions=chunk_positions,
        cache_bytes=cache_bytes,
        acts_on=acts_on,
        chat=chat,
    )


def _model_and_tokenizer(
    source: str, revision: str | None, dtype: str | torch.dtype | None, trust: bool
) -> tuple[Any, Any]:
    if source == "tiny":
        model: Any = random_llama()
        return model.to(_as_dtype(dtype)), byte_tokenizer()
    if source in FETCHED:
        directory, precision = cached_model(source), _as_dtype(dtype)
        try:
            return _from_pretrained(str(directory), precision)
        except LarcError as error:
            raise LarcError(
                f"the copy of {source} is damaged; run `larc fetch {source}`."
            ) from error
    if source in HUB_PRESETS:
        preset = HUB_PRESETS[source]
        chosen = _as_dtype(dtype or preset.dtype)
        return _from_pretrained(preset.repository, chosen, revision=preset.revision)
    path = Path(source)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise LarcError(f"there is no file {source}; give the path of a .gguf file.")
        return _from_pretrained(str(convert_gguf(path)), _as_dtype(dtype))
    if path.is_dir():
        return _from_pretrained(source, _as_dtype(dtype), trust=trust)
    return _from_pretrained(source, _as_dtype(dtype), revision=revision, trust=trust)


def _from_pretrained(
    source: str, dtype: torch.dtype, *, revision: str | None = None, trust: bool = False
) -> tuple[Any, Any]:
    options: dict[str, Any] = {"trust_remote_code": trust}
    if revision is not None:
        options["revision"] = revision
    loader: Any = AutoModelForCausalLM
    try:
        with quiet_unless_terminal():
            model, loaded = loader.from_pretrained(
                source, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
            )
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except Exception as error:  # whatever the many loaders behind this raise on a damaged model
        # transformers explains a missing model over many lines; the first says enough.
        raise LarcError(
            f"no model could be loaded from {source!r} ({reason(error)}); give one of "
            f"{', '.join(PRESETS)}, a model directory, a .gguf file, or the id of a hub model."
        ) from error
    absent = sorted(loaded["missing_keys"])
    if absent:  # transformers would go on with random numbers in their place
        raise LarcError(
            f"the model in {source!r} lacks {len(absent)} of its weights, such as {absent[0]}; "
            "get a whole copy."
        )
    return model, tokenizer


def _as_dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    name = str(dtype or "float32").removeprefix("torch.")
    if name not in _DTYPES:
        raise LarcError(f"dtype {name} was asked for; use float32 or bfloat16.")
    return _DTYPES[name]
