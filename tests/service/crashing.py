"""``larc serve`` that kills itself at a named point, the Nth time it gets there.

LARC_CRASH=POINT:N. The points are those of a request's life: after a command was taken in but not
committed (`take`), after the intake was committed (`taken`), after a round was computed and before
its commit (`played`), inside the commit (`commit`), after it (`committed`), and when an evaluation
has replayed the log (`evaluated`).
"""

import os
import signal
import sys
from typing import Any

from larc.cli import main
from larc.service import engine, evaluating, writer

engines: Any = engine
POINT, COUNT = os.environ.get("LARC_CRASH", "never:1").split(":")
reached = 0


def crash(point):
    global reached
    if point == POINT:
        reached += 1
        if reached == int(COUNT):
            os.kill(os.getpid(), signal.SIGKILL)


def around(function, before="", after=""):
    def wrapped(*arguments, **named):
        crash(before)
        result = function(*arguments, **named)
        crash(after)
        return result

    return wrapped


engines.take = around(engines.take, after="take")
engines.commit = around(engines.commit, after="commit")
engines.play = around(engines.play, after="played")
evaluating.summary = around(evaluating.summary, before="evaluated")
writer.Writer._transaction = around(writer.Writer._transaction, after="taken")
engines.Waiters.resolve = around(engines.Waiters.resolve, before="committed")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
