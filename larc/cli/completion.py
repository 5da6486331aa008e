"""``larc completion``: completion of commands, options and their values, for a shell."""

from __future__ import annotations

import argparse

from larc.cli.common import Commands, command

_SHELLS = {
    "bash": "source <(larc completion bash)   # in ~/.bashrc",
    "zsh": 'eval "$(larc completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "larc completion fish | source   # in ~/.config/fish/config.fish",
}
# What a value is, by the word that stands for it in the help.
_FILES = {"FILE", "STATE"}
_DIRECTORIES = {"DIR", "RUN"}


def add(commands: Commands) -> None:
    """Declare the command."""
    completion = command(commands, "completion", "Print shell completion.", _completion)
    completion.formatter_class = argparse.RawDescriptionHelpFormatter
    completion.epilog = "to use it:\n" + "\n".join(f"  {line}" for line in _SHELLS.values())
    completion.add_argument(
        "shell", metavar="SHELL", choices=list(_SHELLS), help="bash, zsh or fish"
    )


def _completion(arguments: argparse.Namespace) -> None:
    import shtab

    _tell_values(arguments.parser)
    print(shtab.complete(arguments.parser, arguments.shell))


def _tell_values(parser: argparse.ArgumentParser) -> None:
    """Tell the completion what the values of options are, from how the help writes them."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _tell_values(one)
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks
        elif action.metavar in _DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # there too
        elif isinstance(action.metavar, str) and "|" in action.metavar:
            action.choices = action.metavar.split("|")
