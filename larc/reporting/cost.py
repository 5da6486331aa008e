"""What a run cost: the model work that was counted, and the time and memory that were measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from larc.ledger import CHECKED, KINDS, RAISED
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run

COUNTS = ("calls", "physical", "effective")


def ledger(run: Run) -> list[dict[str, Any]]:
    """Return the model work of all units of a run, summed by operation and kind."""
    totals: dict[tuple[str, str], Counter[str]] = {}
    for rows in _files(run, "ledger.json").values():
        for row in rows:
            counts = {count: row[count] for count in COUNTS}
            totals.setdefault((row["operation"], row["kind"]), Counter()).update(counts)
    return [
        {"operation": operation, "kind": kind, **{count: sums[count] for count in COUNTS}}
        for (operation, kind), sums in sorted(totals.items())
    ]


def milliseconds(run: Run, units: Iterable[str], operation: str) -> int:
    """Return the time that some units of a run took for one operation."""
    costs = [run.unit_json(unit, "cost.json") for unit in units if run.unit_has(unit, "cost.json")]
    return sum(int(cost["milliseconds"].get(operation, 0)) for cost in costs)


def cost_tables(run: Run) -> list[Table]:
    """Return the ledger and the measured cost of a run; nothing where it has neither."""
    rows = ledger(run)
    measured = _files(run, "cost.json")
    tables = [_ledger_table(rows)] if rows else []
    return [*tables, _cost_table(measured)] if measured else tables


def _files(run: Run, name: str) -> dict[str, Any]:
    """Return one file of each unit that has it, of a sweep's runs too, by the unit's name."""
    values = {u: run.unit_json(u, name) for u in run.units() if run.unit_has(u, name)}
    for child in run.children():
        inner = _files(child, name)
        values |= {f"{child.path.name}/{unit}": value for unit, value in inner.items()}
    return dict(sorted(values.items()))


def _ledger_table(ledger: list[dict[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [row["operation"], row["kind"], *(row[count] for count in COUNTS)] for row in ledger
    ]
    checked = any(row["kind"] == CHECKED for row in ledger)
    for kind in (*KINDS, *((CHECKED, RAISED) if checked else ())):
        chosen = [row for row in ledger if row["kind"] == kind]
        rows.append(["total", kind, *(sum(row[count] for row in chosen) for count in COUNTS)])
    caption = "Model work of all units: calls, and positions with and without padding."
    if checked:
        caption += (
            " Steps on feedback are checked where their rule looks at the loss after them, and "
            "raised if that is higher."
        )
    return Table(
        "ledger",
        caption,
        ("Operation", "Kind", "Calls", "Physical positions", "Effective positions"),
        rows,
    )


def _cost_table(measured: dict[str, dict[str, Any]]) -> Table:
    operations = sorted({name for cost in measured.values() for name in cost["milliseconds"]})
    rows: list[list[Cell]] = []
    totals = Counter[str]()
    for unit, cost in measured.items():
        spent = Counter({name: int(part) for name, part in cost["milliseconds"].items()})
        totals.update(spent)
        peak = round(cost["peak_bytes"] / 2**20)
        rows.append([unit, *(spent[name] for name in operations), spent.total(), peak])
    peak = max(round(cost["peak_bytes"] / 2**20) for cost in measured.values())
    rows.append(["total", *(totals[name] for name in operations), totals.total(), peak])
    return Table(
        "cost",
        "Wall time in milliseconds by operation, and the peak memory of the process in MiB. A time "
        "is that of the machine and the day, and of what else ran beside; units may run side by "
        f"side.{_layouts(measured)}",
        ("Unit", *(name.capitalize() for name in operations), "Sum", "Peak MiB"),
        rows,
    )


def _layouts(measured: dict[str, dict[str, Any]]) -> str:
    """Say how candidates were laid out, where the run has it on record."""
    used = {layout for cost in measured.values() for layout in cost.get("layouts", ())}
    if not used:
        return ""
    ways = {"packed": "shared a row of the model", "plain": "had a row of the model each"}
    told = " or ".join(ways[layout] for layout in sorted(used))
    return f" The candidates of a question {told}."
