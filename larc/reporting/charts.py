"""Figures as data: one description that is drawn for paper (matplotlib) and for the page (SVG).

Two kinds of chart say everything so far. `Rows` has values on named rows: dots with intervals,
moves from one value to another, or bars. `Lines` has lines over an axis, over names (each line
joins one seed's results), or over confidence (a reliability diagram).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from larc.evaluation import Reliability

# A series keeps its look in every figure. Looks are numbers: each drawing has its own palette, in
# Okabe and Ito's order of colours, which are told apart with any colour vision; shapes repeat what
# colours say. The last one is grey.
LOOKS = {"Static": 0, "Adapted": 1, "Exact": 2, "Untrained": 6}
LOOKS |= {"Keep": 0, "Reset": 1, "Permuted": 2, "HEDGE4": 3}
SERIES = 7


@dataclass(frozen=True)
class Value:
    """A value on a row, with an interval around it, or with the value that it started from.

    ``note`` is said where the value is pointed at.
    """

    row: str
    value: float
    lower: float | None = None
    upper: float | None = None
    start: float | None = None
    series: str = ""
    note: str = ""


@dataclass(frozen=True)
class Rows:
    """Values on named rows, from left to right: dots, or bars from the reference.

    ``reference`` is drawn as a line across all rows.
    """

    title: str
    label: str
    values: Sequence[Value]
    digits: int = 2
    reference: float | None = None
    bars: bool = False
    signed: bool = False

    @property
    def rows(self) -> list[str]:
        """The rows' names, each once, in order."""
        return _once(value.row for value in self.values)

    @property
    def series(self) -> list[str]:
        """The series' names, each once, in order."""
        return _once(value.series for value in self.values)


@dataclass(frozen=True)
class Line:
    """A line of a series: ``weights`` are its points' areas, ``note`` tells it from others.

    ``counts`` says how many observations each point stands for, ``labels`` what each is.
    """

    series: str
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()
    weights: Sequence[float] = ()
    counts: Sequence[int] = ()
    labels: Sequence[str] = ()
    note: str = ""
    faint: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines over an axis; over ``names`` at 0, 1, ... where those are given.

    ``square`` is a reliability diagram: both axes from 0 to 1, and the diagonal.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    digits: int = 3
    names: Sequence[str] = ()
    points: bool = False
    square: bool = False
    log_x: bool = False

    @property
    def series(self) -> list[str]:
        """The series' names, each once, in order."""
        return _once(line.series for line in self.lines)


Chart = Rows | Lines


@dataclass(frozen=True)
class Figure:
    """Charts side by side that share one caption and the looks of their series.

    Examples
    --------
    >>> gains = Rows("Gains", "points", [Value("G", 4.0, 3.0, 5.0, series="Static")])
    >>> Figure("result", "What it was worth.", [gains]).looks()
    {'Static': 0}
    """

    name: str
    caption: str
    panels: Sequence[Chart]
    columns: int = 2

    def looks(self) -> dict[str, int]:
        """Return each series' look: its own, or the first that no other has."""
        names = _once(name for panel in self.panels for name in panel.series if name)
        chosen: dict[str, int] = {}
        for name in sorted(names, key=lambda name: name not in LOOKS):
            free = [look for look in range(SERIES) if look not in chosen.values()]
            usual = LOOKS.get(name, -1)
            # Past the last look they begin again.
            chosen[name] = usual if usual in free else [*free, len(chosen) % SERIES][0]
        return {name: chosen[name] for name in names}


def reliability_chart(title: str, bins: Mapping[str, Reliability]) -> Lines:
    """Return a reliability diagram: a line per series, its points' areas the bins' weights.

    Examples
    --------
    >>> from larc.evaluation import reliability
    >>> bins = reliability([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    >>> reliability_chart("Most probable label", {"Keep": bins}).lines[0].y
    [0.0, 1.0]
    """
    lines = []
    for name, curve in bins.items():
        filled = curve.weight > 0
        parts = (curve.predicted, curve.observed, curve.weight, curve.count)
        predicted, observed, weights, counts = (part[filled].tolist() for part in parts)
        lines.append(Line(name, predicted, observed, weights=weights, counts=counts))
    return Lines(title, "Confidence", "Accuracy", lines, points=True, square=True)


def number(value: float, digits: int, *, signed: bool = False) -> str:
    """Return a number as it is written beside a point.

    Examples
    --------
    >>> number(-0.04, 1), number(-3.0, 1), number(3.0, 1, signed=True)
    ('0.0', '−3.0', '+3.0')
    """
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        return text.lstrip("-")
    return (f"+{text}" if signed and value > 0 else text).replace("-", "−")


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Return the nearest heights, in the same order, that are at least a gap apart.

    Examples
    --------
    >>> spread([2.5, 9.0, 2.0], 1.5)
    [3.0, 9.0, 1.5]
    """
    order = np.argsort(values, kind="stable")
    level = np.asarray(values, dtype=float)[order] - gap * np.arange(len(order))
    heights = np.empty(len(order))
    # Isotonic regression by its max-min formula: labels are few.
    for k, index in enumerate(order):
        means = [[level[i : j + 1].mean() for j in range(k, len(order))] for i in range(k + 1)]
        heights[index] = max(map(min, means)) + gap * k
    return heights.tolist()


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
