"""The command line: thin commands over the library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from larc.errors import LarcError
from larc.settings import add_options, build, nearest

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130


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
    fetch = _command(commands, "fetch", "Bring a model to this machine, once.", _fetch)
    fetch.add_argument("model", nargs="?", default="smollm2-135m", help="which one [smollm2-135m]")
    adapter = _command(commands, "adapter", "Train a frozen semantic adapter.", _adapter)
    from larc.studies.adapter import AdapterSettings

    add_options(adapter, AdapterSettings)
    _complete(parser)
    return parser


def _command(
    commands: Any, name: str, sentence: str, run: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=sentence, description=sentence, allow_abbrev=False
    )
    command.set_defaults(run=run)
    return command


def _complete(parser: argparse.ArgumentParser) -> None:
    """Let every command know its own options, for the nearest one to a mistyped name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                command.set_defaults(options=list(command._option_string_actions))
                _complete(command)


def _fetch(arguments: argparse.Namespace) -> None:
    from larc.substrate import fetch

    fetch(arguments.model)


def _adapter(arguments: argparse.Namespace) -> None:
    from larc.progress import tracked
    from larc.studies.adapter import AdapterSettings, train_adapter

    settings = build(AdapterSettings, _given(arguments, AdapterSettings))
    with tracked("adapter", settings.updates) as on_update:
        out = train_adapter(settings, on_update)
    print(f"the adapter is in {out}; use it with load_substrate(..., adapter={str(out)!r})")


def _given(arguments: argparse.Namespace, cls: type[Any]) -> dict[str, Any]:
    from dataclasses import fields

    return {f.name: getattr(arguments, f.name) for f in fields(cls) if hasattr(arguments, f.name)}


if __name__ == "__main__":
    sys.exit(main())
