"""How a study of private conventions is carried out: train, try, choose, and only then test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from larc.errors import LarcError
from larc.io.hashes import sha256
from larc.io.parquet import from_parquet
from larc.progress import Display
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import Unit, do_all, hashes
from larc.studies.streams.choosing import CHOICE_FILE, Choice, choice_name, mean_loss
from larc.studies.streams.lora import FILE as LORA_FILE
from larc.studies.streams.lora import LORA, LoraFit, LoraPlay
from larc.studies.streams.names import KEEP
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import DataSet, Stream
from larc.studies.streams.starting import read_start
from larc.studies.streams.units import Cost, Play, Training
from larc.studies.streams.ways import STATIC, UNTRAINED, Way, training_name

PREDICTIONS, SLOW = "predictions.parquet", "slow.safetensors"


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
        return self.run.unit_file(training_name(data, score, objective, seed), SLOW)

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
            streams=[(data.validation or data.test)[0][: self.settings.cost_questions]],
            slow=self.slow(data.name, way.score, way.start, seed),
        )

    def test(self, sets: Sequence[DataSet], choices: Mapping[str, Choice]) -> list[Unit]:
        """Play everything on test streams, and measure what it costs; returns who predicted."""
        settings, first = self.settings, self.settings.seeds[0]
        named = [(data, *pair) for data in sets for pair in choices[data.name].ways().items()]
        written = self.do(
            [
                unit
                for data, path, way in named
                for seed in settings.seeds
                for unit in self.plays("test", data, path, way, seed, fork=path == KEEP)
            ]
        )
        if settings.costly_streams:
            for data in sets:
                rate = choices[data.name].lora_rate
                written += self.lora_units("test", data, [rate], first)
        self.do([self.cost(data, path, way, first) for data, path, way in named])
        return written

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
    choices = given_choices(carrier, sets) if settings.start else tried_choices(carrier, sets)
    names = [choice_name(data.name) for data in sets]
    run.record("choice made", {"choice": {u: run.unit_hashes(u)[CHOICE_FILE] for u in names}})
    if settings.trials_only and not run.is_closed:
        raise LarcError(
            f"the choice is on record in {run.path} and no test stream was opened; write it down, "
            "then give the same command without --trials-only."
        )
    if not settings.start:
        wanted = {name: _starts_of(choice, settings) for name, choice in choices.items()}
        trained = carrier.train(sets, wanted)
        run.record("training finished", {"slow": hashes(run, trained, SLOW)})
    written = carrier.test(sets, choices)
    run.record("predictions written", {"predictions": hashes(run, written, PREDICTIONS)})


def tried_choices(carrier: Carrier, sets: Sequence[DataSet]) -> dict[str, Choice]:
    """Train starts with the first seed, try them on validation streams, and keep what is best."""
    run, settings = carrier.run, carrier.settings
    first = settings.seeds[0]
    starts = [(score, one) for score in settings.scores for one in _objectives(settings)]
    wanted = {data.name: [(*start, first) for start in starts] for data in sets}
    trained = carrier.train(sets, wanted)
    run.record("trials trained", {"slow": hashes(run, trained, SLOW)})
    choices = {data.name: choose(carrier, data, first) for data in sets}
    tries = sorted(unit for unit in run.units() if unit.startswith("try-"))
    hashed = {unit: run.unit_hashes(unit)[PREDICTIONS] for unit in tries}
    run.record("trials written", {"predictions": hashed})
    for name, choice in choices.items():
        if not run.is_done(choice_name(name)):
            run.finish_unit(choice_name(name), {CHOICE_FILE: choice.content()})
    return choices


def given_choices(carrier: Carrier, sets: Sequence[DataSet]) -> dict[str, Choice]:
    """Keep the states and the choice of a start under the names of this run's data."""
    run, start = carrier.run, read_start(carrier.settings.start)
    units: dict[str, dict[str, bytes]] = {}
    for data in sets:
        for (score, objective, seed), content in start.slow.items():
            units[training_name(data.name, score, objective, seed)] = {SLOW: content}
        units[choice_name(data.name)] = {CHOICE_FILE: start.choice.content()}
        if start.files:
            units[f"fitted-{data.name}"] = dict(start.files)
    for unit, files in units.items():
        if not run.is_done(unit):
            run.finish_unit(unit, files)
        elif run.unit_hashes(unit) != {name: sha256(content) for name, content in files.items()}:
            raise LarcError(
                f"{carrier.settings.start} is not what {run.path} began with; bring it back, or "
                "choose another --out."
            )
    return {data.name: start.choice for data in sets}


def _starts_of(choice: Choice, settings: StreamsSettings) -> list[tuple[str, str, int]]:
    """Return the trainings that the ways of a choice need: score, objective and seed."""
    return [
        (way.score, one, seed)
        for way in choice.ways().values()
        for one in sorted({STATIC, way.start} - {UNTRAINED})
        for seed in settings.seeds
    ]


def _objectives(settings: StreamsSettings) -> tuple[str, ...]:
    return (STATIC, *(one for one in settings.objectives if one != STATIC))


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
    others = [replace(best, cases=True)]
    tried |= carrier.tried(data, others, seed)
    best = min(best, *others, key=tried.__getitem__)
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


def streams_of(data: DataSet, part: str) -> tuple[Stream, ...]:
    """Return the streams of a part by the name its units have."""
    return data.test if part == "test" else data.validation
