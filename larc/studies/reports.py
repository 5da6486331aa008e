"""The reports of runs: a pure function of what a run saved, written beside it and in no record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.io.locks import locked
from larc.reporting.cost import cost_tables
from larc.reporting.page import Facts
from larc.reporting.report import Report
from larc.reporting.writing import (
    PAGE,
    as_values,
    check_directory,
    check_drawable,
    documents,
    drawings,
    write_files,
)
from larc.runs.run import Run
from larc.runs.store import SUFFIX, DirectoryStore
from larc.studies.audited_run import REPLAY, replayed_settings
from larc.studies.episodic.names import training_name
from larc.studies.registry import STUDIES, study_of
from larc.studies.running import command_of
from larc.studies.study import Study
from larc.studies.sweep import SWEEP, answers_report, variations


@dataclass(frozen=True)
class Reported:
    """A run with its report and what else a page says of it, computed once."""

    run: Run
    report: Report
    facts: Facts

    def documents(self, *, figures: bool = False) -> dict[str, bytes]:
        """Return the pages and tables by the names of their files."""
        return documents(self.report, self.facts, figures=figures)

    def headline(self, page: Path) -> str:
        """Return on one line of JSON where the report is and what it says."""
        about = {"run": str(self.run.path), "kind": self.run.kind, "report": str(page)}
        return json.dumps({**about, **as_values(self.report)})


def reported(run: Run) -> Reported:
    """Compute the report of a finished run."""
    if not run.is_closed:
        raise LarcError(f"{run.path} is not finished; run the study's command again to go on.")
    study = _study(run)
    if run.kind == SWEEP:
        report = study.sweep_report(run) if study.sweep_report else answers_report(run, study)
    else:
        report = study.report(run)
    report = replace(report, notes=[*_model_notes(run), *report.notes])
    return Reported(run, report, _facts(run, study))


def write_report(
    run: Run, out: Path | None = None, *, figures: bool = False
) -> tuple[Reported, Path]:
    """Write the report of a run, and of the runs of a sweep; returns it and where its page is.

    Parameters
    ----------
    run
        A run that is closed.
    out
        The directory to write; that of the run by default, and for an archive ``NAME.larc`` the
        directory ``NAME`` beside it.
    figures
        Whether charts are drawn as files too, which needs matplotlib.
    """
    if figures:
        check_drawable()
    run.check_foreign()
    if out is None and isinstance(run.store, DirectoryStore):
        with run.locked():
            return _write(run, run.path, figures)
    out = out or default_directory(run)
    check_directory(out)
    with locked(_made(out)):
        return _write(run, out, figures)


def default_directory(run: Run) -> Path:
    """Return where the report of a run goes.

    Examples
    --------
    >>> from larc.runs.store import DirectoryStore
    >>> from types import SimpleNamespace
    >>> default_directory(SimpleNamespace(path=Path("results/ci.larc"))).as_posix()
    'results/ci'
    """
    parts = [part.removesuffix(SUFFIX) for part in run.path.parts]
    return Path(*parts)


def _made(directory: Path) -> Path:
    from larc.io.files import make_directory

    return make_directory(directory)


def _write(run: Run, out: Path, figures: bool) -> tuple[Reported, Path]:
    for child in _children(run):
        _write(child, out / child.path.name, figures)
    whole = reported(run)
    pictures = drawings(whole.report) if figures else {}
    write_files(out, {**whole.documents(figures=figures), **pictures})
    return whole, out / PAGE


def _study(run: Run) -> Study:
    if run.kind != SWEEP:
        return study_of(run)
    kind = run.settings.get("study")
    if kind not in STUDIES:
        raise LarcError(f"{run.path} is a sweep of {kind!r}, which is no study that is known.")
    return STUDIES[kind]


def _children(run: Run) -> list[Run]:
    return [child for _, child in variations(run)] if run.kind == SWEEP else []


def _facts(run: Run, study: Study) -> Facts:
    runs = _children(run)
    made_with = [facts for one in runs or [run] for facts in one.made_with()]
    distinct = [facts for i, facts in enumerate(made_with) if facts not in made_with[:i]]
    return Facts(
        command_of(run),
        _settings(run, study),
        cost_tables(run),
        distinct,
        run.evidence(),
        [child.path.name for child in runs],
    )


def _settings(run: Run, study: Study) -> list[tuple[str, Any, str]]:
    """Return a run's settings by name, each with its value and what it is."""
    values: Mapping[str, Any] = run.settings
    if run.kind == SWEEP:
        values = {**values["base"], **values["varied"]}
    help_texts = {item.name: item.metadata.get("help", "") for item in fields(study.settings)}
    return [(name, value, help_texts.get(name, "")) for name, value in values.items()]


def _model_notes(run: Run) -> list[str]:
    """Say in a sentence which model it was and where its state sits, as far as a run tells."""
    settings = run.settings
    if run.kind == SWEEP:
        settings = {n: v for n, v in settings["base"].items() if n not in settings["varied"]}
    elif run.is_done(REPLAY):  # of a run that was replayed
        settings = replayed_settings(run)
    if {"substrate", "rank", "boundary", "rule"} - set(settings):
        return []
    boundary, weight = settings["boundary"], settings.get("acts_on")
    where = f"before layer {boundary}" if boundary else "at the input"
    if weight:
        where = f"on {weight} of layer {boundary}"
    # Where rules are chosen among, the report says which it was.
    steps_by = "" if "rules" in settings else f" and steps by {settings['rule']}"
    dtype = settings.get("dtype", "float32")
    precision = "" if dtype == "float32" else f" in {dtype}"
    notes = [
        f"The frozen model is {settings['substrate']}{precision}; a state of rank "
        f"{settings['rank']} sits {where}{steps_by}; training seeds: {len(settings['seeds'])}."
    ]
    if settings.get("chat"):
        notes.append("Prompts are a user's messages in the model's chat template.")
    for objective in ("adapted", "exact"):
        units = [training_name(objective, seed) for seed in settings["seeds"]]
        steps = [run.unit_json(u, "step.json") for u in units if run.unit_has(u, "step.json")]
        if not steps:
            continue
        learned = [s["rule"] if "rule" in s else f"{s['step_size']:.3g}" for s in steps]
        notes.append(
            f"The {objective} starts learned step sizes of their own, by seed "
            f"{', '.join(learned)}, and were read with those; other starts step by "
            f"{settings['rule']}, so that Δobj compares starts and step sizes together."
        )
    held_out = settings.get("held_out", "development")
    if held_out != "development":
        notes.append(
            f"What is predicted are {held_out} groups, to choose settings by: its scores are no "
            "result, and with so few groups an interval is little more than their range."
        )
    if settings["substrate"] == "tiny":
        notes.append(
            "That model is small and random: such a run shows that the machinery works, and says "
            "nothing about language models."
        )
    return notes
