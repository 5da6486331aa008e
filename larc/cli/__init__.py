"""The command line: a file for each command. ``add`` declares one, and the rest of the file does it."""

from larc.cli.command_line import main

__all__ = ["main"]
