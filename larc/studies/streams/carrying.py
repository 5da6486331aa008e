"""How a study of private conventions is carried out: train, try, choose, and only then test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from larc.errors import LarcError
from larc.progress import Display
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import Unit, do_all, hashes
from larc.studies.streams.choosing import CHOICE_FILE, Choice, choice_name, mean_loss, read_rows
from larc.studies.streams.comparing import Compare, CompareCost, Fit, fitted_name
from larc.studies.streams.lora import FILE as LORA_FILE
from larc.studies.streams.lora import LORA, LoraFit, LoraPlay
from larc.studies.streams.names import EVERY_SEED, KEEP, RESET
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import DataSet, Stream
from larc.studies.streams.starting import fitted_files, read_start
from larc.studies.streams.units import Cost, Given, Play, Training, asked_texts
from larc.studies.streams.ways import LEARNED, STATIC, UNTRAINED, Way, training_name
from larc.studies.streams.weighing import Weigh, WeighTrial, answers_of, whole_rows

PREDICTIONS, SLOW = "predictions.parquet", "slow.safetensors"
TRIED = "TRIED"


def carry_out(
    run: Run, sets: Sequence[DataSet], settings: StreamsSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks, in the order of evidence."""
    carrier = Carrier(run, settings, execution)
    run.record(
        "data read",
        {
            "counts": {data.name: data.counts for data in sets},
            "parts": {data.name: data.names for data in sets},
        },
    )
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
    written = [unit for data in sets for unit in carrier.test(data, choices[data.name])]
    run.record("predictions written", {"predictions": hashes(run, written, PREDICTIONS)})


def tried_choices(carrier: Carrier, sets: Sequence[DataSet]) -> dict[str, Choice]:
    """Train starts with the first seed, try them on validation streams, and keep what is best."""
    run, settings = carrier.run, carrier.settings
    first = settings.seeds[0]
    wanted = {data.name: [(score, one, first) for one, score in _starts(settings)] for data in sets}
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
    states = [
        Given(
            settings=carrier.settings,
            data=data.name,
            seed=seed,
            score=score,
            objective=objective,
            slow=content,
        )
        for data in sets
        for (score, objective, seed), content in start.slow.items()
    ]
    # The model as it is needs no package.
    untrained = [
        Training(
            settings=carrier.settings,
            data=data.name,
            seed=carrier.settings.seeds[0],
            score=start.choice.way.score,
            objective=UNTRAINED,
            streams=(),
        )
        for data in sets
    ]
    carrier.do([*untrained, *states])
    kept = {unit.name: {SLOW: unit.slow} for unit in states}
    for data in sets:
        kept[choice_name(data.name)] = {CHOICE_FILE: start.choice.content()}
        if start.files:
            kept[fitted_name(data.name)] = dict(start.files)
    for unit, files in kept.items():
        if not run.is_done(unit):
            run.finish_unit(unit, files)
        if any(run.unit_file(unit, name) != content for name, content in files.items()):
            raise LarcError(
                f"{carrier.settings.start} is not what {run.path} began with; bring it back, or "
                "choose another --out."
            )
    return {data.name: start.choice for data in sets}


def choose(carrier: Carrier, data: DataSet, seed: int) -> Choice:
    """Choose rule, start and score, then cases, then for those that build on the best."""
    settings = carrier.settings
    starts = _starts(settings)
    stage = [Way(*start, rule=rule) for start in starts for rule in _rules(start[0], settings)]
    resets = [Way(*start, "reset") for start in starts]
    tried = carrier.tried(data, [*stage, *resets], seed)
    kept = {
        f"{one} {score}": min(
            (way for way in stage if (way.start, way.score) == (one, score)), key=tried.__getitem__
        )
        for one, score in starts
    }
    best = min(kept.values(), key=tried.__getitem__)
    biased = {best.with_offsets(size): size for size in settings.offset_sizes}
    tried |= carrier.tried(data, list(biased), seed)
    offset_size = biased[min(biased, key=tried.__getitem__)]
    best = min(best, *biased, key=tried.__getitem__)
    shown = replace(best, cases=True)
    tried |= carrier.tried(data, [shown], seed)
    best = min(best, shown, key=tried.__getitem__)
    if best.at_reset not in tried:
        tried |= carrier.tried(data, [best.at_reset], seed)
    weighed = carrier.weigh_trial(data, best, seed)
    losses = {**{way.name: loss for way, loss in tried.items()}, **weighed["tried"]}
    rate = 0.0
    if settings.costly_streams:
        rates = carrier.lora_tried(data, seed, best.score)
        rate = min(rates, key=rates.__getitem__)
        losses |= {f"lora-{one:g}": loss for one, loss in rates.items()}
    steps = {path: (three[0], three[1], three[2]) for path, three in weighed["rates"].items()}
    trusted = tuple(weighed["trusted"])
    return Choice(best, kept, losses, offset_size, rate, steps, trusted)


