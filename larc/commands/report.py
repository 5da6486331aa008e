"""``larc report``: tables and figures of a run."""

from __future__ import annotations

import argparse
from typing import Any

from larc.commands.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    report = command(commands, "report", "Write a run's tables and figures.", _report)
    report.add_argument("path", metavar="RUN")


def _report(arguments: argparse.Namespace) -> None:
    from larc.studies.runs import Run

    say_report(Run(arguments.path))


def say_report(run: Any) -> None:
    """Write a run's report and say where it is."""
    from larc.reports.writing import write_report

    with run.locked():
        place = write_report(run)
    print(f"the report is {place}")
