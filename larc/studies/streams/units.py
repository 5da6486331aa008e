"""The units of the study of private conventions: trainings, and plays of several streams at once.

Nothing of a test stream is given to a unit before the choices made on validation streams are on
record, but for its texts, which are checked for their length before anything is trained.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from larc.feedback import Label
from larc.io.json_files import as_json
from larc.learner import Learner
from larc.progress import Display
from larc.rules import parse_rule
from larc.runs.engines import Files
from larc.runs.units import ModelUnit, fresh_substrate
from larc.scoring import checked_normalise
from larc.state import SlowState
from larc.studies.asking import check_questions
from larc.studies.fitting import fit_trainer
from larc.studies.streams.cases import Cases
from larc.studies.streams.players import StatePlayer
from larc.studies.streams.results import NO_SEED
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import Stream
from larc.studies.streams.walking import rows_content, walk
from larc.studies.streams.ways import STATIC, UNTRAINED, Way, training_name
from larc.substrate import Substrate
from larc.training.base import AdamW, SlowTrainer
from larc.training.labels import LabelTrainer
from larc.training.streams import StreamSettings, StreamTrainer


@dataclass(frozen=True, kw_only=True)
class StreamsUnit(ModelUnit):
    """What the units share: the settings, the data set's name, a seed and a score."""

    settings: StreamsSettings
    data: str
    seed: int
    score: str

    def untrained(self, substrate: Substrate) -> SlowState:
        """Return the state from before any training."""
        settings = self.settings
        return SlowState.initial(
            substrate,
            rank=settings.rank,
            seed=self.seed,
            boundary=settings.boundary,
            normalise=checked_normalise(self.score),
        )


