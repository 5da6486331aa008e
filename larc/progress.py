"""Progress of long work: a live display on a terminal, silence elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


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

    def __init__(self) -> None:
        self._progress = _bars()
        self._units: TaskID | None = None
        self._unit: TaskID | None = None

    @contextmanager
    def over(self, units: int, done: int) -> Iterator[None]:
        """Show the display while a number of units is worked on."""
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
        if self._unit is not None:
            self._progress.remove_task(self._unit)
        self._unit = self._progress.add_task(name, total=total or None, completed=done, note="")

    def update(self, done: int, loss: float) -> None:
        """Show how far the unit is."""
        if self._unit is not None:
            self._progress.update(self._unit, completed=done, note=f"loss {loss:.4f}")

    def finished(self, name: str) -> None:
        """Count a unit as done."""
        if self._units is not None:
            self._progress.advance(self._units)


@contextmanager
def tracked(what: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Show one loop; yields what to call after each update with its number and loss.

    Examples
    --------
    >>> with tracked("training", total=2) as on_update:
    ...     on_update(1, 0.5)
    """
    with _bars() as bars:
        task = bars.add_task(what, total=total, note="")
        yield lambda done, loss: bars.update(task, completed=done, note=f"loss {loss:.4f}")


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
    with _bars() as bars:

        def tell(what: str, done: int, total: int, note: str) -> None:
            if what not in shown:
                shown[what] = bars.add_task(what, total=total, completed=done, note=note)
            bars.update(shown[what], completed=done, total=total, note=note)

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
