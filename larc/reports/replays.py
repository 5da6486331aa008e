"""What reports of replays share: rows by seed, and what updates did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.reports.tables import Cell, Table
from larc.studies.parquet import from_parquet
from larc.studies.runs import REPLAY, Run


def short_seed(seed: int) -> str:
    """Return a seed as tables name it.

    Examples
    --------
    >>> short_seed(2026092811)
    '2811'
    """
    return str(seed)[-4:]


def replayed_settings(run: Run) -> dict[str, Any]:
    """Return the settings of the run that a study of its replay is about."""
    settings: dict[str, Any] = json.loads(run.unit_file(REPLAY, "run.json"))["settings"]
    return settings


def seed_columns(seeds: Sequence[int], *first: str) -> tuple[str, ...]:
    """Return the columns of rows by seed, after those that say what a row is.

    Examples
    --------
    >>> seed_columns([2026092811], "Path")
    ('Path', '2811', 'Mean', 'Seed SD')
    """
    return (*first, *map(short_seed, seeds), "Mean", "Seed SD")


def seed_row(by_seed: NDArray[np.float64], *first: Cell) -> list[Cell]:
    """Return a row by seed with its mean and standard deviation; one seed deviates from none.

    Examples
    --------
    >>> seed_row(np.array([1.0, 3.0]), "CARRY")
    ['CARRY', 1.0, 3.0, 2.0, 1.414...]
    """
    deviation = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    return [*first, *map(float, by_seed), float(by_seed.mean()), deviation]


def updates_table(run: Run) -> Table:
    """Return what the updates of all audits did, by path."""
    found: dict[str, list[tuple[float, float]]] = {}
    for path in sorted(run.path.glob("units/audit-*/updates.parquet")):
        for row in from_parquet(path.read_bytes(), str(path)):
            found.setdefault(row["path"], []).append((row["loss"], row["distance"]))
    return Table(
        "updates",
        "Updates of the paths that learn: how many, the mean loss on their own batch before them, "
        "and how far the factors moved.",
        ("Path", "Updates", "Loss before", "Distance", "Largest distance"),
        [
            [
                name,
                len(own),
                float(np.mean([loss for loss, _ in own])),
                float(np.mean([moved for _, moved in own])),
                max(moved for _, moved in own),
            ]
            for name, own in sorted(found.items())
        ],
        digits=4,
    )
