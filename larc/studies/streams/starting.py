"""Starts that others trained: a package, or a finished run of this study, applied as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.io.json_files import parse_json
from larc.pretrained import CONFIG, read_layout
from larc.runs.run import Run
from larc.settings import build
from larc.state import SlowState
from larc.studies.streams.choosing import CHOICE_FILE, Choice, choice_name, parse_choice
from larc.studies.streams.comparing import fitted_name
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.ways import LEARNED, STATIC, training_name

#: What a start decides; all else (data, delay, caps) is the study's own.
DECIDED = (
    *("substrate", "adapter", "dtype", "acts_on", "boundary", "rank", "seeds"),
    *("prompt", "cases", "candidate_limit", "prompt_limit", "lora_layer", "words"),
    *("texts", "chat"),
)
LINEAGE = "lineage.json"


@dataclass(frozen=True)
class Start:
    """What a package or a run brings along.

    Attributes
    ----------
    settings
        Those of the run that trained it.
    choice
        What was chosen there.
    slow
        The states, by score, objective and seed.
    files
        Whatever else was fitted there, by name.
    used
        The streams it was trained and chosen on.
    """

    settings: Mapping[str, Any]
    choice: Choice
    slow: Mapping[tuple[str, str, int], bytes]
    files: Mapping[str, bytes]
    used: tuple[str, ...]


def settled(settings: StreamsSettings) -> StreamsSettings:
    """Return the settings with what their start decides; without a start they stay as they are.

    Streams that it was trained or chosen on count as looked at: they are never for test.
    """
    if not settings.start:
        return settings
    start = read_start(settings.start)
    decided = {name: start.settings[name] for name in DECIDED if name in start.settings}
    looked_at = tuple(dict.fromkeys((*settings.looked_at, *start.used)))
    return replace(
        build(StreamsSettings, {**decided, "costly_streams": 0}, settings), looked_at=looked_at
    )


def used_streams(evidence: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the streams that a run trained or chose on, from its evidence."""
    parts = next(event["parts"] for event in evidence if event["event"] == "data read")
    return tuple(
        str(name)
        for by_part in parts.values()
        for part in ("training", "validation")
        for name in by_part[part]
    )


def read_start(source: str) -> Start:
    """Read a package or a finished run of this study."""
    if (Path(source) / LINEAGE).is_file():
        return _from_package(Path(source))
    return _from_run(Run(source))


def _from_package(directory: Path) -> Start:
    lineage = parse_json(_read(directory / LINEAGE), directory / LINEAGE)
    kind = lineage.get("config", {}).get("kind") if isinstance(lineage, dict) else None
    if kind != "streams" or not (directory / CHOICE_FILE).is_file():
        raise LarcError(
            f"{directory} is a package of {kind!r}; give one of a run of `larc study streams`."
        )
    choice = parse_choice(parse_json(_read(directory / CHOICE_FILE), directory / CHOICE_FILE))
    config = parse_json(_read(directory / CONFIG), directory / CONFIG)
    seeds = [int(state["about"]["seed"]) for state in config["states"]]
    way = choice.way
    slow = {(way.score, way.start, seed): read_layout(directory, seed=seed)[2] for seed in seeds}
    others = [path for path in directory.glob("fitted-*") if path.is_file()]
    files = {path.name: _read(path) for path in sorted(others)}
    used = used_streams(lineage["evidence"])
    return Start(lineage["config"]["settings"], only_chosen(choice), slow, files, used)


def _from_run(run: Run) -> Start:
    if run.kind != "streams" or not run.is_closed:
        raise LarcError(
            f"{run.path} is no finished run of `larc study streams`, and no package of one."
        )
    recorded = run.recorded("choice made") or {"choice": {}}
    units = list(recorded["choice"])
    if len(units) != 1:
        raise LarcError(
            f"{run.path} has choices for {len(units)} data sets; give a run or a package of one."
        )
    data = units[0].removeprefix(choice_name(""))
    choice = parse_choice(run.unit_json(units[0], CHOICE_FILE))
    slow = {
        (way.score, objective, seed): run.unit_file(
            training_name(data, way.score, objective, seed), "slow.safetensors"
        )
        for way in choice.ways().values()
        for objective in {way.start, STATIC}
        for seed in run.settings["seeds"]
        if run.is_done(training_name(data, way.score, objective, seed))
    }
    used = used_streams(run.evidence())
    return Start(run.settings, choice, slow, fitted_files(run, data), used)


def fitted_files(run: Run, data: str) -> dict[str, bytes]:
    """Return what a run fitted besides states, as the files that a package has of it."""
    unit = fitted_name(data)
    if not run.is_done(unit):
        return {}
    names = [name for name in run.unit_hashes(unit) if name.startswith("fitted-")]
    return {name: run.unit_file(unit, name) for name in names}


def only_chosen(choice: Choice) -> Choice:
    """Return a choice without the starts that a package does not hold."""
    kept = {
        name: way
        for name, way in choice.kept.items()
        if (way.start, way.score) == (choice.way.start, choice.way.score)
    }
    return replace(choice, kept=kept)


def package_files(run: Run, objective: str) -> dict[str, bytes]:
    """Return what goes into a package beside the states of an objective."""
    unit = choice_name(data_of(run, objective))
    return {
        CHOICE_FILE: run.unit_file(unit, CHOICE_FILE),
        **fitted_files(run, data_of(run, objective)),
    }


def rule_of(run: Run, objective: str, slow: SlowState) -> str:
    """Return the rule that was chosen with a start; nothing where the state brings it along."""
    choice = parse_choice(run.unit_json(choice_name(data_of(run, objective)), CHOICE_FILE))
    return "" if choice.way.rule == LEARNED else choice.way.rule_with(slow.rule)


def objectives(run: Run) -> tuple[str, ...]:
    """Return the starts that a run can package: those it chose, one for each data set."""
    recorded = run.recorded("choice made") or {"choice": {}}
    names = []
    for unit in recorded["choice"]:
        way = parse_choice(run.unit_json(unit, CHOICE_FILE)).way
        names.append(f"{unit.removeprefix(choice_name(''))}-{way.score}-{way.start}")
    return tuple(names)


def chosen(run: Run) -> tuple[str | None, str]:
    """Return the start that a run chose; with several data sets, none."""
    names = objectives(run)
    if len(names) == 1:
        return names[0], "It was chosen on validation streams before a test stream was opened."
    return None, f"{run.path} has starts for several data sets: {', '.join(names)}."


def data_of(run: Run, objective: str) -> str:
    """Return the data set that a start was trained on."""
    recorded = run.recorded("choice made") or {"choice": {}}
    for unit, name in zip(recorded["choice"], objectives(run), strict=True):
        if name == objective:
            data: str = unit.removeprefix(choice_name(""))
            return data
    raise LarcError(f"{run.path} has no start {objective!r}; it has {', '.join(objectives(run))}.")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LarcError(f"{path} could not be read ({error.strerror}).") from error
