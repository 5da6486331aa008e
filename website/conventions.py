"""The study of private conventions on one page: a row for each published file of streams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.streams.names import CONTROLLER, KEEP, RESET
from larc.studies.streams.report import best_free
from larc.studies.streams.results import Contrast, SetResults, load_results


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


def _shown(gain: Contrast) -> str:
    """Return a gain with its interval; what is above zero stands out."""
    text = f"{gain.mean:+.4f} {gain.interval}".replace("-", "−")
    return f"**{text}**" if gain.above_zero else text
