"""The slot for a frozen semantic adapter: a PEFT LoRA that becomes part of the substrate."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel

from larc.errors import LarcError


def attach_adapter(model: PreTrainedModel, directory: str | Path) -> None:
    """Put a LoRA from a PEFT directory into the model, always enabled and frozen."""
    if not (Path(directory) / "adapter_config.json").is_file():
        raise LarcError(
            f"{directory} holds no adapter_config.json; give a directory that PEFT's "
            "save_pretrained wrote."
        )
    try:
        from peft import PeftModel
    except ImportError as error:
        raise LarcError(
            "an adapter needs PEFT; install it with `pip install larc[adapter]`."
        ) from error
    try:
        # The injected layers stay in `model`; PEFT's own wrapper is not needed.
        PeftModel.from_pretrained(model, str(directory), is_trainable=False)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise LarcError(
            f"the adapter in {directory} does not fit this model ({reason})."
        ) from error
