"""A state before a layer of a language model, without the software that it was learned with.

An export to a wrapper has this file beside ``wrapper.json`` and ``wrapper.safetensors``. It needs
torch, transformers and safetensors, and nothing else runs it: no ``trust_remote_code`` is involved.

    import sys
    sys.path.insert(0, "DIRECTORY")
    from wrapper import load, wrap

    model = load()      # the model that it was learned on, under the state
    model = wrap(model) # or a model of yours that is the same one, inside PEFT or not
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

HERE = Path(__file__).parent


def load(**options: Any) -> Any:
    """Return the model under the state; options are those of ``from_pretrained``."""
    from transformers import AutoModelForCausalLM

    base = json.loads((HERE / "wrapper.json").read_text(encoding="utf-8"))["base_model"]
    return wrap(AutoModelForCausalLM.from_pretrained(base, **options))


def wrap(model: Any, directory: Path = HERE) -> Any:
    """Put the state into a model: activations ``h`` enter its layer as ``h + B A h``.

    It stays until the model is let go, and takes part in every call of it.
    """
    facts = json.loads((directory / "wrapper.json").read_text(encoding="utf-8"))
    modules = dict(model.named_modules())
    names = (facts["layer"], f"base_model.model.{facts['layer']}")  # the second is PEFT's
    layer = next((modules[name] for name in names if name in modules), None)
    if layer is None:
        raise ValueError(f"the model has no layer {facts['layer']}; give {facts['base_model']}.")
    factors = load_file(directory / "wrapper.safetensors")

    def enter(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        A, B = (factors[name].to(hidden.device) for name in "AB")
        wide = hidden.float()
        moved = (wide + (wide @ A.mT) @ B.mT).to(hidden.dtype)
        if args:
            return (moved, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": moved}

    layer.register_forward_pre_hook(enter, with_kwargs=True)
    return model
