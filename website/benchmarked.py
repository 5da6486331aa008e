"""Sections of the benchmark for the pages, as they were last measured, each with its machine."""

from __future__ import annotations

from pathlib import Path

from benchmarks.speed.table import Table, rows_markdown

_MEASURED = Path(__file__).parents[1] / "benchmarks" / "measured"


def bench(name: str) -> str:
    """Return one section of the benchmark as it was last measured, and what it was made with."""
    table = Table.read(_MEASURED / f"{name}.json")
    ((section, measured),) = table.sections
    return f"{section.sentence}\n\n{rows_markdown(measured)}\n\n{table.made_with}"
