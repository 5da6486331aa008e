"""Training a semantic adapter: what the programs mean, learned from the historical groups only.

The adapter is a PEFT LoRA on the query and value projections of the upper third of the layers. It
learns to say what a program makes of an input. No group of any split of the study is used, so the
adapter knows the language of the task and none of its cases.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from larc.domains.programs import build_episode, render, run, split_groups
from larc.errors import LarcError
from larc.io.files import atomic_directory, atomic_write
from larc.runs.stopping import stoppable
from larc.settings import as_values
from larc.studies.programs.settings import AdapterSettings
from larc.substrate import load_substrate
from larc.substrate.adapter import CONFIG_FILE, LINEAGE_FILE, WEIGHTS_FILE
from larc.substrate.frozen import Substrate

RANK = 16
ALPHA = 32


def train_adapter(
    settings: AdapterSettings, on_update: Callable[[int, float], None] | None = None
) -> Path:
    """Train an adapter and write it as a PEFT directory with its lineage beside it."""
    if settings.updates < 1 or not 1 <= settings.batch <= 1000 or settings.seed < 0:
        raise LarcError("updates and seed must be positive, and batch 1 to 1000.")
    out = Path(settings.out)
    with atomic_directory(out) as directory:
        _train(settings, directory, on_update)
    return out


def _train(
    settings: AdapterSettings, directory: Path, on_update: Callable[[int, float], None] | None
) -> None:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise LarcError(
            "training an adapter needs PEFT; install it with `pip install 'larc-lm[adapter]'`."
        ) from error
    substrate = load_substrate(settings.substrate)
    base = substrate.identity
    examples = historical_examples(settings.seed)
    upper = range(substrate.layers - max(1, substrate.layers // 3), substrate.layers)
    config = LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        target_modules=["q_proj", "v_proj"],
        layers_to_transform=list(upper),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):  # PEFT draws from the global stream
        torch.manual_seed(settings.seed)
        try:
            model: Any = get_peft_model(substrate.model, config)
        except ValueError as error:
            raise LarcError(
                f"{settings.substrate} has no query and value projections (q_proj, v_proj); "
                "an adapter can only be trained for a model that has them."
            ) from error
    model.peft_config["default"].base_model_name_or_path = settings.substrate
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=0.0)
    stream = np.random.default_rng([settings.seed, 1])
    losses = []
    with stoppable() as stopped:
        for update in range(1, settings.updates + 1):
            chosen = stream.choice(len(examples), size=settings.batch, replace=False)
            loss = _batch_loss(substrate, [examples[index] for index in chosen])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]):
                raise LarcError(f"update {update} is not finite; lower the learning rate.")
            if on_update is not None:
                on_update(update, losses[-1])
            if stopped():
                raise KeyboardInterrupt
    # No embedding is adapted; saying so keeps PEFT from asking the hub about the base model.
    try:
        model.save_pretrained(str(directory), save_embedding_layers=False)
    except SafetensorError as error:  # how safetensors says that the disk is full
        raise LarcError(f"{settings.out} could not be written ({error}).") from error
    (directory / "README.md").unlink(missing_ok=True)  # PEFT's card is an empty form
    lineage = {
        "substrate": asdict(base),
        "settings": as_values(settings),
        "examples": len(examples),
        "losses": losses,
        "files": {
            name: hashlib.sha256((directory / name).read_bytes()).hexdigest()
            for name in (CONFIG_FILE, WEIGHTS_FILE)
        },
    }
    atomic_write(directory / LINEAGE_FILE, json.dumps(lineage, indent=1).encode())


def historical_examples(seed: int) -> list[tuple[str, str]]:
    """Return what every historical program makes of some inputs, as (question, answer) texts.

    Examples
    --------
    >>> len(historical_examples(seed=1)) == (105 + 44) * 4 * 4
    True
    """
    examples = []
    for group in split_groups("historical"):
        for target, program in enumerate(group.programs):
            for value in build_episode(group, target).support_inputs:
                examples.append(
                    (
                        f"Program: {render(program)}\nInput: {_text(value)}\nOutput:",
                        f" {_text(run(program, value))}",
                    )
                )
    order = np.random.default_rng([seed, 0]).permutation(len(examples))
    return [examples[index] for index in order]


def _text(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else " ".join(map(str, value)) or "nothing"


def _batch_loss(substrate: Substrate, examples: list[tuple[str, str]]) -> Tensor:
    """Return the mean cross-entropy of the answers' tokens, the end of sequence included."""
    tokenizer: Any = substrate.tokenizer
    rows, targets = [], []
    for question, answer in examples:
        asked = substrate.encoder.encode(question, begin=True)
        answered = [*substrate.encoder.encode(answer), tokenizer.eos_token_id]
        rows.append(torch.tensor([*asked, *answered]))
        targets.append(torch.tensor([*([-100] * len(asked)), *answered]))
    pad = torch.nn.utils.rnn.pad_sequence
    inputs = pad(rows, batch_first=True, padding_value=tokenizer.eos_token_id)
    labels = pad(targets, batch_first=True, padding_value=-100)
    # Padding is on the right and never asked for, so a causal model needs no mask.
    logits = substrate.model(input_ids=inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100
    )
