"""What every command shares."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from larc.errors import LarcError

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


def needs_service() -> None:
    """Refuse an installation without what the service needs."""
    try:
        import larc.service.server  # noqa: F401
    except ImportError as error:
        raise LarcError(
            f"the service needs {error.name}; install it with `pip install 'larc-lm[serve]'`."
        ) from error


def checked_threads(threads: int) -> None:
    """Refuse a number of threads that the model cannot have."""
    if not 0 <= threads <= 256:
        raise LarcError("--threads is 0 (for torch's choice) to 256.")
