"""Sections of the benchmark for the pages, as they were last measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.speed.table import Table, rows_markdown

_MEASURED = Path(__file__).parents[1] / "benchmarks"


def bench(name: str) -> str:
    """Return one section of the benchmark as it was last measured, or what it was made with."""
    # Measured by itself, on a machine of another kind: it says on which.
    apart = _MEASURED / f"measured-{name}.json"
    table = Table.read(apart if apart.exists() else _MEASURED / "measured.json")
    if name == "made-with":
        return table.made_with
    section, measured = next(pair for pair in table.sections if pair[0].name == name)
    where = f"{table.made_with} " if apart.exists() else ""
    return f"{where}{section.sentence}\n\n{rows_markdown(measured)}"
