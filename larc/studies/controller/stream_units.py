"""The controller study on streams: what a finished run answered, weighed as its labels arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from larc.errors import LarcError
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet, to_parquet
from larc.progress import Display
from larc.runs.engines import Files
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.stopping import stoppable
from larc.runs.units import Unit, do_all, hashes
from larc.settings import restored
from larc.stream.question import Recorded
from larc.stream.queue import split_streams
from larc.studies.audited_run import REPLAY
from larc.studies.controller.settings import ControllerSettings
from larc.studies.controller.units import MIXED, mix, variants
from larc.studies.replay_tables import predicted_rows
from larc.studies.stream.events import read_events
from larc.studies.stream.questions import divide, synthetic_stream
from larc.studies.stream.settings import SYNTHETIC, StreamSettings
from larc.studies.stream.units import STRATEGIES
from larc.studies.streams.names import CONTROLLER, CONTROLLER_ALL, EXPERTS, LATEST, MIXTURE, SHAM
from larc.studies.streams.results import NO_SEED
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import data_sets
from larc.studies.streams.weighing import STANDING

#: What the one data set of a run of `larc study stream` is called.
ONE_SET = "stream"
#: What weighs others already, and what learned from permuted labels: neither is weighed.
LEFT_OUT = (MIXTURE, CONTROLLER, CONTROLLER_ALL, SHAM, "PERM")

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class StreamsRun:
    """A finished run of streams: what was asked in each, by data set, and what was answered.

    Attributes
    ----------
    run, seeds, synthetic
        The run, its seeds, and whether its questions were made up.
    streams
        By data set, the questions of each stream.
    rows
        What every single path that answered everything said, with every seed.
    """

    run: Run
    seeds: tuple[int, ...]
    synthetic: bool
    streams: Mapping[str, Sequence[Sequence[Recorded]]]
    rows: Rows


def groups_of(paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return whom a controller chooses among, in the order in which the ablation adds them.

    Examples
    --------
    >>> groups_of(["RESET", "KEEP", "LATEST", "WORDS", "CASES KEEP", "WORDS ON KEEP"])
    {'experts': ('WORDS',), 'reset': ('RESET',), 'kept': ('KEEP', 'CASES KEEP'),
     'latest': ('LATEST',), 'words on states': ('WORDS ON KEEP',)}
    """
    states = {strategy.name for strategy in STRATEGIES}
    groups: dict[str, list[str]] = {
        name: [] for name in ("experts", "reset", "kept", "latest", "untrained", "words on states")
    }
    for path in paths:
        words = path.split()
        if path in STANDING:
            groups["words on states"].append(path)
        elif path in EXPERTS:
            groups["experts"].append(path)
        elif words[0] == "UNTRAINED":
            groups["untrained"].append(path)
        elif LATEST in words:
            groups["latest"].append(path)
        elif "RESET" in words:
            groups["reset"].append(path)
        elif path in states or "KEEP" in words:
            groups["kept"].append(path)
        else:  # an expert of one's own
            groups["experts"].append(path)
    return {name: tuple(members) for name, members in groups.items() if members}


def answered_run(settings: ControllerSettings) -> StreamsRun:
    """Open the run and read its questions again, refusing any but those it answered."""
    run = Run(settings.run)
    known, synthetic, streams = _streams_read(run, settings.jobs)
    answered = [{"data": ONE_SET, **row} for row in predicted_rows(run)]
    asked = {
        (data, item.stream, item.name): item
        for data, some in streams.items()
        for items in some
        for item in items
    }
    read_again = {(*key, item.label) for key, item in asked.items()}
    predicted = {(r["data"], r["stream"], r["name"], r["label"]) for r in answered}
    if read_again != predicted:
        raise LarcError(
            f"{len(read_again ^ predicted)} questions differ between the files and what {run.path} "
            "answered; give the files it was made from with --jobs."
        )
    seeds = tuple(known.seeds)
    rows = _single_rows(answered, asked, seeds)
    if len({row["path"] for row in rows}) < 2:
        raise LarcError(f"{run.path} has fewer than two paths that answered every question.")
    return StreamsRun(run, seeds, synthetic, streams, rows)


