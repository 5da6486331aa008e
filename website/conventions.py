"""The study of private conventions on one page: a row for each published file of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.streams.choosing import CHOICE_FILE, choice_name, parse_choice
from larc.studies.streams.names import CONTROLLER, KEEP, RESET
from larc.studies.streams.report import best_free
from larc.studies.streams.results import Contrast, SetResults, load_results
from larc.studies.streams.ways import STATIC


@cache
def results_of(archive: Path) -> tuple[SetResults, ...]:
    """Return what a published run found, a data set each."""
    return tuple(load_results(Run(archive)))


def overview(archives: Sequence[Path], first: int | None = None) -> str:
    """Return who decides best on each data set, over all questions or over the first ones."""
    lines: list[list[Cell]] = []
    for one in (one for archive in archives for one in results_of(archive)):
        free = best_free(one, first)
        if free is None:
            raise ValueError(f"{one.name} has no path without a language model")
        loss = {path: one.mean(path, first=first) for path in (free, RESET, KEEP, CONTROLLER)}
        lines.append(
            [
                one.name.removesuffix(".dev"),
                len(one.streams),
                f"{loss[free]:.4f} ({free})",
                *(f"{loss[path]:.4f}" for path in (RESET, KEEP, CONTROLLER)),
                _shown(one.contrast(RESET, KEEP, first)),
                _shown(one.contrast(free, KEEP, first)),
                _shown(one.contrast(free, CONTROLLER, first)),
            ]
        )
    columns = (
        *("Data", "Streams", "Best without a model", "Reset", "Kept", "Controller"),
        *("Kept over reset", "Kept over that", "Controller over that"),
    )
    return Table("overview", "", columns, lines).markdown()


def scored(archives: Sequence[Path]) -> str:
    """Return what two scores came to on validation streams: a static start, reset and kept."""
    lines: list[list[Cell]] = []
    for run in map(Run, archives):
        for unit in (run.recorded("choice made") or {"choice": {}})["choice"]:
            tried = parse_choice(run.unit_json(unit, CHOICE_FILE)).tried
            kept = {
                score: min(loss for way, loss in tried.items() if way in _plain(tried, score))
                for score in ("mean", "prior")
            }
            losses = [
                f"{loss:.4f}"
                for score, least in kept.items()
                for loss in (tried[f"{STATIC}-{score}-reset"], least)
            ]
            lines.append([unit.removeprefix(choice_name("")).removesuffix(".dev"), *losses])
    columns = ("Validation streams of", "`mean`, reset", "kept", "`prior`, reset", "kept")
    return Table("scored", "", columns, lines).markdown()


def _plain(tried: Mapping[str, float], score: str) -> list[str]:
    """Return the ways of a static start that keep, without offsets and without cases."""
    beginning = f"{STATIC}-{score}-keep-"
    further = ("offset", "cases")
    return [
        way
        for way in tried
        if way.startswith(beginning) and not any(word in way for word in further)
    ]


def _shown(gain: Contrast) -> str:
    """Return a gain with its interval; what is above zero stands out."""
    text = f"{gain.mean:+.4f} {gain.interval}".replace("-", "−")
    return f"**{text}**" if gain.above_zero else text
