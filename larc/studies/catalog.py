"""The studies by name: their settings, presets and tasks, and how a run of one is carried out."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.settings import as_values, build, decisive, nearest
from larc.studies import (
    about,
    ci_queue,
    controller_queue,
    own_tasks,
    prefix_queue,
    programs,
    stream_queue,
)
from larc.studies.identity import data_hash
from larc.studies.options import CISettings, EpisodicSettings, Execution, TaskSet
from larc.studies.runs import Run

SWEEP = "sweep"


@dataclass(frozen=True)
class Study:
    """A study: the class of its settings, its presets, what it is about, and how it is done.

    One without presets has one way to be done, the defaults of its settings. ``settle`` finds out
    what settings leave open, such as the identity of a run they name.
    """

    kind: str
    sentence: str
    settings: type[Any]
    presets: Mapping[str, Any]
    prepare: Callable[[Any], Any]
    carry_out: Callable[[Run, Any, Any, Execution], None]
    reserved: Callable[[Any], TaskSet] | None = None
    settle: Callable[[Any], Any] = lambda settings: settings


# What carries a study out loads torch, so it is imported when it is needed.
def _episodic(run: Run, tasks: TaskSet, settings: EpisodicSettings, execution: Execution) -> None:
    from larc.studies.episodic import carry_out

    carry_out(run, tasks, settings, execution)


def _ci(run: Run, split: Any, settings: CISettings, execution: Execution) -> None:
    from larc.studies.ci import carry_out

    carry_out(run, split, settings, execution)


def _prefix(run: Run, prefix: Any, settings: Any, execution: Execution) -> None:
    from larc.studies.prefix import carry_out

    carry_out(run, prefix, settings, execution)


def _controller(run: Run, about_run: Any, settings: Any, execution: Execution) -> None:
    from larc.studies.controller import carry_out

    carry_out(run, about_run, settings, execution)


def _stream(run: Run, questions: Any, settings: Any, execution: Execution) -> None:
    from larc.studies.stream import carry_out

    carry_out(run, questions, settings, execution)


STUDIES = {
    study.kind: study
    for study in (
        Study(
            programs.KIND,
            "Select programs from execution feedback.",
            programs.ProgramSettings,
            programs.PRESETS,
            programs.program_tasks,
            _episodic,
            programs.reserved_tasks,
        ),
        Study(
            own_tasks.KIND,
            "Ask the same of your own episodes.",
            own_tasks.TaskSettings,
            own_tasks.PRESETS,
            own_tasks.own_tasks,
            _episodic,
        ),
        Study(
            ci_queue.KIND,
            "Predict CI jobs whose labels arrive late.",
            CISettings,
            ci_queue.PRESETS,
            ci_queue.audit_queue,
            _ci,
        ),
        Study(
            stream_queue.KIND,
            "Replay your own questions whose labels arrive late.",
            stream_queue.StreamSettings,
            stream_queue.PRESETS,
            stream_queue.stream_questions,
            _stream,
        ),
        Study(
            prefix_queue.KIND,
            "Cross update size with parameter history on the first jobs of a finished CI run.",
            prefix_queue.PrefixSettings,
            {},
            prefix_queue.prefix_of,
            _prefix,
            settle=about.settled,
        ),
        Study(
            controller_queue.KIND,
            "Let arriving labels decide which states of a finished CI run to trust.",
            controller_queue.ControllerSettings,
            {},
            about.audited,
            _controller,
            settle=about.settled,
        ),
    )
}


def study_of(run: Run) -> Study:
    """Return the study that a run is one of."""
    if run.kind not in STUDIES:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which has no tasks of its own.")
    return STUDIES[run.kind]


def settings_of(run: Run) -> Any:
    """Return a run's settings as the dataclass they were made from."""
    return build(study_of(run).settings, run.settings)


def run_study(study: Study, settings: Any, out: Path, execution: Execution) -> Run:
    """Carry a study out in a directory, or go on where it stopped."""
    # What it is about first: what cannot be read is refused before a directory is made.
    settings = study.settle(settings)
    subject = study.prepare(settings)
    with _no_trace(out):
        run = Run.start(out, study.kind, decisive(settings), data_hash(subject))
        with run.locked():
            study.carry_out(run, subject, settings, execution)
    return run


