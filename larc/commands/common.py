"""What every command shares."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import Any

Commands = Any  # what argparse calls an action of subparsers, which has no public type


def command(
    commands: Commands, name: str, sentence: str, run: Callable[[argparse.Namespace], None] | None
) -> argparse.ArgumentParser:
    """Declare a command, with one sentence that says what it does."""
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=sentence, description=sentence, allow_abbrev=False
    )
    if run is not None:
        made.set_defaults(run=run)
    return made


def given(arguments: argparse.Namespace, cls: type[Any]) -> dict[str, Any]:
    """Return the settings of a class that were given on the command line."""
    return {f.name: getattr(arguments, f.name) for f in fields(cls) if hasattr(arguments, f.name)}
