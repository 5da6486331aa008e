"""What a sweep found: one row per combination of settings."""

from __future__ import annotations

import itertools
from typing import Any

from larc.reports.episodic import load_results
from larc.reports.tables import Table
from larc.studies.catalog import variation_name
from larc.studies.runs import Run


def sweep_tables(sweep: Run) -> list[Table]:
    """Return a table of errors, gains and cost, a row for each combination and arm."""
    varied: dict[str, list[str]] = sweep.settings["varied"]
    rows: list[list[Any]] = []
    for values in itertools.product(*varied.values()):
        chosen = dict(zip(varied, values, strict=True))
        run = Run(sweep.path / variation_name(chosen))
        results = load_results(run)
        gains = {contrast.name: contrast for contrast in results.contrasts}
        positions = sum(
            row["effective"] for row in results.ledger if row["kind"] in ("mixer", "below")
        )
        for arm in results.arms:
            gain, binding = gains[f"{arm} G"], gains[f"{arm} D"]
            rows.append(
                [
                    *values,
                    arm,
                    100 * results.mean(results.risk[arm, "real_keep"]),
                    100 * results.mean(results.risk[arm, "real_reset"]),
                    gain.mean,
                    f"[{gain.lower:.2f}, {gain.upper:.2f}]",
                    binding.mean,
                    f"[{binding.lower:.2f}, {binding.upper:.2f}]",
                    positions,
                ]
            )
    return [
        Table(
            "sweep",
            "Expected query error in %, gains in percentage points with 99 % intervals over "
            "groups, and the positions that the whole run put through layers.",
            (*varied, "Arm", "Keep", "Reset", "G", "G interval", "D", "D interval", "Positions"),
            rows,
        )
    ]
