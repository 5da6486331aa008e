"""Where units of work are done: here one by one, in processes side by side, or on a Ray cluster.

A unit is a function of its arguments alone, so where it is done changes nothing in what it gives.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
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
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        numbers = {pool.submit(function, unit): number for number, unit in enumerate(units)}
        for future in as_completed(numbers):
            yield numbers[future], future.result()


def _on_ray(
    function: Callable[[U], Files], units: Sequence[U], address: str
) -> Iterator[tuple[int, Files]]:
    try:
        import ray
    except ImportError as error:
        raise LarcError(
            "--engine ray needs Ray; install it with `pip install larc[ray]`."
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
