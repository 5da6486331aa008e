"""Sections of the benchmark for the pages, as they were last measured, each with its machine."""

from __future__ import annotations

from pathlib import Path

from benchmarks.speed.table import Table, rows_markdown
from tests.test_counted_work import EXPECTED, KINDS

_MEASURED = Path(__file__).parents[1] / "benchmarks" / "measured"


def bench(name: str) -> str:
    """Return one section of the benchmark as it was last measured, and what it was made with."""
    table = Table.read(_MEASURED / f"{name}.json")
    ((section, measured),) = table.sections
    return f"{section.sentence}\n\n{rows_markdown(measured)}\n\n{table.made_with}"


def counted() -> str:
    """Return what reference jobs cost in calls and positions, as a test holds it."""
    lines = [f"| On `tiny` | {' | '.join(KINDS)} |", "| :--- |" + " ---: |" * len(KINDS)]
    for job, costs in EXPECTED.items():
        cells = [_cost(*costs[kind]) if kind in costs else "" for kind in KINDS]
        lines.append(f"| {job} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cost(calls: int, positions: int) -> str:
    return f"{calls} of {positions:,}" if positions else str(calls)
