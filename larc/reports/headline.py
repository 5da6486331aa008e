"""What a report says, for machines."""

from __future__ import annotations

from typing import Any

from larc.reports.writing import REPORTS
from larc.studies.runs import Run


def headline(run: Run) -> dict[str, Any]:
    """Return what a run's report says, as plain values: where it is, the answer, its tables."""
    report = REPORTS[run.kind](run)
    return {
        "run": str(run.path),
        "kind": run.kind,
        "report": str(run.path / "report.html"),
        "answer": report.answer,
        "tables": {
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in report.tables
        },
    }
