"""What one would use instead of a state: experts fitted on training streams, played as states are.

Those without a language model read the bare text; those on the frozen model's features read the
prompt that states read.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from larc.experts import (
    FeatureReadout,
    LabelFrequencies,
    LastLabel,
    NearestCases,
    PooledFeatures,
    TextExpert,
    WordLogistic,
)
from larc.io.json_files import as_json
from larc.progress import Display
from larc.runs.engines import Files
from larc.runs.units import ModelUnit, fresh_substrate
from larc.studies.streams.names import (
    EXPERTS,
    FREQUENCIES,
    LAST,
    NEAREST,
    PLAIN,
    READOUT,
    WORDS,
    WORDS_BIAS,
    WORDS_PRIVATE,
)
from larc.studies.streams.players import ExpertPlayer
from larc.studies.streams.results import NO_SEED
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import Stream
from larc.studies.streams.units import cost_facts
from larc.studies.streams.walking import rows_content, walk
from larc.substrate import Substrate


def fitted_name(data: str) -> str:
    """Return the name of the unit that fits the experts of a data set."""
    return f"fitted-{data}"


def file_of(path: str) -> str:
    """Return the file that a fitted expert is in.

    Examples
    --------
    >>> file_of("WORDS")
    'fitted-words.safetensors'
    """
    return f"fitted-{path.lower().replace(' ', '-')}.safetensors"


#: What is fitted; words alone and with a bias are the same fit with fewer private steps.
FITTED = (FREQUENCIES, LAST, WORDS_PRIVATE, READOUT, NEAREST)


def new_expert(path: str, settings: StreamsSettings, substrate: Substrate) -> TextExpert:
    """Return an expert that nothing was fitted for yet."""
    if path == FREQUENCIES:
        return LabelFrequencies(path)
    if path == LAST:
        return LastLabel(path)
    if path in (WORDS, WORDS_BIAS, WORDS_PRIVATE):
        return WordLogistic(path, size=settings.words)
    # There is nothing to be read at the input: the first layer's output at least.
    pooled = PooledFeatures(substrate, max(settings.boundary, 1), settings.limits)
    return FeatureReadout(pooled, path) if path == READOUT else NearestCases(pooled, path)


def loaded_expert(
    path: str, settings: StreamsSettings, substrate: Substrate, files: Mapping[str, bytes]
) -> TextExpert:
    """Return an expert with the slow part that was fitted for it."""
    source = WORDS_PRIVATE if path in (WORDS, WORDS_BIAS) else path
    expert = new_expert(source, settings, substrate)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / file_of(source)
        file.write_bytes(files[file_of(source)])
        expert.load(file)
    expert.names = (path,)
    if isinstance(expert, WordLogistic) and path != WORDS_PRIVATE:
        expert.rate = 0.0
        expert.bias_rate = 0.0 if path == WORDS else expert.bias_rate
    return expert


def bare(stream: Stream) -> Stream:
    """Return a stream whose questions are put as their bare texts, for who reads words.

    Examples
    --------
    >>> from larc.stream.question import Question, Recorded
    >>> question = Question("a", ("x", "y"), "Text: hello, Answer: ", source="hello")
    >>> bare((Recorded(question, 0, 1, 0),))[0].question.prompt
    'hello'
    """
    return tuple(
        replace(item, question=replace(item.question, prompt=item.question.source, source=None))
        for item in stream
    )


def as_read(path: str, streams: Sequence[Stream]) -> list[Stream]:
    """Return streams as an expert reads them."""
    return [bare(stream) for stream in streams] if path in PLAIN else list(streams)


@dataclass(frozen=True, kw_only=True)
class Fit(ModelUnit):
    """All experts of one data set, fitted on its training streams."""

    settings: StreamsSettings
    data: str
    streams: Sequence[Stream]

    @property
    def name(self) -> str:
        """The unit's name."""
        return fitted_name(self.data)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Fit one after another."""
        display.unit(self.name, len(FITTED), 0)
        files = {}
        with substrate.ledger.operation("fit"), tempfile.TemporaryDirectory() as directory:
            for number, path in enumerate(FITTED, start=1):
                expert = new_expert(path, self.settings, substrate)
                expert.fit(as_read(path, self.streams), self.settings.test_questions)
                file = Path(directory) / file_of(path)
                expert.save(file)
                files[file.name] = file.read_bytes()
                display.update(number)
        return files


@dataclass(frozen=True, kw_only=True)
class Compare(ModelUnit):
    """Streams answered by every expert; they depend on no seed.

    Attributes
    ----------
    part
        ``try`` on validation streams, ``test`` on test streams.
    files
        What was fitted.
    """

    settings: StreamsSettings
    data: str
    part: str
    streams: Sequence[Stream]
    files: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The unit's name."""
        return f"{self.part}-{self.data}-experts"

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Answer every question in causal order, one expert after another."""
        rows = []
        with substrate.ledger.operation("read"):
            for path in EXPERTS:
                expert = loaded_expert(path, self.settings, substrate, self.files)
                streams = as_read(path, self.streams)
                player = ExpertPlayer(expert.begin, streams, fork=True)
                rows += walk(streams, player, display, self.name)
        facts = {"data": self.data, "seed": NO_SEED}
        return {"predictions.parquet": rows_content([{**facts, **row} for row in rows])}


@dataclass(frozen=True, kw_only=True)
class CompareCost(Compare):
    """What experts cost: a few questions of a stream, nothing computed before."""

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Answer and learn, with a model just loaded for who reads its features."""
        settings = self.settings
        costs: list[dict[str, Any]] = []
        for path in EXPERTS:
            fresh = substrate
            if path not in PLAIN:
                fresh = fresh_substrate(settings)
                fresh.packs(64)  # found out once, and not a question's cost
            expert = loaded_expert(path, settings, fresh, self.files)
            streams = as_read(path, self.streams)
            player = ExpertPlayer(expert.begin, streams)
            fresh.ledger.clear()
            since = time.perf_counter()
            with fresh.ledger.operation("read"):
                walk(streams, player, display, self.name)
            seconds = time.perf_counter() - since
            held = len(json.dumps(player.experts["", 0].state()))
            costs.append(cost_facts(self.data, path, streams, fresh, seconds, held))
        return {"held.json": as_json(costs)}
