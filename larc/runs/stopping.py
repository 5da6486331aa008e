"""Stopping between steps: Ctrl-C waits for the step that is being made, so that it can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from larc.progress import interrupt


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Yield what says whether Ctrl-C was pressed; the second time, it stops at once as ever.

    Whoever asks saves what there is and raises ``KeyboardInterrupt``. Only the main thread hears
    signals: in any other, nothing is changed.

    Examples
    --------
    >>> with stoppable() as stopped:
    ...     before = stopped()
    ...     signal.raise_signal(signal.SIGINT)
    ...     before, stopped()
    (False, True)
    """
    heard = False

    def hear(number: int, frame: Any) -> None:
        nonlocal heard
        if heard:
            usual(number, frame)
        heard = True

    # Somebody who ignores Ctrl-C, or has a use of their own for it, keeps it.
    usual: Any = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and usual in (
        signal.default_int_handler,
        interrupt,
    )
    if ours:
        signal.signal(signal.SIGINT, hear)
    try:
        yield lambda: heard
    finally:
        if ours:
            signal.signal(signal.SIGINT, usual)