def _starts(settings: StreamsSettings) -> list[tuple[str, str]]:
    """Return the starts that are tried: an objective and a score each.

    A training through the stream goes on from the static one of the first score.
    """
    through = [one for one in settings.objectives if one != STATIC]
    static = [(STATIC, score) for score in settings.scores]
    return [*static, *((one, settings.scores[0]) for one in (UNTRAINED, *through))]


def _rules(objective: str, settings: StreamsSettings) -> tuple[str, ...]:
    """Return the rules that are tried from a start, with the one learned with it if there is."""
    learned = objective not in (UNTRAINED, STATIC) and settings.stream_step_rate
    return (*settings.rules, LEARNED) if learned else settings.rules


def _starts_of(choice: Choice, settings: StreamsSettings) -> list[tuple[str, str, int]]:
    """Return the trainings that the ways of a choice need: score, objective and seed."""
    return [
        (way.score, one, seed)
        for path, way in choice.ways().items()
        for one in sorted({STATIC, way.start})
        for seed in seeds_of(path, way, settings)
    ]


def seeds_of(path: str, way: Way, settings: StreamsSettings) -> tuple[int, ...]:
    """Return the seeds that a path is played with: all for what is asked about, else the first."""
    every = path in EVERY_SEED and not way.seedless
    return settings.seeds if every else settings.seeds[:1]


