"""LoRA by PEFT as one would use it: fitted on training streams, then an adapter for each stream.

The adapters are in the upper layers, from one on; what lies below is computed once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import label_cross_entropy
from larc.io.json_files import as_json
from larc.progress import Display
from larc.questions import EncodedQuestion, ask, prior_question
from larc.residual import Factors
from larc.runs.engines import Files
from larc.runs.stopping import stoppable
from larc.runs.units import ModelUnit, fresh_substrate
from larc.scoring import energies
from larc.state import SlowState
from larc.stream.question import Recorded
from larc.studies.streams.players import normalised
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import Stream
from larc.studies.streams.units import cost_facts
from larc.studies.streams.walking import Arrived, Asked, Said, rows_content, walk
from larc.substrate import Substrate
from larc.training.base import batch_indices

LORA = "LORA"
FILE = "lora.safetensors"
_TARGETS = ("q_proj", "v_proj")


class Adapters:
    """Adapters inside a model of one's own, one for each stream, one at a time at work.

    Parameters
    ----------
    settings
        Of the study: rank, first adapted layer and scoring limits.
    count
        How many.
    seed
        Draws the first factors, the same for all.
    score
        How candidates are scored: as by the chosen start.
    """

    def __init__(self, settings: StreamsSettings, count: int, seed: int, score: str) -> None:
        # A model of its own: PEFT changes the one it is put into.
        self.substrate: Substrate = fresh_substrate(settings)
        self.settings, self.layer, self.score = settings, settings.lora_layer, score
        self.substrate.check_boundary(self.layer)
        # A state that changes nothing: scoring is the same function as everywhere else.
        self.still = Factors.stack(
            [SlowState.initial(self.substrate, rank=1, seed=0, boundary=self.layer).factors]
        )
        self.names = [f"stream{number}" for number in range(count)]
        for name in self.names:
            with torch.random.fork_rng(devices=[]):  # PEFT draws from the global stream
                torch.manual_seed(seed)
                _inject(self.substrate, name, settings.rank, self.layer)

    def parameters(self, number: int) -> dict[str, Tensor]:
        """Return the factors of one adapter, by names that all adapters share."""
        mark = f".{self.names[number]}."
        return {
            name.replace(mark, "."): parameter
            for name, parameter in self.substrate.model.named_parameters()
            if mark in name
        }

    def load(self, content: bytes) -> None:
        """Start every adapter from fitted factors."""
        fitted = load(content)
        with torch.no_grad():
            for number in range(len(self.names)):
                for name, parameter in self.parameters(number).items():
                    parameter.copy_(fitted[name])

    def use(self, number: int) -> None:
        """Let one adapter be at work."""
        from peft.tuners.tuners_utils import BaseTunerLayer

        for module in self.substrate.model.modules():
            if isinstance(module, BaseTunerLayer):
                module.set_adapter(self.names[number])

    def scores(self, items: Sequence[Recorded]) -> list[Tensor]:
        """Return the candidates' energies with the adapter at work."""
        asked = [
            ask(self.substrate, i.question.prompt, i.question.candidates, self.settings.limits)
            for i in items
        ]
        scores = self._energies(asked)
        if self.score == "prior":
            priors = {question: prior_question(self.substrate, question) for question in asked}
            distinct = list(dict.fromkeys(priors.values()))
            known = dict(zip(distinct, self._energies(distinct), strict=True))
            scores = [
                one - known[priors[question]] for one, question in zip(scores, asked, strict=True)
            ]
        return scores

    def _energies(self, asked: Sequence[EncodedQuestion]) -> list[Tensor]:
        owners, summed = [0] * len(asked), self.score == "sum"
        return energies(self.substrate, asked, self.still, self.layer, owners=owners, summed=summed)

    def loss(self, items: Sequence[Recorded], weights: Sequence[float] | None = None) -> Tensor:
        """Return the mean cross-entropy of labels with the adapter at work, weighted if asked."""
        scored = zip(self.scores(items), items, strict=True)
        losses = torch.stack([label_cross_entropy(scores, i.right) for scores, i in scored])
        return (losses if weights is None else losses * torch.tensor(weights)).mean()


