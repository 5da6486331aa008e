"""``larc verify``: check that a run is what it was."""

from __future__ import annotations

import argparse
import json

from larc.cli.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    verify = command(commands, "verify", "Check a run's files and order of evidence.", _verify)
    verify.add_argument("path", metavar="RUN", help="a run's directory or archive")
    verify.add_argument("--json", action="store_true", help="answer in JSON")


def _verify(arguments: argparse.Namespace) -> None:
    from larc.studies.running import verify_run

    checked = verify_run(arguments.path)
    print(json.dumps({"verified": checked}) if arguments.json else "\n".join(checked))