class Carrier:
    """One run under way, and the units that its phases are made of."""

    def __init__(self, run: Run, settings: StreamsSettings, execution: Execution) -> None:
        self.run, self.settings, self.execution = run, settings, execution
        self.display = Display()

    def do(self, units: Sequence[Unit]) -> list[Unit]:
        """Do units, each once, and return them."""
        distinct = list({unit.name: unit for unit in units}.values())
        do_all(self.run, distinct, self.execution, self.display)
        return distinct

    def test(self, data: DataSet, choice: Choice) -> list[Unit]:
        """Play everything on test streams, and measure what it costs; returns who predicted."""
        settings, first = self.settings, self.settings.seeds[0]
        # A package brings the states of the chosen way alone.
        ways = {
            path: way
            for path, way in choice.ways().items()
            if self.run.is_done(training_name(data.name, way.score, way.start, first))
        }
        plays = [
            unit
            for path, way in ways.items()
            for seed in seeds_of(path, way, settings)
            for unit in self.plays("test", data, path, way, seed, fork=path == KEEP)
        ]
        written = self.do(plays)
        if data.training or self.run.is_done(fitted_name(data.name)):
            compared = self.compared("test", data)
            written += [compared, *self.weighed(data, choice, compared, plays)]
            self.do([self.compare("cost", CompareCost, data)])
        if settings.costly_streams:
            for part in ("test", "cost"):
                units = self.lora(part, data, [choice.lora_rate], first, choice.way.score)
                written += units if part == "test" else []
        self.do([self.cost(data, path, way, first) for path, way in ways.items()])
        return written

    # Trainings -----------------------------------------------------------------------------------

    def train(
        self, sets: Sequence[DataSet], wanted: Mapping[str, Sequence[tuple[str, str, int]]]
    ) -> list[Unit]:
        """Train starts by data set, score, objective and seed; those that go on come last."""
        done: list[Unit] = []
        for first in (True, False):
            units = [
                Training(
                    settings=self.settings,
                    data=data.name,
                    seed=seed,
                    score=score,
                    objective=objective,
                    streams=data.training,
                    asked=asked_texts((*data.training, *data.validation, *data.test)),
                    slow=b"" if first else self.slow(data.name, score, STATIC, seed),
                )
                for data in sets
                for score, objective, seed in wanted[data.name]
                if (objective in (UNTRAINED, STATIC)) == first
            ]
            done += self.do(units)
        return done

    def slow(self, data: str, score: str, objective: str, seed: int) -> bytes:
        """Return a start that is trained."""
        return self.run.unit_file(training_name(data, score, objective, seed), SLOW)

    # States --------------------------------------------------------------------------------------

    def plays(
        self, part: str, data: DataSet, path: str, way: Way, seed: int, *, fork: bool = False
    ) -> Iterator[Play]:
        """Return the units that play a part's streams in one way, so many side by side."""
        streams, size = streams_of(data, part), self.settings.side_by_side
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
        units = {way: list(self.plays("try", data, TRIED, way, seed)) for way in ways}
        self.do([unit for some in units.values() for unit in some])
        rows = {way: [r for u in some for r in self.rows(u)] for way, some in units.items()}
        return {way: mean_loss(some, TRIED) for way, some in rows.items()}

    def rows(self, unit: Unit) -> list[dict[str, Any]]:
        """Return what was said in a unit."""
        return read_rows(self.run, unit.name)

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
            streams=self.timed_streams(data),
            slow=self.slow(data.name, way.score, way.start, seed),
        )

    def timed_streams(self, data: DataSet) -> list[Stream]:
        """Return the questions that costs are measured on, of validation where it can be."""
        return [(data.validation or data.test)[0][: self.settings.cost_questions]]

    # What one would use instead, and who builds on what was said ---------------------------------

    def compare(self, part: str, kind: type[Compare], data: DataSet) -> Compare:
        """Return the unit that plays the experts, which are fitted if they are not."""
        if not self.run.is_done(fitted_name(data.name)):
            self.do([Fit(settings=self.settings, data=data.name, streams=data.training)])
        return kind(
            settings=self.settings,
            data=data.name,
            part=part,
            streams=self.timed_streams(data) if part == "cost" else streams_of(data, part),
            files=fitted_files(self.run, data.name),
        )

    def compared(self, part: str, data: DataSet) -> Compare:
        """Play the experts on a part's streams."""
        unit = self.compare(part, Compare, data)
        self.do([unit])
        return unit

    def weigh_trial(self, data: DataSet, best: Way, seed: int) -> dict[str, Any]:
        """Choose, on what was said on validation streams, for those that build on it."""
        rows = self.rows(self.compared("try", data))
        for way, path in ((best, KEEP), (best.at_reset, RESET)):
            for play in self.plays("try", data, TRIED, way, seed):
                rows += [{**row, "path": path} for row in self.rows(play)]
        unit = WeighTrial(
            settings=self.settings,
            data=data.name,
            answers=answers_of(whole_rows(rows, data.validation)),
            streams=data.validation,
        )
        self.do([unit])
        chosen: dict[str, Any] = self.run.unit_json(unit.name, "weigh.json")
        return chosen

    def weighed(
        self, data: DataSet, choice: Choice, compared: Compare, plays: Sequence[Play]
    ) -> list[Unit]:
        """Play those that build on what was said on test streams, with every seed."""
        units: list[Unit] = []
        for seed in self.settings.seeds:
            played = [play for play in plays if play.seed == seed or play.way.seedless]
            rows = [row for unit in (compared, *played) for row in self.rows(unit)]
            units.append(
                Weigh(
                    settings=self.settings,
                    data=data.name,
                    seed=seed,
                    answers=answers_of(whole_rows(rows, data.test)),
                    streams=data.test,
                    rates=choice.rates,
                    trusted=choice.trusted,
                    everything=seed == self.settings.seeds[0],
                )
            )
        return self.do(units)

    # LoRA ----------------------------------------------------------------------------------------

    def lora(
        self, part: str, data: DataSet, rates: Sequence[float], seed: int, score: str
    ) -> list[Unit]:
        """Fit an adapter to training streams, and play the first streams of a part with it."""
        settings = self.settings
        fit = LoraFit(
            settings=settings, data=data.name, seed=seed, score=score, streams=data.training
        )
        self.do([fit])
        return self.do(
            [
                LoraPlay(
                    settings=settings,
                    data=data.name,
                    seed=seed,
                    score=score,
                    part=part,
                    rate=rate,
                    streams=self.timed_streams(data)
                    if part == "cost"
                    else streams_of(data, part)[: settings.costly_streams],
                    fitted=self.run.unit_file(fit.name, LORA_FILE),
                )
                for rate in rates
            ]
        )

    def lora_tried(self, data: DataSet, seed: int, score: str) -> dict[float, float]:
        """Play the online rates of LoRA on the first validation streams; returns their losses."""
        rates = self.settings.lora_rates
        units = self.lora("try", data, rates, seed, score)
        return {r: mean_loss(self.rows(unit), LORA) for r, unit in zip(rates, units, strict=True)}


def streams_of(data: DataSet, part: str) -> tuple[Stream, ...]:
    """Return the streams of a part by the name its units have."""
    return data.test if part == "test" else data.validation
