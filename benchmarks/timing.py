"""Times of alternatives measured side by side: interleaved repetitions, medians and spreads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timed:
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the range of the repetitions, relative to their median."""
        return (max(self.seconds) - min(self.seconds)) / 2 / self.median


def alternate(
    candidates: dict[str, Callable[[], object]],
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timed]:
    """Run all once unmeasured, then again and again in turn, so that all share the noise."""
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repetitions):
        for name, run in candidates.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return {name: Timed(tuple(seconds)) for name, seconds in times.items()}
