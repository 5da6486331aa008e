"""Scales of a chart: from values to places, and the round values that are named on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from larc.reporting.charts import number


@dataclass(frozen=True)
class Scale:
    """From values to places.

    Examples
    --------
    >>> Scale(0, 10, 100, 200)(5), Scale(1, 100, 0, 1, log=True)(10)
    (150.0, 0.5)
    >>> Scale(0, 53, 0, 1).ticks()
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """Return a few round values inside, whole ones where only those make sense."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        rough = (self.high - self.low) / 7
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
        step = max(step, 1.0) if whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(index * step, 12) for index in range(first, last + 1)]


def around(values: Sequence[float]) -> tuple[float, float]:
    """Return bounds a little outside of values, from zero where that is near.

    Examples
    --------
    >>> around([1.0, 100.0]), around([5.0])
    ((0.0, 106.0), (4.5, 5.5))
    """
    low, high = min(values), max(values)
    if 0 <= low < high / 2:
        return 0.0, high * 1.06
    if low == high:
        return low - 0.5, high + 0.5
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def tick_text(value: float, ticks: Sequence[float]) -> str:
    """Return a value with as many digits as it takes to tell all ticks.

    Examples
    --------
    >>> tick_text(2.0, [2.0, 2.5]), tick_text(1000.0, [1000.0])
    ('2.0', '1,000')
    """
    digits = next((d for d in range(6) if all(round(t, d) == t for t in ticks)), 6)
    if not digits and abs(value) >= 1000:
        return f"{value:,.0f}".replace("-", "−")
    return number(value, digits)
