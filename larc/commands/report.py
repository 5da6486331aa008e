"""``larc report``: the page, tables and figures of a run."""

from __future__ import annotations

import argparse
import json
from typing import Any

from larc.commands.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    sentence = "Write a run's report: page, tables, figures."
    halfway = "the report is half written; the same command writes it anew"
    report = command(commands, "report", sentence, _report, stopped=halfway)
    report.add_argument("path", metavar="RUN")
    report.add_argument("--json", action="store_true", help="answer in JSON, on one line")


def _report(arguments: argparse.Namespace) -> None:
    from larc.studies.runs import Run

    say_report(Run(arguments.path), as_json=arguments.json)


def say_report(run: Any, *, as_json: bool) -> None:
    """Write a run's report and say where it is; in JSON also what it found."""
    from larc.reports.writing import write_report

    with run.locked():
        place = write_report(run)
    if as_json:
        say_headline(run)
    else:
        print(f"the report is {place}")


def say_headline(run: Any) -> None:
    """Say on one line of JSON where a run's report is and what it found."""
    from larc.reports.headline import headline

    print(json.dumps(headline(run)))
