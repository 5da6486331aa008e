"""The command line: thin commands over the library."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from larc.commands import adapter, ci, fetch, report, study, verify
from larc.errors import LarcError
from larc.settings import nearest

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130

# Read by OpenMP when torch is first loaded, which is after this. By default its threads spin while
# they wait for each other: with anything else running on the same cores, that was seven times
# slower for a slow update of SmolLM2.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: refused, with one sentence that says what to do. 2: the command line was wrong.
    130: interrupted.
    """
    parser = _parser()
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        options = getattr(known, "options", [])
        name = unknown[0].split("=")[0]
        print(f"larc: there is no option {name}; {nearest(name, options)}", file=sys.stderr)
        return USAGE
    if not hasattr(known, "run"):
        parser.print_help()
        return USAGE
    try:
        known.run(known)
    except LarcError as error:
        print(f"larc: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("larc: interrupted; the same command carries on from here.", file=sys.stderr)
        return INTERRUPTED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="larc", description="Learning from feedback inside a frozen language model."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for one in (fetch, study, ci, report, verify, adapter):
        one.add(commands)
    _tell_options(parser)
    return parser


def _tell_options(parser: argparse.ArgumentParser) -> None:
    """Let every command know its own options, for the nearest one to a mistyped name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                command.set_defaults(options=list(command._option_string_actions))
                _tell_options(command)


if __name__ == "__main__":
    sys.exit(main())