@dataclass(frozen=True, kw_only=True)
class Training(StreamsUnit):
    """The slow training of one start: on labels, or from there on through the stream.

    Attributes
    ----------
    objective
        How.
    streams
        The training streams.
    slow
        The state to go on from; none for the static one.
    asked
        All that will ever be asked, without labels: what cannot be is refused before any training.
    """

    objective: str
    streams: Sequence[Stream]
    slow: bytes = b""
    asked: Sequence[tuple[str, str, Sequence[str]]] = ()

    @property
    def name(self) -> str:
        """The unit's name."""
        return training_name(self.data, self.score, self.objective, self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Train from where a stopped training was."""
        settings = self.settings
        check_questions(substrate, self.asked, settings.limits)
        if self.objective == UNTRAINED:
            start = self.untrained(substrate)
            return {"slow.safetensors": start.to_bytes(), "curve.json": as_json([])}
        trainer: SlowTrainer
        if self.objective == STATIC:
            updates = settings.updates
            trainer = self.on_labels(substrate)
        else:
            updates = settings.stream_updates
            trainer = self._through(substrate)
        with substrate.ledger.operation("fit"):
            return fit_trainer(self, trainer, updates, substrate, display)

    def on_labels(self, substrate: Substrate) -> LabelTrainer:
        """Return the training on labels alone, not begun."""
        settings = self.settings
        items = [item for stream in self.streams for item in stream]
        labels = [Label(i.question.prompt, i.question.candidates, i.right) for i in items]
        # Streams count alike, however long they are.
        weights = [1 / len(stream) for stream in self.streams for _ in stream]
        return LabelTrainer(
            substrate,
            self.untrained(substrate),
            labels,
            weights,
            batch=settings.batch,
            seed=self.seed,
            outer=self._outer(settings.learning_rate, settings.updates),
            limits=settings.limits,
        )

    def _outer(self, rate: float, updates: int) -> AdamW:
        return AdamW(learning_rate=rate, falls=updates if self.settings.rates_fall else 0)

    def _through(self, substrate: Substrate) -> SlowTrainer:
        settings = self.settings
        how = StreamSettings(
            gradient="exact" if self.objective == "exact" else "first-order",
            window=settings.window,
            batch=settings.stream_batch,
            rule=parse_rule(settings.stream_rule),
            seed=self.seed,
            outer=self._outer(settings.stream_rate, settings.stream_updates),
            step_rate=settings.stream_step_rate,
        )
        start = SlowState.from_bytes(self.slow, self.name).to(substrate.device)
        return StreamTrainer(substrate, start, self.streams, how, settings.limits)


@dataclass(frozen=True, kw_only=True)
class Given(StreamsUnit):
    """A start that was trained elsewhere, kept as it is where it fits the frozen model."""

    objective: str
    slow: bytes

    @property
    def name(self) -> str:
        """The unit's name: that of its training."""
        return training_name(self.data, self.score, self.objective, self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Refuse a state of another model."""
        SlowState.from_bytes(self.slow, self.name).check_fits(substrate)
        return {"slow.safetensors": self.slow}


@dataclass(frozen=True, kw_only=True)
class Play(StreamsUnit):
    """Streams answered side by side in one way.

    Attributes
    ----------
    part
        ``try`` on validation streams, ``test`` on test streams, ``cost`` to be timed.
    path, way
        What it is called in the rows, and what is done.
    streams, number
        What is played, and which of the batches of streams this is.
    slow
        The start.
    fork
        Whether frozen and new states answer too from the middle on.
    """

    part: str
    path: str
    way: Way
    streams: Sequence[Stream]
    number: int = 0
    slow: bytes = b""
    fork: bool = False

    @property
    def name(self) -> str:
        """The unit's name."""
        return f"{self.part}-{self.data}-{self.way.name}-{self.seed}-{self.number:02}"

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Answer every question in causal order."""
        check_questions(substrate, asked_texts(self.streams), self.settings.limits)
        player = self.player(substrate)
        rows = walk(self.streams, player, display, self.name)
        facts = {"data": self.data, "seed": NO_SEED if self.way.seedless else self.seed}
        return {"predictions.parquet": rows_content([{**facts, **row} for row in rows])}

    def player(self, substrate: Substrate) -> StatePlayer:
        """Return who answers: a state for each stream, at the way's start."""
        settings, way = self.settings, self.way
        slow = SlowState.from_bytes(self.slow, self.name).to(substrate.device)
        rule = parse_rule(way.rule_with(slow.rule)) if way.rule else None
        cases = None
        if way.cases:
            fits = partial(short_enough, substrate, settings)
            cases = Cases(len(self.streams), settings.cases, fits)
        return StatePlayer(
            Learner(substrate, slow, rule, limits=settings.limits),
            way,
            self.path,
            self.streams,
            seed=self.seed,
            cases=cases,
            fork=self.fork,
        )


@dataclass(frozen=True, kw_only=True)
class Cost(Play):
    """What a way costs: a few questions of a validation stream, nothing computed before."""

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Answer and learn on a model that was just loaded, and keep what that took."""
        settings = self.settings
        fresh = fresh_substrate(settings)
        player = self.player(fresh)
        fresh.packs(64)  # found out once, and not a question's cost
        fresh.check_boundary(settings.boundary)
        fresh.ledger.clear()
        since = time.perf_counter()
        walk(self.streams, player, display, self.name)
        seconds = time.perf_counter() - since
        episode = player.episodes["", 0]
        held = 4 * episode.factors.numbers if self.way.learns else 0
        held += sum(len(text.encode()) + 8 for text in episode.extras.offsets)
        for cases in player.cases.values():
            held += sum(len(case.encode()) for case in cases.shown[0])
        facts = cost_facts(self.data, self.path, self.streams, fresh, seconds, held)
        return {"held.json": as_json([facts])}


def cost_facts(
    data: str,
    path: str,
    streams: Sequence[Stream],
    substrate: Substrate,
    seconds: float,
    held: int,
) -> dict[str, Any]:
    """Return what answering some questions took, as JSON values."""
    counted = substrate.ledger.as_rows()
    positions = {
        operation: sum(
            int(row["effective"])
            for row in counted
            if row["operation"] == operation and row["kind"] in ("below", "mixer")
        )
        for operation in ("read", "update")
    }
    return {
        "data": data,
        "path": path,
        "questions": sum(map(len, streams)),
        "positions": positions["read"],
        "updated": positions["update"],
        "seconds": seconds,
        "bytes": held,
    }


def short_enough(substrate: Substrate, settings: StreamsSettings, prompt: str) -> bool:
    """Say whether a prompt is within the limit of its tokens."""
    return len(substrate.encoder.encode(prompt, begin=True)) <= settings.prompt_limit


def asked_texts(streams: Sequence[Stream]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return what is asked in streams: names, prompts and candidates."""
    return [
        (f"{item.name!r} of {item.stream!r}", item.question.prompt, item.question.candidates)
        for stream in streams
        for item in stream
    ]
