"""The command line, a file for each command: ``add`` declares it, and the rest does it."""

from larc.cli.command_line import main

__all__ = ["main"]
