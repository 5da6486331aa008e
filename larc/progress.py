"""Progress of long work: a live bar on a terminal, silence elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def tracked(what: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Show how far a loop is, its loss and the time left; yields what to call after each update.

    Examples
    --------
    >>> with tracked("training", total=2) as on_update:
    ...     on_update(1, 0.5)
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total, loss="–")

        def on_update(update: int, loss: float) -> None:
            progress.update(task, completed=update, loss=f"{loss:.4f}")

        yield on_update
