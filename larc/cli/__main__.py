"""``python -m larc.cli``."""

import atexit
import os
import sys


def _leave() -> None:
    """End with the exit code of a command that was interrupted, and by no signal.

    CPython ends a module run by ``-m`` with SIGINT, whatever its exit code, where Ctrl-C fell into
    the ``exec`` of a text: a dataclass that is being imported has some.
    """
    if code == INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# What is registered first is done last.
atexit.register(_leave)

from larc.cli.command_line import INTERRUPTED, OK, main  # noqa: E402

code = OK
if __name__ == "__main__":
    code = main()
    sys.exit(code)
