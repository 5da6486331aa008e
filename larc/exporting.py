"""States for other software: a learned state as a PEFT adapter, a plain model, or a wrapper.

At the input boundary ``h`` is a row of the embedding table ``E``, so ``h + B A h`` is that row of
``E + (E A^T) B^T``: a LoRA on the embedding, or simply another table. The output head never sees
the residual; where it shares the table, it keeps the old one.

Before a later layer ``h`` is no weight's output and every weight that reads it has a norm in
between, so that no change of weights is ``h + B A h``: there a short file puts it into the model.
"""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from larc import wrapper
from larc.checks import checked_path, instance
from larc.episodes import EPISODE_FILE, Episode
from larc.errors import LarcError, reason
from larc.generation import active
from larc.io.files import atomic_directory
from larc.io.states import load_state, whole
from larc.residual import Factors, apply_residual
from larc.state import SlowState, read_slow
from larc.substrate.adapter import LINEAGE_FILE
from larc.substrate.fetching import quiet_unless_terminal
from larc.substrate.frozen import Substrate
from larc.substrate.shown import showing_none
from larc.substrate.views import layer_list, square_weight

Form = Literal["peft", "merged", "wrapper"]

# How far the exported logits may be from the state's own, relative to the logits' spread. Sums are
# formed in another order; in bfloat16 the embeddings are rounded before and not after the sum.
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2}


@dataclass(frozen=True)
class Exported:
    """What was written, and how far its logits are from the state's own.

    ``difference`` is the root mean square over a row of tokens, relative to the logits' own spread.
    """

    out: Path
    form: Form
    difference: float


@dataclass(frozen=True, eq=False)
class Residual:
    """Factors, where they belong, and the digest of the substrate they belong to."""

    factors: Factors
    boundary: int
    substrate: str
    acts_on: str = ""


def export_state(
    substrate: Substrate, state: SlowState | Episode | str | Path, out: str | Path, *, to: Form
) -> Exported:
    """Write a state so that it can be used without this package.

    What is written is loaded again and compared with the state before it gets its name.

    Parameters
    ----------
    substrate
        The model the state was made on.
    state
        A slow state, an episode, or a file or directory that holds one.
    out
        The directory to make.
    to
        ``"peft"``: an adapter for ``peft.PeftModel.from_pretrained``. Load it beside the model and
        leave it there: where the head shares the embedding, PEFT's own merging would change both.
        ``"merged"``: a model directory for ``AutoModelForCausalLM.from_pretrained`` and its
        tokenizer, the head with a table of its own. Both are for states at the input, or on a
        weight. ``"wrapper"``, for states before a later layer: the factors, and a Python file
        whose ``load()`` gives the model under them and whose ``wrap(model)`` puts them into a model
        of `transformers`, inside PEFT or not. It needs neither this package nor remote code.

    Raises
    ------
    LarcError
        If the state belongs elsewhere, cannot have that form, or could not be reproduced.

    Examples
    --------
    >>> import larc, tempfile
    >>> substrate = larc.load_substrate("tiny")
    >>> slow = larc.SlowState.initial(substrate, seed=1)
    >>> done = export_state(substrate, slow, Path(tempfile.mkdtemp()) / "plain", to="merged")
    >>> (done.out / "config.json").is_file(), done.difference < 1e-5
    (True, True)
    """
    instance(substrate, "substrate", Substrate)
    if to not in list(get_args(Form)):
        raise LarcError(
            f"a state cannot be exported to {to!r}; choose {', '.join(get_args(Form))}."
        )
    residual = _checked(substrate, residual_of(state), to)
    write = {"peft": _write_peft, "merged": _write_merged, "wrapper": _write_wrapper}[to]
    try:
        with atomic_directory(out) as directory, quiet_unless_terminal():
            difference = _difference(substrate, residual, write(substrate, residual, directory))
    except SafetensorError as error:  # how safetensors says that the disk is full
        raise LarcError(
            f"{out} could not be written ({reason(error)}); free some space."
        ) from error
    return Exported(Path(out), to, difference)


def residual_of(state: SlowState | Episode | str | Path) -> Residual:
    """Return the residual of a state, or of a file or directory that holds one."""
    if isinstance(state, Episode):
        state = replace(state.slow, factors=state.factors)
    if not isinstance(state, SlowState):
        path = checked_path(state, "the state")
        if _says_episode(path):
            tensors, facts = load_state(path, EPISODE_FILE)
            with whole(path, EPISODE_FILE):
                factors = Factors(tensors["A"], tensors["B"])
                return Residual(factors, int(facts["boundary"]), str(facts["substrate"]))
        state = read_slow(path)
    return Residual(state.factors, state.boundary, state.substrate, state.acts_on)


