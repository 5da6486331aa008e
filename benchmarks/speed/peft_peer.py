"""PEFT: a LoRA on the input embedding is the same residual, one adapter per private state.

PEFT keeps ``A E^T`` (one column per token of the vocabulary) where we keep ``A``, so its function
is ours and its gradients lead to ours by the chain rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.peers import batches, need, risks, rows_of
from benchmarks.speed.setting import INNER_STEPS, STEP_SIZE, Setting
from larc.questions import EncodedQuestion
from larc.residual import Factors


class PeftStates:
    """Private states as adapters of one PEFT model."""

    def __init__(self, setting: Setting, states: Sequence[Factors]) -> None:
        peft = need("peft")
        rank = states[0].rank
        config = peft.LoraConfig(
            r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules=["embed_tokens"]
        )
        self.positions = setting.substrate.chunk_positions
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # says that tied embeddings do not merge; none do here
            self.model: Any = peft.get_peft_model(setting.own_model(), config, "s0")
            for number in range(1, len(states)):
                self.model.add_adapter(f"s{number}", config)
        self.model.eval()
        self.layer = self.model.get_base_model().get_input_embeddings()
        self.embedding: Tensor = self.layer.base_layer.weight
        for number, state in enumerate(states):
            self.write(number, state)

    def write(self, number: int, state: Factors) -> None:
        """Put a state's factors into its adapter."""
        with torch.no_grad():
            self.layer.lora_embedding_A[f"s{number}"].copy_(state.A @ self.embedding.T)
            self.layer.lora_embedding_B[f"s{number}"].copy_(state.B)

    def gradient(self, number: int) -> Factors:
        """Return what the last backward left in a state's adapter, as gradients of its factors."""
        A = self.layer.lora_embedding_A[f"s{number}"]
        B = self.layer.lora_embedding_B[f"s{number}"]
        gradient = Factors(A.grad @ self.embedding, B.grad.clone())
        A.grad = B.grad = None
        return gradient

    def read_mixed(
        self, questions: Sequence[EncodedQuestion], *, packed: bool = False
    ) -> list[Tensor]:
        """Return each state's energies on its question, adapters mixed within a batch."""
        energies: dict[int, Tensor] = {}
        with torch.no_grad():
            for chunk in batches(questions, self.positions, packed=packed):
                rows = rows_of([questions[index] for index in chunk], packed=packed)
                names = [f"s{chunk[owner]}" for owner in rows.owners]
                logits = self.model(**rows.inputs, adapter_names=names).logits
                energies.update(zip(chunk, rows.energies(logits), strict=True))
        return [energies[number] for number in range(len(questions))]

    def read_in_turn(self, questions: Sequence[EncodedQuestion]) -> list[Tensor]:
        """Return each state's energies on its question, one adapter set after the other."""
        energies = []
        with torch.no_grad():
            for number, question in enumerate(questions):
                self.model.set_adapter(f"s{number}")
                rows = rows_of([question])
                energies += rows.energies(self.model(**rows.inputs).logits)
        return energies


def peft_gradient(setting: Setting) -> Callable[[], Factors]:
    """Return the outer gradient of the setting's episodes, computed with PEFT.

    PEFT refuses a batch of mixed adapters in training, so the episodes come one after the other.
    """
    start = setting.slow.factors
    states = PeftStates(setting, [start] * len(setting.pair))
    laid = [rows_of([setting.ask(task)]) for task in setting.pair]

    def slopes(number: int, state: Factors, losses: Sequence[float]) -> Factors:
        states.write(number, state)
        rows = laid[number]
        risks(rows.energies(states.model(**rows.inputs).logits), [losses]).backward()
        return states.gradient(number)

    def gradient() -> Factors:
        gradients = []
        for number, task in enumerate(setting.pair):
            states.model.set_adapter(f"s{number}")
            fast = start
            for _ in range(INNER_STEPS):
                fast = fast.combine(
                    slopes(number, fast, task.losses("support")),
                    lambda value, slope: value - STEP_SIZE * slope,
                )
            gradients.append(slopes(number, fast, task.losses("query")))
        return Factors.stack(gradients).map(lambda tensor: tensor.mean(0))

    return gradient