@contextmanager
def _no_trace(out: Path) -> Iterator[None]:
    """Leave no directory behind where a new run is refused before it has kept anything.

    The next command would have to give the settings that were refused, or choose another --out.
    """
    new, place = not (out / "config.json").exists(), out.exists()
    try:
        yield
    except LarcError:
        if new and not any(p.is_file() and p != out / "config.json" for p in out.rglob("*")):
            (out / "config.json").unlink(missing_ok=True)
            for empty in sorted(out.rglob("*"), reverse=True):
                empty.rmdir()
            if not place:
                with suppress(FileNotFoundError):
                    out.rmdir()
        raise


def is_finished(out: Path) -> bool:
    """Whether a directory holds a finished run."""
    return (out / "config.json").exists() and (out / "manifest.json").exists()


def final_evaluation(run: Run, execution: Execution) -> None:
    """Make the one final evaluation of a run on its study's reserved tasks."""
    from larc.studies.episodic import evaluate_finally

    study = study_of(run)
    if study.reserved is None:
        raise LarcError(f"a run of {study.kind} has no reserved tasks.")
    if run.is_listed("units/final-queries/done.json"):  # before the reserved cases are built
        raise LarcError(f"{run.path} has had its final evaluation; a run has one.")
    settings = settings_of(run)
    with run.locked():
        evaluate_finally(run, study.reserved(settings), settings, execution)


def parse_sweep(study: Study, texts: list[str]) -> dict[str, list[str]]:
    """Return the settings to vary and their values, from ``NAME=VALUE,VALUE`` texts.

    Examples
    --------
    >>> parse_sweep(STUDIES["programs"], ["boundary=0,20", "rank=4"])
    {'boundary': ['0', '20'], 'rank': ['4']}
    """
    known = list(as_values(study.settings()))
    varied = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise LarcError(f"there is no setting {name!r} to vary; {nearest(name, known)}")
        if not values.strip():
            raise LarcError(f"--sweep {text} gives no values; write NAME=VALUE,VALUE.")
        varied[name] = [value.strip() for value in values.split(",")]
    return varied


def run_sweep(
    study: Study,
    settings: Any,
    varied: Mapping[str, list[str]],
    out: Path,
    execution: Execution,
) -> Run:
    """Carry out one run for every combination of the varied settings, below one directory."""
    combinations = [
        dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())
    ]
    variations = [build(study.settings, values, settings) for values in combinations]
    facts = {"study": study.kind, "base": decisive(settings), "varied": dict(varied)}
    with _no_trace(out):
        sweep = Run.start(out, SWEEP, facts)
        with sweep.locked():
            for values, varied_settings in zip(combinations, variations, strict=True):
                run_study(study, varied_settings, out / variation_name(values), execution)
    return sweep


def variation_name(values: Mapping[str, str]) -> str:
    """Return the directory name of one combination.

    Examples
    --------
    >>> variation_name({"boundary": "20", "rule": "sgd:0.1"})
    'boundary=20,rule=sgd_0.1'
    """
    return ",".join(f"{name}={re.sub('[:/]', '_', value)}" for name, value in values.items())


def command_of(run: Run) -> str:
    """Return a command that makes this run: the nearest preset, and what differs from it."""
    settings, varied = run.settings, {}
    if run.kind == SWEEP:
        study, settings, varied = STUDIES[settings["study"]], settings["base"], settings["varied"]
    else:
        study = study_of(run)
    starts = {f" --preset {name}": preset for name, preset in study.presets.items()}
    options: list[tuple[str, dict[str, Any]]] = []
    for start, preset in (starts or {"": study.settings()}).items():
        other = as_values(preset)
        differing = {key: value for key, value in settings.items() if value != other.get(key)}
        options.append((start, differing))
    command, differing = min(options, key=lambda option: len(option[1]))
    for key, value in differing.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        command += f" --{key.replace('_', '-')} {shlex.quote(text)}"
    for key, values in varied.items():
        command += " --sweep " + shlex.quote(f"{key}={','.join(values)}")
    return f"larc study {study.kind}{command}"
