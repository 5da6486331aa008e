"""How a study of private conventions is carried out: train, try, choose, and only then test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from larc.errors import LarcError
from larc.evaluation import half_brier
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet
from larc.progress import Display
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import Unit, do_all, hashes
from larc.studies.streams.lora import FILE as LORA_FILE
from larc.studies.streams.lora import LORA, LoraFit, LoraPlay
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import DataSet, Stream
from larc.studies.streams.units import STATIC, Cost, Play, Training, training_name
from larc.studies.streams.ways import UNTRAINED, Way, test_ways

PREDICTIONS = "predictions.parquet"


@dataclass
class Carrier:
    """One run under way: what its phases share."""

    run: Run
    settings: StreamsSettings
    execution: Execution
    display: Display

    def do(self, units: Sequence[Unit]) -> list[Unit]:
        """Do units, each once, and return them."""
        distinct = list({unit.name: unit for unit in units}.values())
        do_all(self.run, distinct, self.execution, self.display)
        return distinct

    # Trainings -----------------------------------------------------------------------------------

    def train(
        self, sets: Sequence[DataSet], wanted: Mapping[str, Sequence[tuple[str, str, int]]]
    ) -> list[Unit]:
        """Train starts by data set, score, objective and seed; the static ones come first."""
        done: list[Unit] = []
        for static in (True, False):
            units = [
                Training(
                    settings=self.settings,
                    data=data.name,
                    seed=seed,
                    score=score,
                    objective=objective,
                    streams=data.training,
                    slow=b"" if static else self.slow(data.name, score, STATIC, seed),
                )
                for data in sets
                for score, objective, seed in wanted[data.name]
                if (objective == STATIC) == static
            ]
            done += self.do(units)
        return done

    def slow(self, data: str, score: str, objective: str, seed: int) -> bytes:
        """Return a start that is trained; none for the untrained one."""
        if objective == UNTRAINED:
            return b""
        return self.run.unit_file(training_name(data, score, objective, seed), "slow.safetensors")

    # Plays ---------------------------------------------------------------------------------------

    def plays(
        self, part: str, data: DataSet, path: str, way: Way, seed: int, *, fork: bool = False
    ) -> Iterator[Play]:
        """Return the units that play a part's streams in one way, so many side by side."""
        streams = data.test if part == "test" else data.validation
        size = self.settings.side_by_side
        for number, first in enumerate(range(0, len(streams), size)):
            yield Play(
                settings=self.settings,
                data=data.name,
                seed=seed,
                score=way.score,
                part=part,
                path=path,
                way=way,
                streams=streams[first : first + size],
                number=number,
                slow=self.slow(data.name, way.score, way.start, seed),
                fork=fork,
            )

    def tried(self, data: DataSet, ways: Sequence[Way], seed: int) -> dict[Way, float]:
        """Play ways on validation streams; returns the half-Brier loss of each."""
        units = {way: list(self.plays("try", data, "TRIED", way, seed)) for way in ways}
        self.do([unit for some in units.values() for unit in some])
        return {
            way: mean_loss(
                [row for unit in some for row in read_rows(self.run, unit.name)], "TRIED"
            )
            for way, some in units.items()
        }

    def cost(self, data: DataSet, path: str, way: Way, seed: int) -> Cost:
        """Return the unit that measures what a way costs."""
        return Cost(
            settings=self.settings,
            data=data.name,
            seed=seed,
            score=way.score,
            part="cost",
            path=path,
            way=way,
            streams=[data.validation[0][: self.settings.cost_questions]],
            slow=self.slow(data.name, way.score, way.start, seed),
        )

    # LoRA ----------------------------------------------------------------------------------------

    def lora_units(self, part: str, data: DataSet, rates: Sequence[float], seed: int) -> list[Unit]:
        """Fit an adapter to training streams, and play the first streams of a part with it."""
        settings = self.settings
        fit = LoraFit(settings=settings, data=data.name, seed=seed, streams=data.training)
        self.do([fit])
        return self.do(
            [
                LoraPlay(
                    settings=settings,
                    data=data.name,
                    seed=seed,
                    part=part,
                    rate=rate,
                    streams=streams_of(data, part)[: settings.costly_streams],
                    fitted=self.run.unit_file(fit.name, LORA_FILE),
                )
                for rate in rates
            ]
        )

    def lora_tried(self, data: DataSet, seed: int) -> dict[float, float]:
        """Play the online rates of LoRA on the first validation streams; returns their losses."""
        rates = self.settings.lora_rates
        units = self.lora_units("try", data, rates, seed)
        return {
            rate: mean_loss(read_rows(self.run, unit.name), LORA)
            for rate, unit in zip(rates, units, strict=True)
        }


