"""``larc package``: a run's slow states, to be given to somebody else."""

from __future__ import annotations

import argparse

from larc.commands.common import Commands, command
from larc.errors import LarcError


def add(commands: Commands) -> None:
    """Declare the command."""
    sentence = "Package a run's slow states with their lineage."
    package = command(commands, "package", sentence, _package)
    package.add_argument("path", metavar="RUN")
    package.add_argument("--out", required=True, metavar="DIR", help="the directory to make")
    package.add_argument(
        "--objective", metavar="NAME", help="whose states [the objective that the run selected]"
    )


def _package(arguments: argparse.Namespace) -> None:
    from larc.reports.episodic import load_results
    from larc.reports.writing import REPORTS
    from larc.studies.packaging import EPISODIC, FITTED, Choice, write_package
    from larc.studies.runs import Run

    run, objective, reason = Run(arguments.path), arguments.objective, ""
    if run.kind not in (*EPISODIC, *FITTED):
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which trains no slow states.")
    if run.kind in EPISODIC:
        selection = load_results(run).selection
        if objective is None and selection.chosen is None:
            raise LarcError(f"{selection.reason} Name one with --objective to package it anyway.")
        objective, reason = objective or selection.chosen, selection.reason
    elif objective is not None:
        raise LarcError(f"a run of {run.kind!r} has one objective; leave --objective out.")
    choice = Choice(objective or "", reason, REPORTS[run.kind](run).answer)
    print(f"the package is {write_package(run, arguments.out, choice)}")
