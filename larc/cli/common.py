"""What every command shares."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import Any

Commands = Any  # what argparse calls an action of subparsers, which has no public type


ANEW = "nothing was kept; the same command starts anew"
ONWARD = "what was saved is kept; the same command goes on from there"


def command(
    commands: Commands,
    name: str,
    sentence: str,
    run: Callable[[argparse.Namespace], None] | None,
    *,
    stopped: str = ANEW,
) -> argparse.ArgumentParser:
    """Declare a command: one sentence on what it does, and one on what is left when it is stopped.

    The command line that was stopped is written after the second.
    """
    parser: argparse.ArgumentParser = commands.add_parser(name, help=sentence, description=sentence)
    if run is not None:
        # Not `run`: a study may have a setting of that name.
        parser.set_defaults(perform=run, stopped=stopped)
    return parser


def given(arguments: argparse.Namespace, cls: type[Any]) -> dict[str, Any]:
    """Return the settings of a class that were given on the command line."""
    return {f.name: getattr(arguments, f.name) for f in fields(cls) if hasattr(arguments, f.name)}