def _streams_read(
    run: Run, moved: tuple[str, ...]
) -> tuple[StreamSettings | StreamsSettings, bool, dict[str, list[Sequence[Recorded]]]]:
    """Return a run's settings, whether it is made up, and its test questions by data set."""
    if run.kind == "streams":
        many = restored(StreamsSettings, run.settings)
        sets = data_sets(replace(many, data=moved) if moved else many)
        return many, SYNTHETIC in many.data, {data.name: list(data.test) for data in sets}
    one = restored(StreamSettings, run.settings)
    if len(moved) > 1:
        raise LarcError(f"{run.path} has one file of events; give one with --jobs.")
    file = moved[0] if moved else one.events
    items = synthetic_stream() if file == SYNTHETIC else read_events(file)
    audit = divide(items, one.train).audit
    streams: dict[str, list[Recorded]] = split_streams(audit, stream=lambda item: item.stream)
    return one, file == SYNTHETIC, {ONE_SET: list(streams.values())}


def _single_rows(
    answered: Rows, asked: Mapping[tuple[str, str, str], Recorded], seeds: tuple[int, ...]
) -> Rows:
    """Return the rows of single paths that answered everything, with their times and every seed."""
    counts = Counter((row["data"], row["path"]) for row in answered)
    of_data = Counter(data for data, _, _ in asked)
    seedless = {(r["data"], r["path"]) for r in answered if r["seed"] == NO_SEED}
    rows = []
    for row in answered:
        data, path = row["data"], row["path"]
        times = 1 if (data, path) in seedless else len(seeds)
        if path in LEFT_OUT or counts[data, path] != times * of_data[data]:
            continue
        item = asked[data, row["stream"], row["name"]]
        facts = {
            "data": data,
            "stream": item.stream,
            "group": item.group,
            "name": item.name,
            "asked": item.asked,
            "arrives": item.arrives,
            "label": item.label,
            "path": path,
            "policy": row["policy"],
        }
        rows += [{"seed": seed, **facts} for seed in (seeds if times == 1 else (row["seed"],))]
    return rows


def weigh(run: Run, about: StreamsRun, settings: ControllerSettings, execution: Execution) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    if not run.is_done(REPLAY):
        source = about.run
        settings_of = {**source.settings, "seeds": about.seeds, "synthetic": about.synthetic}
        facts = {"kind": source.kind, "settings": settings_of}
        run.finish_unit(
            REPLAY, {"predictions.parquet": to_parquet(about.rows), "run.json": as_json(facts)}
        )
    content = run.unit_file(REPLAY, "predictions.parquet")
    read = {"results": settings.results, "predictions": {REPLAY: sha256(content)}}
    run.record("replay read", read)
    unit = MixedStreams(saved=content, streams=about.streams, seeds=about.seeds)
    do_all(run, [unit], execution, display)
    run.record("predictions written", {"predictions": hashes(run, [unit], "predictions.parquet")})


@dataclass(frozen=True, kw_only=True)
class MixedStreams(Unit):
    """Every variant's mixture of what was answered in streams, each stream by itself."""

    saved: bytes
    streams: Mapping[str, Sequence[Sequence[Recorded]]]
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The unit's name."""
        return MIXED

    def perform(self, display: Display) -> Files:
        """Mix, in causal order."""
        given: dict[tuple[str, int, str], dict[str, dict[str, list[float]]]] = {}
        for row in from_parquet(self.saved, "the run's predictions"):
            key = (row["data"], row["seed"], row["stream"])
            given.setdefault(key, {}).setdefault(row["name"], {})[row["path"]] = row["policy"]
        parts = [
            (data, seed, items)
            for data, streams in self.streams.items()
            for seed in self.seeds
            for items in streams
        ]
        display.unit(self.name, len(parts), 0)
        rows: Rows = []
        facts: Rows = []
        with stoppable() as stopped:
            for number, (data, seed, items) in enumerate(parts, start=1):
                about = {"data": data, "seed": seed, "stream": items[0].stream}
                policies = given[data, seed, items[0].stream]
                known = list(policies[items[0].name])
                for variant in variants(known, groups_of(known), contexts=False):
                    mixture, trust = mix(items, policies, variant, lambda question, how: "")
                    facts.append({**about, "variant": variant.name, **trust})
                    rows += [
                        {
                            **about,
                            "name": item.name,
                            "label": item.label,
                            "path": variant.name,
                            "policy": policy,
                        }
                        for item, policy in mixture
                    ]
                display.update(number)
                if stopped():
                    raise KeyboardInterrupt
        return {"predictions.parquet": to_parquet(rows), "trust.json": as_json(facts)}
