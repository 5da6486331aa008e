"""``larc report``: the page and tables of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from larc.cli.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    sentence = "Write a run's report: page and tables."
    halfway = "the report is half written; the same command writes it anew"
    report = command(commands, "report", sentence, _report, stopped=halfway)
    report.add_argument("path", metavar="RUN", help="a run's directory or archive")
    report.add_argument(
        "--out", metavar="DIR", help="where to write it [the run; NAME for an archive NAME.larc]"
    )
    report.add_argument(
        "--figures", action="store_true", help="draw the charts as files too (matplotlib)"
    )
    report.add_argument("--json", action="store_true", help="answer in JSON, on one line")


def _report(arguments: argparse.Namespace) -> None:
    from larc.runs.run import Run

    out = Path(arguments.out) if arguments.out else None
    run = Run(arguments.path)
    say_report(run, out, as_json=arguments.json, figures=arguments.figures)


def say_report(run: Any, out: Path | None = None, *, as_json: bool, figures: bool = False) -> None:
    """Write a run's report and say where it is; in JSON also what it says."""
    from larc.studies.reports import write_report

    whole, page = write_report(run, out, figures=figures)
    print(whole.headline(page) if as_json else f"the report is {page}")
