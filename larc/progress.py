"""Progress of long work: a live display on a terminal, and elsewhere a line a minute.

Whoever tells how far it is notices Ctrl-C there, even one that a library has swallowed.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

#: Seconds between two lines where there is no terminal.
EVERY = 60.0
_pressed = False


def interrupt(number: int, frame: Any) -> None:
    """Stop at once, as Ctrl-C does, and remember that it was pressed."""
    global _pressed  # a process has one handler of a signal
    _pressed = True
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C be heard for good: code called back from C can swallow an exception, not a flag.

    Only the main thread hears signals, and who ignores Ctrl-C or has a use of their own for it
    keeps it: then nothing is changed.
    """
    global _pressed
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    _pressed = False
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        _pressed = False
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def check_interrupted() -> None:
    """Stop here, if Ctrl-C was pressed earlier and went unheard."""
    if _pressed:
        raise KeyboardInterrupt


class Lines:
    """Says on a line, once a minute, what is done now, how far it is and how long it will take.

    Parameters
    ----------
    say
        Takes a line; by default it goes to standard error.
    clock
        Tells the time in seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> lines = Lines(say=print, clock=lambda: now[0])
    >>> lines.tell("training", 1, 10)
    >>> now[0] = 60.0
    >>> lines.tell("training", 4, 10)
    training: 4 of 10, about 2 minutes left
    """

    def __init__(
        self,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say or (lambda line: print(line, file=sys.stderr, flush=True))
        self._clock = clock
        self._last = clock()
        self._what = ""
        self._began, self._from = self._last, 0

    def tell(self, what: str, done: int, total: int, outer: str = "") -> None:
        """Say where the work is, if a minute has passed since the last line."""
        now = self._clock()
        if what != self._what:
            self._what, self._began, self._from = what, now, done
        if now - self._last < EVERY:
            return
        self._last = now
        line = f"{outer}{what}: {done} of {total}" if total else f"{outer}{what}"
        if total and done > self._from:
            left = (now - self._began) / (done - self._from) * (total - done)
            line += f", about {_duration(left)} left"
        self._say(line)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "a minute"
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


class Display:
    """Shows which unit of work is done, how far it is, its loss and the time left.

    Examples
    --------
    >>> display = Display()
    >>> with display.over(units=2, done=0):
    ...     display.unit("training", total=3, done=0)
    ...     display.update(1, loss=0.5)
    ...     display.finished("training")
    """

    def __init__(self, *, silent: bool = False) -> None:
        self._progress = _bars()
        self._lines = Lines(say=(lambda line: None) if silent else None)
        self._units: TaskID | None = None
        self._unit: TaskID | None = None
        self._name, self._total = "", 0
        self._done, self._all = 0, 0

    @contextmanager
    def over(self, units: int, done: int) -> Iterator[None]:
        """Show the display while a number of units is worked on."""
        self._done, self._all = done, units
        with self._progress:
            self._units = self._progress.add_task("units", total=units, completed=done, note="")
            try:
                yield
            finally:
                for task in list(self._progress.task_ids):
                    self._progress.remove_task(task)
                self._units = self._unit = None

    def unit(self, name: str, total: int, done: int) -> None:
        """Show the unit that is worked on now."""
        self._name, self._total = name, total
        if self._unit is not None:
            self._progress.remove_task(self._unit)
        self._unit = self._progress.add_task(name, total=total or None, completed=done, note="")
        self._say(done)

    def update(self, done: int, loss: float | None = None) -> None:
        """Show how far the unit is."""
        check_interrupted()
        note = "" if loss is None else f"loss {loss:.4f}"
        if self._unit is not None:
            self._progress.update(self._unit, completed=done, note=note)
        self._say(done)

    def finished(self, name: str) -> None:
        """Count a unit as done."""
        self._done += 1
        if self._units is not None:
            self._progress.advance(self._units)

    def _say(self, done: int) -> None:
        if self._progress.disable:
            outer = f"unit {min(self._done + 1, self._all)} of {self._all}, " if self._all else ""
            self._lines.tell(self._name, done, self._total, outer)


@contextmanager
def tracked(what: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Show one loop; yields what to call after each update with its number and loss.

    Examples
    --------
    >>> with tracked("training", total=2) as on_update:
    ...     on_update(1, 0.5)
    """
    lines = Lines()
    with _bars() as bars:
        task = bars.add_task(what, total=total, note="")

        def update(done: int, loss: float) -> None:
            check_interrupted()
            bars.update(task, completed=done, note=f"loss {loss:.4f}")
            if bars.disable:
                lines.tell(what, done, total)

        yield update


@contextmanager
def counting() -> Iterator[Callable[[str, int, int, str], None]]:
    """Show work whose extent is found out on the way; yields what to call as it goes on.

    It is told what is counted now, how many are done, of how many, and a sentence or nothing.

    Examples
    --------
    >>> with counting() as tell:
    ...     tell("pages", 1, 2, "")
    ...     tell("files", 0, 10, "waiting for the server")
    """
    shown: dict[str, TaskID] = {}
    lines = Lines()
    with _bars() as bars:

        def tell(what: str, done: int, total: int, note: str) -> None:
            check_interrupted()
            if what not in shown:
                shown[what] = bars.add_task(what, total=total, completed=done, note=note)
            bars.update(shown[what], completed=done, total=total, note=note)
            if bars.disable:
                lines.tell(what, done, total)

        yield tell


def _bars() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        # A unit may take many minutes; the time left is known from the second one on.
        speed_estimate_period=24 * 3600,
    )
