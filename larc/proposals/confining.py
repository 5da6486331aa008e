"""Started as a script: gives up what a judged program shall not have, and becomes that program.

    python confining.py LIMITS COMMAND ...

It imports nothing of this package. Limits are set before the command is started, by a process of
its own, since code between fork and exec is not safe in a process with threads.
"""

import ctypes
import json
import os
import resource
import sys

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def leave_network() -> bool:
    """Go where there is no network, if the system lets us; whether it did."""
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
    except (OSError, AttributeError):
        return False
    return bool(unshare(_NEW_USER | _NEW_NETWORK) == 0)


def main(arguments: list[str]) -> None:
    """Set the limits and become the command."""
    limits = json.loads(arguments[0])
    if limits["network"] == "none" and not leave_network():
        sys.exit("the network could not be left")
    for name, most in (
        ("RLIMIT_CPU", limits["cpu"]),
        ("RLIMIT_AS", limits["memory"]),
        ("RLIMIT_FSIZE", limits["file"]),
        ("RLIMIT_NOFILE", limits["files"]),
        ("RLIMIT_CORE", 0),
    ):
        resource.setrlimit(getattr(resource, name), (most, most))
    os.execv(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