def _says_episode(path: Path) -> bool:
    """Whether a file calls itself an episode; if it is damaged, reading it will say so."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return EPISODE_FILE.partition(",")[0].encode() in file.read(min(size, 2**20))
    except OSError as error:
        raise LarcError(f"{path} could not be read ({error.strerror or error}).") from error


def _checked(substrate: Substrate, residual: Residual, to: Form) -> Residual:
    inside = residual.boundary > 0 and not substrate.acts_on
    if inside and to != "wrapper":
        raise LarcError(
            f"this state is before layer {residual.boundary}, which is no change of weights; "
            "export it to wrapper, or train one with --boundary 0 or --acts-on."
        )
    if not inside and to == "wrapper":
        raise LarcError("this state is a change of weights; export it to peft or merged.")
    if residual.substrate != substrate.identity.digest:
        raise LarcError(
            f"the state belongs to substrate {residual.substrate[:12]}… and {substrate.name} is "
            f"{substrate.identity.digest[:12]}…; name the model (--substrate), adapter and "
            "precision it was made on."
        )
    if to == "peft" and substrate.identity.adapter:
        raise LarcError(
            f"{substrate.name} has an adapter of its own, and one PEFT directory holds one "
            "adapter; export to merged, which takes both in."
        )
    if to == "wrapper" and substrate.identity.adapter:
        raise LarcError(
            f"{substrate.name} has an adapter of its own, which a wrapper would not load; use the "
            "state with larc."
        )
    return replace(residual, factors=residual.factors.to(substrate.device))


def _write_peft(substrate: Substrate, residual: Residual, directory: Path) -> Any:
    """Write the adapter, and return a copy of the model with it."""
    try:
        from peft import LoraConfig, PeftModel
    except ImportError as error:
        raise LarcError(
            "an export to peft needs PEFT; install it with `pip install 'larc-lm[adapter]'`."
        ) from error
    factors = residual.factors
    name, tensors = _lora(substrate, residual)
    # alpha = r: PEFT multiplies by alpha / r.
    config = LoraConfig(
        r=factors.rank,
        lora_alpha=factors.rank,
        target_modules=[name],
        task_type="CAUSAL_LM",
        inference_mode=True,
        base_model_name_or_path=_base_name(substrate),
        fan_in_fan_out=bool(substrate.acts_on) and _is_transposed(substrate, residual),
    )
    config.save_pretrained(str(directory))
    contiguous = {key: tensor.cpu().contiguous() for key, tensor in tensors.items()}
    save_file(contiguous, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    lineage = {"substrate": substrate.identity.parts, "residual": {"rank": factors.rank}}
    (directory / LINEAGE_FILE).write_text(json.dumps(lineage, indent=1) + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        # PEFT warns that a tied head is not adapted; that it is not is what is wanted.
        warnings.filterwarnings("ignore", message=".*tie_word_embeddings")
        # A copy, because PEFT puts its layers into the model it is given.
        return PeftModel.from_pretrained(copy.deepcopy(substrate.model), str(directory))


def _lora(substrate: Substrate, residual: Residual) -> tuple[str, dict[str, Tensor]]:
    """Return the module that a LoRA is of, and the LoRA's weights as PEFT names them."""
    factors = residual.factors
    if substrate.acts_on:
        name = _weight_name(substrate, residual)
        prefix = f"base_model.model.{name}"
        return name, {f"{prefix}.lora_A.weight": factors.A, f"{prefix}.lora_B.weight": factors.B}
    name, table = _embedding(substrate)
    prefix = f"base_model.model.{name}"
    return name, {
        f"{prefix}.lora_embedding_A": factors.A @ table.float().T,
        f"{prefix}.lora_embedding_B": factors.B,
    }


def _weight_name(substrate: Substrate, residual: Residual) -> str:
    weight = square_weight(substrate.model, residual.boundary, substrate.acts_on)
    named = substrate.model.named_modules()
    return str(next(key for key, module in named if module is weight))


def _is_transposed(substrate: Substrate, residual: Residual) -> bool:
    """Whether the weight is kept as its transpose, as those of GPT-2 are."""
    weight = square_weight(substrate.model, residual.boundary, substrate.acts_on)
    return type(weight).__name__ == "Conv1D"


