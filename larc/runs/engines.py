"""Where units of work are done: here one by one, in processes side by side, or on a Ray cluster.

A unit is a function of its arguments alone, so where it is done changes nothing in what it gives.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from larc.errors import LarcError

Engine = Literal["local", "ray"]
U = TypeVar("U")
Files = dict[str, bytes]


def perform_all(
    function: Callable[[U], Files],
    units: Sequence[U],
    *,
    engine: Engine = "local",
    workers: int = 1,
    address: str = "",
) -> Iterator[tuple[int, Files]]:
    """Do every unit and yield its number and files as it is finished.

    Examples
    --------
    >>> list(perform_all(lambda text: {"copy": text.encode()}, ["a", "b"]))
    [(0, {'copy': b'a'}), (1, {'copy': b'b'})]
    """
    if engine == "ray":
        yield from _on_ray(function, units, address)
    elif workers > 1:
        yield from _in_processes(function, units, workers)
    else:
        for number, unit in enumerate(units):
            yield number, function(unit)


def _in_processes(
    function: Callable[[U], Files], units: Sequence[U], workers: int
) -> Iterator[tuple[int, Files]]:
    # Spawned, not forked: a forked process would inherit torch's threads half alive.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
        try:
            with _deaf_children():
                numbers = {pool.submit(function, unit): number for number, unit in enumerate(units)}
            for future in as_completed(numbers):
                yield numbers[future], future.result()
        except BrokenProcessPool as error:
            raise LarcError(
                "a worker was killed, for want of memory perhaps; run the same command again "
                "to go on, with fewer --workers if need be."
            ) from error
        except BaseException:
            # Stopped: nobody waits for units that take hours. What they saved is kept.
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is ignored stays so in a child
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """Let a worker end when the process that started it does, however that one ends.

    Otherwise it would go on, and save its checkpoints, beside a process that goes on with the run.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _on_ray(
    function: Callable[[U], Files], units: Sequence[U], address: str
) -> Iterator[tuple[int, Files]]:
    try:
        import ray
    except ImportError as error:
        raise LarcError(
            "--engine ray needs Ray; install it with `pip install 'larc-lm[ray]'`."
        ) from error
    ours = not ray.is_initialized()
    if ours:
        options: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    try:
        remote = ray.remote(function)
        numbers = {remote.remote(unit): number for number, unit in enumerate(units)}
        while numbers:
            (ready, *_), _ = ray.wait(list(numbers), num_returns=1)
            yield numbers.pop(ready), ray.get(ready)
    finally:
        if ours:
            ray.shutdown()
