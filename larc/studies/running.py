"""Carrying a study out: one run, a sweep of them, or the one final evaluation of a run."""

from __future__ import annotations

import importlib.util
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.runs.identity import data_hash
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.verify import check_resumable, verify
from larc.settings import as_values, build, earlier_values, identifying
from larc.studies.episodic.names import FINAL_QUERIES
from larc.studies.registry import STUDIES, plans, settings_of, study_of
from larc.studies.study import Study
from larc.studies.sweep import SWEEP, combinations, variation_name


def run_study(study: Study, settings: Any, out: Path, execution: Execution) -> Run:
    """Carry a study out in a directory, or resume where it stopped; the run closes itself."""
    # What it is about first: what cannot be done is refused before a directory is made.
    check_extras(study)
    check_out(out)
    settings = study.settle(_as_started(settings, out))
    subject = study.prepare(settings)
    with _no_trace(out):
        run = Run.start(out, study.kind, identifying(settings), data_hash(subject))
        with run.locked():
            check_resumable(run, study.evidence)
            study.carry_out(run, subject, settings, execution)
            if not run.is_closed:
                run.close()
    return run


def check_out(out: Path) -> None:
    """Refuse a place where no directory can be, before any work is done for it."""
    try:
        taken = not stat.S_ISDIR(out.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LarcError(
            f"{out} cannot be a directory ({error.strerror or error}); choose another --out."
        ) from error
    if taken:
        raise LarcError(f"{out} is no directory; choose another --out.")


def _as_started(settings: Any, out: Path) -> Any:
    """Go on with a run as it was started, where it does not know a setting that came later."""
    earlier = earlier_values(type(settings))
    if not earlier or not (out / "config.json").is_file():
        return settings
    known = Run(out).settings
    known = known.get("base", known)  # of a sweep
    changed = {
        item.name: earlier[item.name]
        for item in fields(settings)
        if item.name in earlier
        and item.name not in known
        and getattr(settings, item.name) == item.default
    }
    return replace(settings, **changed)


def check_extras(study: Study) -> None:
    """Refuse a study whose packages are not installed, before any work is done for it."""
    for package in study.extras:
        if importlib.util.find_spec(package) is None:
            raise LarcError(
                f"the {study.kind} study needs {package}; run `pip install 'larc-lm[studies]'`."
            )


def run_sweep(
    study: Study,
    settings: Any,
    varied: Mapping[str, list[str]],
    out: Path,
    execution: Execution,
) -> Run:
    """Carry out one run for every combination of the varied settings, below one directory."""
    check_extras(study)
    check_out(out)
    settings = _as_started(settings, out)
    chosen = [(values, build(study.settings, values, settings)) for values in combinations(varied)]
    facts = {"study": study.kind, "base": identifying(settings), "varied": dict(varied)}
    with _no_trace(out):
        sweep = Run.start(out, SWEEP, facts)
        with sweep.locked():
            for values, varied_settings in chosen:
                run_study(study, varied_settings, out / variation_name(values), execution)
            if not sweep.is_closed:
                sweep.close()
    return sweep


def final_evaluation(run: Run, execution: Execution) -> None:
    """Make the one final evaluation of a run on its study's reserved tasks."""
    from larc.studies.episodic.units import evaluate_finally

    study = study_of(run)
    if study.reserved is None:
        raise LarcError(f"a run of {study.kind} has no reserved tasks.")
    listed = run.manifest()["files"] if run.is_closed else {}
    if f"units/{FINAL_QUERIES}/done.json" in listed:  # before the reserved cases are built
        raise LarcError(f"{run.path} has had its final evaluation; a run has one.")
    settings = settings_of(run)
    with run.locked():
        check_resumable(run, study.evidence)
        evaluate_finally(run, study.reserved(settings), settings, execution)
        run.close()


def verify_run(path: str | Path | Run) -> list[str]:
    """Check a finished run of any study; returns what was checked, or raises with what differs."""
    return verify(path, plans())


@contextmanager
def _no_trace(out: Path) -> Iterator[None]:
    """Leave no directory behind where a new run is refused before it has kept anything.

    The next command would have to give the settings that were refused, or choose another --out.
    """
    new, existed = not (out / "config.json").exists(), out.exists()
    # What says only that a run was begun, and what it read.
    begun = {out / "config.json", out / "evidence.jsonl"}
    try:
        yield
    except LarcError:
        if new and out.is_dir() and not any(p.is_file() and p not in begun for p in out.rglob("*")):
            for file in begun:
                file.unlink(missing_ok=True)
            for empty in sorted(out.rglob("*"), reverse=True):
                empty.rmdir()
            if not existed:
                with suppress(FileNotFoundError):
                    out.rmdir()
        raise


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
