"""Times of alternatives measured side by side: interleaved repetitions, medians and spreads."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timed:
    """The seconds of every repetition of one alternative."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle repetition."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the range of the repetitions, relative to their median."""
        return (max(self.seconds) - min(self.seconds)) / 2 / self.median


@dataclass(frozen=True)
class Spread:
    """A number with the smallest and the largest it was in any repetition."""

    value: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Return the median of several values with their range.

        Examples
        --------
        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(value=2.0, low=1.0, high=3.0)
        """
        return Spread(statistics.median(values), min(values), max(values))


def alternate(
    candidates: Mapping[str, Run],
    repetitions: int,
    clock: Clock = time.perf_counter,
    *,
    settled: float = 10.0,
) -> dict[str, Timed]:
    """Run all again and again in turn, so that all share the noise.

    Each is run unmeasured right before it is measured, so that none pays for the memory that its
    neighbour left behind; one that took more than ``settled`` seconds settles within itself. Every
    other round goes backwards: none always follows the same neighbour.

    Examples
    --------
    >>> calls = []
    >>> times = alternate({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    >>> "".join(calls), len(times["a"].seconds)
    ('aabbbbaa', 2)
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for repetition in range(repetitions):
        names = list(candidates)
        for name in names if repetition % 2 == 0 else reversed(names):
            run, known = candidates[name], times[name]
            if not known or known[-1] <= settled:
                run()
            start = clock()
            run()
            known.append(clock() - start)
    return {name: Timed(tuple(seconds)) for name, seconds in times.items()}


def ratio(time: Timed, base: Timed) -> Spread:
    """Return how many times as long one took as the other, repetition by repetition.

    Examples
    --------
    >>> ratio(Timed((2.0, 8.0)), Timed((1.0, 2.0)))
    Spread(value=3.0, low=2.0, high=4.0)
    """
    return Spread.of([a / b for a, b in zip(time.seconds, base.seconds, strict=True)])


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of a straight line through the logarithms: 1 where growth is linear.

    Examples
    --------
    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope


def growth(sizes: Sequence[float], times: Sequence[Timed]) -> Spread:
    """Return the exponent of time against size, fitted to each repetition."""
    rounds = zip(*(timed.seconds for timed in times), strict=True)
    return Spread.of([exponent(sizes, seconds) for seconds in rounds])


def peak_bytes(run: Run) -> int:
    """Return the most memory that tensors made during a run occupied at once.

    Counted by torch's own allocator, so that it is the same number in every run; what libraries
    take for themselves is not in it.
    """
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "trace.json"
        with (
            _quiet_library(),
            profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler,
        ):
            run()
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_bytes())["traceEvents"]
    changes = [event for event in events if event["name"] == "[memory]"]
    changes.sort(key=lambda event: event["args"]["Ev Idx"])
    held = accumulate(event["args"]["Bytes"] for event in changes)
    return int(max(held, default=0))


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Keep notes that torch's profiler writes past Python out of the terminal."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
