"""The published runs: their reports, and their tables as rows."""

from __future__ import annotations

import csv
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from larc.reporting.tables import Cell
from larc.runs.run import Run
from larc.studies.reports import Reported, reported

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
Row = dict[str, Any]


@cache
def published(run: str) -> Reported:
    """Return a published run, or one of a published sweep, with its report."""
    return reported(Run(RESULTS / run))


@cache
def table_text(run: str, table: str) -> str:
    """Return a published table as comma-separated values."""
    return published(run).documents()[f"tables/{table}.csv"].decode()


def rows(run: str, table: str) -> list[Row]:
    """Return a published table's rows by column.

    Examples
    --------
    >>> [row["Objective"] for row in rows("programs-quick", "endpoint")]
    ['Static', 'Adapted', 'Untrained']
    """
    lines = csv.DictReader(table_text(run, table).splitlines())
    return [{name: _cell(value) for name, value in row.items()} for row in lines]


def _cell(text: str) -> Cell:
    if not text:
        return None
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def one_row(run: str, table: str, key: str) -> Row:
    """Return the first row of a published table that holds a name."""
    return next(row for row in rows(run, table) if key in row.values())


def filled(text: str) -> str:
    """Return a paragraph in lines, a number and its unit on one."""
    return textwrap.fill(text.replace(" %", "\u00a0%"), 100, break_on_hyphens=False)


def where(boundary: int) -> str:
    """Say where a state is."""
    return f"before layer {boundary}" if boundary else "input embeddings"
