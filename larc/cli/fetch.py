"""``larc fetch``: bring a model to this machine."""

from __future__ import annotations

import argparse

from larc.cli.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    fetch = command(commands, "fetch", "Bring a model to this machine, once.", _fetch)
    fetch.add_argument("model", nargs="?", default="smollm2-135m", help="which one [smollm2-135m]")


def _fetch(arguments: argparse.Namespace) -> None:
    from larc.substrate import fetch

    fetch(arguments.model)
