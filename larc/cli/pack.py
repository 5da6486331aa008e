"""``larc pack`` and ``larc unpack``: a finished run as one file, and back."""

from __future__ import annotations

import argparse
from pathlib import Path

from larc.cli.common import Commands, command


def add(commands: Commands) -> None:
    """Declare both commands."""
    pack = command(commands, "pack", "Put a finished run into one archive.", _pack)
    pack.add_argument("path", metavar="RUN", help="a run's directory")
    pack.add_argument("--out", metavar="FILE", help="the archive to make [RUN.larc]")
    unpack = command(commands, "unpack", "Make a run's directory of its archive.", _unpack)
    unpack.add_argument("path", metavar="FILE", help="the archive")
    unpack.add_argument("--out", metavar="DIR", required=True, help="the directory to make")


def _pack(arguments: argparse.Namespace) -> None:
    from larc.runs.archive import pack
    from larc.runs.run import Run
    from larc.studies.running import verify_run

    run = Run(arguments.path)
    verify_run(run)
    out = Path(arguments.out or f"{arguments.path.rstrip('/')}.larc")
    print(f"the archive is {pack(run, out)}")


def _unpack(arguments: argparse.Namespace) -> None:
    from larc.runs.archive import unpack

    print(f"the run is {unpack(Path(arguments.path), Path(arguments.out))}")
