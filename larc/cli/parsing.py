"""How a command line is read: what is wrong is said in one sentence, with what is nearest to it."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from larc.settings import nearest


class Lines(argparse.HelpFormatter):
    """Help with one line per command, and no line that only says that commands follow."""

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return self._join_parts([self._format_action(one) for one in action._get_subactions()])
        return super()._format_action(action)


class Parser(argparse.ArgumentParser):
    """A parser of this package's commands; its subcommands are read by its like.

    Examples
    --------
    >>> import contextlib, io
    >>> parser = Parser(prog="larc")
    >>> _ = parser.add_argument("--rank")
    >>> with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.suppress(SystemExit):
    ...     parser.parse_args(["--rnak", "4"])
    >>> print(errors.getvalue(), end="")
    larc: there is no option --rnak; did you mean '--rank'?
    """

    def __init__(self, **options: Any) -> None:
        options = {"allow_abbrev": False, "formatter_class": Lines, **options}
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end with the exit code of a wrong command line."""
        text = message if message.endswith((".", "?")) else f"{message}; see `{self.prog} --help`."
        self.exit(2, f"larc: {text}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the command line, refusing what this command does not know."""
        # Each command of a line is read by a parser of its own, the last one first: it is the one
        # whose options a mistyped name is compared with.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].split("=")[0]
            if name.startswith("-"):
                options = [option for option in self._option_string_actions if len(option) > 2]
                self.error(f"there is no option {name}; {nearest(name, options)}")
            self.error(f"{name!r} is more than this command takes")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            suggestion = nearest(str(value), [str(choice) for choice in action.choices])
            if action.option_strings:
                what = f"{action.option_strings[0]} got {value!r}"
            else:
                what = f"there is no {str(action.metavar).lower()} {value!r}"
            raise argparse.ArgumentError(None, f"{what}; {suggestion}")
