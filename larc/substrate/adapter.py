"""The slot for a frozen semantic adapter: a PEFT LoRA that becomes part of the substrate."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from safetensors import safe_open
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larc.errors import LarcError, reason
from larc.io.files import read_whole
from larc.substrate.identity import identify

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
LINEAGE_FILE = "larc_adapter.json"
#: All that an adapter consists of.
ADAPTER_FILES = (CONFIG_FILE, WEIGHTS_FILE, LINEAGE_FILE)


def attach_adapter(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, directory: str | Path
) -> None:
    """Put a LoRA from a PEFT directory into the model, always enabled and frozen."""
    _check_config(Path(directory))
    try:
        from peft import PeftModel
    except ImportError as error:
        raise LarcError(
            "an adapter needs PEFT; install it with `pip install 'larc-lm[adapter]'`."
        ) from error
    _check_lineage(model, tokenizer, Path(directory))
    try:
        # The injected layers stay in `model`; PEFT's own wrapper is not needed.
        PeftModel.from_pretrained(model, str(directory), is_trainable=False)
    except Exception as error:  # PEFT and safetensors raise whatever a damaged file makes them
        raise LarcError(
            f"the adapter in {directory} does not fit this model ({reason(error)})."
        ) from error
    wanted = sum("lora_" in name for name, _ in model.named_parameters())
    with safe_open(Path(directory) / WEIGHTS_FILE, framework="pt") as file:
        present = len(file.keys())
    if present != wanted:  # PEFT would only warn, and go on with random numbers
        raise LarcError(
            f"the adapter in {directory} has {present} tensors and this model takes {wanted}; "
            "get a whole copy."
        )


def _check_config(directory: Path) -> None:
    """Refuse all but a plain LoRA in safetensors, whose config makes PEFT run and read no more."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):  # without the latter, PEFT would open a pickle
        if not (directory / name).is_file():
            raise LarcError(
                f"{directory} holds no {name}; give a directory that PEFT's save_pretrained wrote."
            )
    path = directory / CONFIG_FILE
    try:
        config = json.loads(_read(path))
        # Other ways to start a LoRA change the frozen weights, or read files that it names.
        extras = {name: value for name, value in config.items() if name.endswith("_config")}
        plain = config["peft_type"] == "LORA" and not any(extras.values())
        plain = plain and isinstance(config.get("init_lora_weights", True), bool)
    except LarcError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LarcError(f"{path} is damaged; get a whole copy of the adapter.") from error
    if not plain:
        raise LarcError(f"{path} describes no plain LoRA; give an adapter that is one.")


def _read(path: Path) -> bytes:
    try:
        return read_whole(path)
    except FileNotFoundError as error:
        raise LarcError(f"{path} is missing; get a whole copy of the adapter.") from error
    except OSError as error:
        raise LarcError(f"{path} cannot be read ({error.strerror or error}).") from error


def _check_lineage(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, directory: Path
) -> None:
    """Refuse an adapter that says it was trained on another model; a foreign one says nothing."""
    path = directory / LINEAGE_FILE
    if not path.is_file():
        return
    try:
        lineage = json.loads(_read(path))
        trained_on = lineage["substrate"]["weights"]
        # Adapters of version 0.1.0 do not say it.
        for name, digest in lineage.get("files", {}).items():
            if hashlib.sha256(_read(directory / name)).hexdigest() != digest:
                raise KeyError(name)
    except LarcError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LarcError(
            f"{directory} is not as it was trained; get a whole copy of the adapter."
        ) from error
    if trained_on != identify(model, tokenizer).weights:
        raise LarcError(f"the adapter in {directory} was trained on another model.")