def _inject(substrate: Substrate, name: str, rank: int, layer: int) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=list(_TARGETS),
        layers_to_transform=list(range(layer, substrate.layers)),
    )
    try:
        inject_adapter_in_model(config, substrate.model, adapter_name=name)
    except ValueError as error:
        raise LarcError(
            f"{substrate.name} has no query and value projections ({', '.join(_TARGETS)}); leave "
            "LoRA out with --costly-streams 0."
        ) from error


@dataclass(frozen=True, kw_only=True)
class LoraFit(ModelUnit):
    """An adapter fitted to the labels of all training streams."""

    settings: StreamsSettings
    data: str
    seed: int
    score: str
    streams: Sequence[Stream]

    @property
    def name(self) -> str:
        """The unit's name."""
        return f"lora-{self.data}-{self.seed}"

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Fit it by AdamW, in one go."""
        settings = self.settings
        adapters = Adapters(settings, 1, self.seed, self.score)
        adapters.use(0)
        parameters = adapters.parameters(0)
        optimizer = torch.optim.AdamW(parameters.values(), lr=settings.lora_fit_rate)
        items = [item for stream in self.streams for item in stream]
        # Streams count alike, however long they are.
        share = len(items) / len(self.streams)
        weights = [share / len(stream) for stream in self.streams for _ in stream]
        losses = []
        display.unit(self.name, settings.lora_updates, 0)
        with stoppable() as stopped:
            for update in range(settings.lora_updates):
                indices = batch_indices(len(items), settings.batch, update, self.seed)
                optimizer.zero_grad()
                chosen = [items[index] for index in indices]
                loss = adapters.loss(chosen, [weights[index] for index in indices])
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
                display.update(update + 1, losses[-1])
                if stopped():
                    raise KeyboardInterrupt
        factors = {name: parameter.detach() for name, parameter in parameters.items()}
        return {FILE: save(factors), "curve.json": as_json(losses)}


@dataclass(frozen=True, kw_only=True)
class LoraPlay(ModelUnit):
    """Streams answered with an adapter each, trained online by AdamW as labels arrive."""

    settings: StreamsSettings
    data: str
    seed: int
    score: str
    part: str
    rate: float
    streams: Sequence[Stream]
    fitted: bytes

    @property
    def name(self) -> str:
        """The unit's name."""
        return f"{self.part}-{self.data}-lora-{self.rate:g}-{self.seed}"

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Answer every question in causal order."""
        adapters = Adapters(self.settings, len(self.streams), self.seed, self.score)
        adapters.load(self.fitted)
        player = LoraPlayer(adapters, self.rate)
        work = adapters.substrate
        work.packs(64)  # found out once, and not a question's cost
        work.ledger.clear()
        since = time.perf_counter()
        rows = walk(self.streams, player, display, self.name)
        seconds = time.perf_counter() - since
        substrate.ledger.load_rows(work.ledger.as_rows())
        if self.part == "cost":
            # A stream holds its factors, and the two moments of each.
            held = 3 * 4 * sum(p.numel() for p in adapters.parameters(0).values())
            facts = cost_facts(self.data, LORA, self.streams, work, seconds, held)
            return {"held.json": as_json([facts])}
        named = [{"data": self.data, "seed": self.seed, **row} for row in rows]
        return {"predictions.parquet": rows_content(named)}


class LoraPlayer:
    """An adapter and an optimiser for each stream."""

    def __init__(self, adapters: Adapters, rate: float) -> None:
        self.adapters = adapters
        self.optimizers: list[Any] = [
            torch.optim.AdamW(adapters.parameters(number).values(), lr=rate)
            for number in range(len(adapters.names))
        ]

    def ask(self, asked: Sequence[Asked]) -> list[Said]:
        """Answer questions of several streams, one after another."""
        answers: list[Said] = []
        for one in asked:
            self.adapters.use(one.stream)
            with torch.no_grad(), self.adapters.substrate.ledger.operation("read"):
                scores = self.adapters.scores([one.item])[0]
            policy = np.asarray(scores.double().softmax(-1)).tolist()
            answers.append({LORA: normalised(policy)})
        return answers

    def learn(self, arrived: Sequence[Arrived]) -> None:
        """Make one step for the labels of each stream."""
        for one in arrived:
            self.adapters.use(one.stream)
            optimizer = self.optimizers[one.stream]
            optimizer.zero_grad()
            with self.adapters.substrate.ledger.operation("update"):
                self.adapters.loss(one.items).backward()
            optimizer.step()

    def turn(self, stream: int) -> None:
        """Go on as before."""