def _base_name(substrate: Substrate) -> str:
    """Return where `transformers` finds the model: its directory or hub id, and not a preset."""
    source = str(substrate.model.name_or_path or substrate.name)
    return str(Path(source).absolute()) if Path(source).is_dir() else source


def _write_merged(substrate: Substrate, residual: Residual, directory: Path) -> Any:
    """Write the model, and return it as it is read back."""
    model: Any = substrate.model
    weights = _plain_weights(model)
    if substrate.acts_on:
        name = f"{_weight_name(substrate, residual)}.weight"
        change = residual.factors.B @ residual.factors.A
        change = change.T if _is_transposed(substrate, residual) else change
        weights[name] = (weights[name].float() + change).to(weights[name].dtype)
        return _written(substrate, model, weights, directory)
    name, _ = _embedding(substrate)
    table = weights[f"{name}.weight"]
    head = next(
        key for key, module in model.named_modules() if module is model.get_output_embeddings()
    )
    # The head is given its own copy of the table first, whether or not it shared the embedding's.
    weights[f"{head}.weight"] = weights.get(f"{head}.weight", table).clone()
    weights[f"{name}.weight"] = apply_residual(table, residual.factors)
    plain = copy.copy(model)
    plain.config = copy.deepcopy(model.config)
    for config in (plain.config, plain.config.get_text_config()):
        config.tie_word_embeddings = False
    return _written(substrate, plain, weights, directory)


def _written(substrate: Substrate, model: Any, weights: dict[str, Tensor], directory: Path) -> Any:
    from transformers import AutoModelForCausalLM

    model.save_pretrained(str(directory), state_dict=weights)
    substrate.tokenizer.save_pretrained(str(directory))
    return AutoModelForCausalLM.from_pretrained(str(directory), dtype=substrate.dtype)


def _write_wrapper(substrate: Substrate, residual: Residual, directory: Path) -> Any:
    """Write the factors with the file that puts them into a model, and return a copy of it so."""
    name, _ = layer_list(substrate.model)
    facts = {
        "base_model": _base_name(substrate),
        "layer": f"{name}.{residual.boundary}",
        "substrate": substrate.identity.parts,
    }
    (directory / "wrapper.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    factors = {"A": residual.factors.A.cpu(), "B": residual.factors.B.cpu()}
    save_file(
        {key: tensor.contiguous() for key, tensor in factors.items()},
        directory / "wrapper.safetensors",
    )
    shutil.copyfile(wrapper.__file__, directory / "wrapper.py")
    return wrapper.wrap(copy.deepcopy(substrate.model), directory)


def _embedding(substrate: Substrate) -> tuple[str, Tensor]:
    embedding: Any = substrate.model.get_input_embeddings()
    name = next(key for key, module in substrate.model.named_modules() if module is embedding)
    return name, embedding.weight.detach()


def _plain_weights(model: Any) -> dict[str, Tensor]:
    """Return the weights under the model's own names, an injected adapter added to them."""
    weights = {
        name.replace(".base_layer.", "."): tensor.detach()
        for name, tensor in model.state_dict().items()
        if "lora_" not in name
    }
    for name, module in model.named_modules():
        if hasattr(module, "get_delta_weight"):
            for adapter in module.active_adapters:
                weight = weights[f"{name}.weight"]
                delta = module.get_delta_weight(adapter).detach()
                weights[f"{name}.weight"] = (weight.float() + delta.float()).to(weight.dtype)
    return weights


@torch.no_grad()
def _difference(substrate: Substrate, residual: Residual, loaded: Any) -> float:
    """Compare what was written with the live residual, and refuse what computes something else."""
    model: Any = substrate.model
    vocabulary = int(model.config.get_text_config().vocab_size)
    length = min(64, substrate.longest or 64)
    tokens = torch.linspace(0, vocabulary - 1, length, device=substrate.device).long()[None]
    with active(substrate, residual.boundary, lambda: residual.factors):
        live = model(input_ids=tokens, use_cache=False).logits.float()
    with showing_none():
        loaded = loaded.to(substrate.device).eval()
        exported = loaded(input_ids=tokens, use_cache=False).logits.float()
    difference = float((exported - live).square().mean().sqrt() / live.std())
    if not difference <= _TOLERANCE[substrate.dtype]:
        raise LarcError(
            f"the export would differ from the state by {difference:.2g} of the logits' spread, so "
            f"nothing was written; {type(model).__name__} does more with its embeddings than look "
            "them up, or cannot be saved as it is: use the state with larc."
        )
    return difference
