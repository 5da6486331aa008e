"""The command line: thin commands over the library."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, version

from larc.cli import (
    adapter,
    bench,
    ci,
    completion,
    demo,
    export,
    fetch,
    pack,
    package,
    report,
    serve,
    study,
    verify,
)
from larc.cli.parsing import Parser
from larc.errors import LarcError

#: Part of what this project's own metadata say, under either name.
_OWN = "frozen language model"
OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130

# Read by OpenMP when torch is first loaded, which is after this. By default its threads spin while
# they wait for each other: with anything else running on the same cores, that was seven times
# slower for a slow update of SmolLM2.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, one of those that ``larc --help`` lists."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter shows another
            stream.reconfigure(errors="replace")
    parser = _parser()
    try:
        known = parser.parse_args(arguments)
    except SystemExit as done:  # help was asked for, or the command line is wrong
        return int(done.code or OK)
    if not hasattr(known, "perform"):
        parser.print_help()
        return USAGE
    try:
        check_distribution()
        _check_texts(sys.argv[1:] if arguments is None else arguments)
        from larc.progress import interruptible  # help needs no display

        with interruptible():
            known.perform(known)
        sys.stdout.flush()
    except LarcError as error:
        print(f"larc: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        again = shlex.join(["larc", *(sys.argv[1:] if arguments is None else arguments)])
        print(f"larc: interrupted; {known.stopped}: {again}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the answer has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # of a file that no reader expected
        if not error.filename:
            raise
        print(f"larc: {error.filename} cannot be used ({error.strerror}).", file=sys.stderr)
        return REFUSED
    return OK


def _check_texts(arguments: Sequence[str]) -> None:
    """Refuse an argument of bytes that are no text here: no record could name such a file."""
    for argument in arguments:
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in argument):
            shown = argument.encode("ascii", "backslashreplace").decode()
            raise LarcError(
                f"{shown} is no text in this locale; set LC_ALL=C.UTF-8 and PYTHONUTF8=1, or "
                "rename it."
            )


def check_distribution() -> None:
    """Refuse to work beside the registry's package ``larc``: its files have the names of ours."""
    try:
        metadata = distribution("larc").metadata
    except PackageNotFoundError:
        return
    # Version 0.1 of this project had that name too, and may be left from an earlier checkout.
    summary = metadata["Summary"] if "Summary" in metadata else ""  # noqa: SIM401  # no get there
    if metadata["Name"] == "larc" and _OWN not in summary:
        raise LarcError(
            "the package `larc` of the registry is another project and is installed too; run "
            "`pip uninstall larc` and `pip install --force-reinstall larc-lm`."
        )


def _parser() -> Parser:
    parser = Parser(
        prog="larc",
        usage="larc COMMAND ... | larc --version",
        description="Learning from feedback inside a frozen language model.",
        epilog=f"exit codes: {OK} done, {REFUSED} refused, {USAGE} wrong command line, "
        f"{INTERRUPTED} stopped",
    )
    parser.set_defaults(parser=parser)
    parser.add_argument(
        "--version",
        action="version",
        version=f"larc {version('larc-lm')}",
        help=argparse.SUPPRESS,  # the usage has it: help is to fit a screen
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="larc")
    first = (fetch, demo, serve, study, ci, report, verify, pack)
    for one in (*first, export, package, adapter, bench, completion):
        one.add(commands)
    return parser
