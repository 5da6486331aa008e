"""``larc package``: a run's slow states, to be given to somebody else."""

from __future__ import annotations

import argparse

from larc.cli.common import Commands, command


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
    from larc.runs.run import Run
    from larc.studies.packaging import write_package

    out = write_package(Run(arguments.path), arguments.out, arguments.objective)
    print(f"the package is {out}")
