"""Sweeps: one run for every combination of some settings, below one directory or in one archive."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from larc.errors import LarcError
from larc.runs.run import Run
from larc.settings import as_values, nearest
from larc.studies.study import Study

if TYPE_CHECKING:
    from larc.reporting.report import Report

SWEEP = "sweep"


def parse_sweep(study: Study, texts: list[str]) -> dict[str, list[str]]:
    """Return the settings to vary and their values, from ``NAME=VALUE,VALUE`` texts.

    Examples
    --------
    >>> from larc.studies.registry import STUDIES
    >>> parse_sweep(STUDIES["programs"], ["boundary=0,20", "rank=4"])
    {'boundary': ['0', '20'], 'rank': ['4']}
    """
    known = list(as_values(study.settings()))
    varied = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise LarcError(f"there is no setting {name!r} to vary; {nearest(name, known)}")
        if not values.strip():
            raise LarcError(f"--sweep {text} gives no values; write NAME=VALUE,VALUE.")
        varied[name] = [value.strip() for value in values.split(",")]
    return varied


def combinations(varied: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """Yield every combination of the values of the settings that vary."""
    for values in itertools.product(*varied.values()):
        yield dict(zip(varied, values, strict=True))


def variation_name(values: Mapping[str, str]) -> str:
    """Return the directory name of one combination.

    Examples
    --------
    >>> variation_name({"boundary": "20", "rule": "sgd:0.1"})
    'boundary=20,rule=sgd_0.1'
    """
    return ",".join(f"{name}={re.sub('[:/]', '_', value)}" for name, value in values.items())


def variations(sweep: Run) -> Iterator[tuple[tuple[str, ...], Run]]:
    """Yield each combination's values and its run."""
    for values in combinations(sweep.settings["varied"]):
        yield tuple(values.values()), sweep.child(variation_name(values))


def answers_report(sweep: Run, study: Study) -> Report:
    """Return the report of a sweep of any study: the answer of each run."""
    from larc.reporting.report import Report
    from larc.reporting.tables import Cell, Table

    varied = sweep.settings["varied"]
    rows: list[list[Cell]] = [
        [*values, study.report(run).answer] for values, run in variations(sweep)
    ]
    return Report(
        f"A sweep of the {study.kind} study",
        f"How does the answer depend on {' and '.join(varied)}?",
        f"{len(rows)} combinations were run; the table has the answer of each.",
        [Table("sweep", "Each run has a report of its own.", (*varied, "Answer"), rows)],
    )
