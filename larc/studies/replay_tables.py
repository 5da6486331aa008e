"""Tables that the reports of replays share."""

from __future__ import annotations

from typing import Any

import numpy as np

from larc.io.parquet import from_parquet
from larc.reporting.tables import Table
from larc.runs.run import Run


def predicted_rows(run: Run) -> list[dict[str, Any]]:
    """Return every row that the units of a finished replay predicted."""
    units = run.recorded_units("predictions written", "predictions")
    return [row for unit in sorted(units) for row in unit_rows(run, unit, "predictions.parquet")]


def unit_rows(run: Run, unit: str, file: str) -> list[dict[str, Any]]:
    """Return the rows of a table of one unit."""
    return from_parquet(run.unit_file(unit, file), f"{run.path}/units/{unit}/{file}")


def updates_table(run: Run) -> Table:
    """Return what the updates of all audits did, by path."""
    by_path: dict[str, list[tuple[float, float]]] = {}
    for unit in sorted(run.recorded_units("predictions written", "predictions")):
        for row in unit_rows(run, unit, "updates.parquet"):
            by_path.setdefault(row["path"], []).append((row["loss"], row["distance"]))
    return Table(
        "updates",
        "Updates of the paths that learn: how many, the mean loss on their own batch before them, "
        "and how far the factors moved.",
        ("Path", "Updates", "Loss before", "Distance", "Largest distance"),
        [
            [
                name,
                len(updates),
                float(np.mean([loss for loss, _ in updates])),
                float(np.mean([moved for _, moved in updates])),
                max(moved for _, moved in updates),
            ]
            for name, updates in sorted(by_path.items())
        ],
        digits=4,
    )