def carry_out(
    run: Run, sets: Sequence[DataSet], settings: StreamsSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks, in the order of evidence."""
    carrier = Carrier(run, settings, execution, Display())
    run.record("data read", {"counts": {data.name: data.counts for data in sets}})
    first = settings.seeds[0]
    starts = [(score, one) for score in settings.scores for one in _objectives(settings)]
    wanted = {data.name: [(*start, first) for start in starts] for data in sets}
    trained = carrier.train(sets, wanted)
    run.record("trials trained", {"slow": hashes(run, trained, "slow.safetensors")})
    choices = {data.name: choose(carrier, data, first) for data in sets}
    tries = [unit for unit in run.units() if unit.startswith("try-")]
    run.record(
        "trials written",
        {"predictions": {u: run.unit_hashes(u)[PREDICTIONS] for u in sorted(tries)}},
    )
    for data in sets:
        if not run.is_done(choice_name(data.name)):
            run.finish_unit(choice_name(data.name), {"choice.json": choices[data.name].content()})
    names = [choice_name(data.name) for data in sets]
    run.record("choice made", {"choice": {u: run.unit_hashes(u)["choice.json"] for u in names}})
    if settings.trials_only and not run.is_closed:
        raise LarcError(
            f"the choice is on record in {run.path} and no test stream was opened; write it down, "
            "then give the same command without --trials-only."
        )
    wanted = {
        data.name: [
            (way.score, one, seed)
            for way in choices[data.name].ways().values()
            for one in ({STATIC, way.start} - {UNTRAINED})
            for seed in settings.seeds
        ]
        for data in sets
    }
    trained = carrier.train(sets, wanted)
    run.record("training finished", {"slow": hashes(run, trained, "slow.safetensors")})
    plays = [
        unit
        for data in sets
        for path, way in choices[data.name].ways().items()
        for seed in settings.seeds
        for unit in carrier.plays("test", data, path, way, seed, fork=path == "KEEP")
    ]
    written = carrier.do(plays)
    if settings.costly_streams:
        for data in sets:
            written += carrier.lora_units("test", data, [choices[data.name].lora_rate], first)
    costs = [
        carrier.cost(data, path, way, first)
        for data in sets
        for path, way in choices[data.name].ways().items()
    ]
    carrier.do(costs)
    run.record("predictions written", {"predictions": hashes(run, written, PREDICTIONS)})


def _objectives(settings: StreamsSettings) -> tuple[str, ...]:
    return (STATIC, *(one for one in settings.objectives if one != STATIC))


# Choices -----------------------------------------------------------------------------------------


def choice_name(data: str) -> str:
    """Return the name of the unit that holds the choice for a data set."""
    return f"choice-{data}"


@dataclass(frozen=True)
class Choice:
    """What was chosen on validation streams, and everything that was tried for it.

    Attributes
    ----------
    way
        The best way.
    kept
        The best way that keeps, of each start and score.
    tried
        The half-Brier loss of everything that was tried.
    lora_rate
        The online rate of LoRA.
    """

    way: Way
    kept: Mapping[str, Way]
    tried: Mapping[str, float]
    lora_rate: float = 0.0

    def ways(self) -> dict[str, Way]:
        """Return what is compared on test streams."""
        return test_ways(self.way, dict(self.kept))

    def content(self) -> bytes:
        """Return it as JSON."""
        facts: dict[str, Any] = {
            "way": self.way.facts(),
            "kept": {name: way.facts() for name, way in self.kept.items()},
            "tried": dict(self.tried),
            "lora_rate": self.lora_rate,
            "chosen": sorted({self.way.name, *(way.name for way in self.kept.values())}),
        }
        return as_json(facts)


def choose(carrier: Carrier, data: DataSet, seed: int) -> Choice:
    """Choose rule, start and score, then offsets, then cases, by validation streams alone."""
    settings = carrier.settings
    starts = [(one, score) for score in settings.scores for one in _objectives(settings)]
    stage = [Way(*start, rule=rule) for start in starts for rule in settings.rules]
    resets = [Way(*start, "reset") for start in starts]
    tried = carrier.tried(data, [*stage, *resets], seed)
    kept = {
        f"{one} {score}": min(
            (way for way in stage if (way.start, way.score) == (one, score)), key=tried.__getitem__
        )
        for one, score in starts
    }
    best = min(kept.values(), key=tried.__getitem__)
    for change in ({"cases": True},):
        other = replace(best, **change)
        tried |= carrier.tried(data, [other], seed)
        best = min(best, other, key=tried.__getitem__)
    losses = {way.name: loss for way, loss in tried.items()}
    rate = 0.0
    if settings.costly_streams:
        rates = carrier.lora_tried(data, seed)
        rate = min(rates, key=rates.__getitem__)
        losses |= {f"lora-{one:g}": loss for one, loss in rates.items()}
    return Choice(best, kept, losses, rate)


def read_rows(run: Run, unit: str) -> list[dict[str, Any]]:
    """Return what a play said."""
    return from_parquet(run.unit_file(unit, PREDICTIONS), unit)


def mean_loss(rows: Sequence[Mapping[str, Any]], path: str) -> float:
    """Return the half-Brier loss of a path, streams weighed equally.

    Examples
    --------
    >>> row = {"stream": "s", "path": "KEEP", "policy": [1.0, 0.0], "label": 0}
    >>> mean_loss([row, {**row, "label": 1}], "KEEP")
    0.5
    """
    by_stream: dict[str, list[float]] = {}
    for row in rows:
        if row["path"] == path:
            loss = float(half_brier([row["policy"]], [row["label"]])[0])
            by_stream.setdefault(row["stream"], []).append(loss)
    return float(np.mean([np.mean(losses) for losses in by_stream.values()]))


def streams_of(data: DataSet, part: str) -> tuple[Stream, ...]:
    """Return the streams of a part by the name its units have."""
    return data.test if part == "test" else data.validation
