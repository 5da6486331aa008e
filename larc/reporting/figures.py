"""Figures for paper: the charts of a report drawn with matplotlib; same charts, same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from larc.errors import LarcError
from larc.reporting import charts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0
INK = "#222222"
# By look: Okabe and Ito's colours, and grey.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777")
MARKERS = ("o", "s", "D", "v", "P", "X", "^")
STYLE = {
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "figure.constrained_layout.w_pad": 0.08,
    "font.family": "DejaVu Sans",
    "font.size": 8.2,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "svg.hashsalt": "larc",
    # A name is text, whatever dollars it has.
    "text.parse_math": False,
}


@contextmanager
def _styled() -> Iterator[None]:
    """Draw by matplotlib's defaults and our style, whatever the user's, which comes back after."""
    try:
        import matplotlib.style
    except ImportError as error:
        raise LarcError("figures need matplotlib; run `pip install 'larc-lm[figures]'`.") from error
    with matplotlib.style.context(STYLE, after_reset=True):
        yield


@_styled()
def render(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    r"""Return a figure as the bytes of a file, without date or software: same figure, same bytes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> render(Figure(), "png")[:4]
    b'\x89PNG'
    """
    if kind not in ("svg", "png"):
        raise LarcError(f"figures are rendered as 'svg' or 'png', not {kind!r}.")
    hidden: dict[str, Any] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    sink = io.BytesIO()
    figure.savefig(sink, format=kind, metadata=hidden[kind])
    return sink.getvalue()


@_styled()
def draw(figure: charts.Figure) -> Figure:
    """Draw a figure: its panels in columns, those with the same label on the same scale.

    Examples
    --------
    >>> gains = charts.Rows("Gains", "points", [charts.Value("G", 4.0, 3.0, 5.0)])
    >>> [axes.get_xlabel() for axes in draw(charts.Figure("result", "", [gains])).axes]
    ['points']
    """
    from matplotlib.figure import Figure

    columns = min(figure.columns, len(figure.panels))
    lines = -(-len(figure.panels) // columns)
    height = lines * max(_height(panel, columns) for panel in figure.panels)
    # Past sixty inches a picture is too large for what opens it.
    drawn = Figure(figsize=(WIDTH, min(0.3 + height, 60)), layout="constrained")
    looks, shared = figure.looks(), dict[str, Any]()
    for number, panel in enumerate(figure.panels, start=1):
        if isinstance(panel, charts.Rows):
            axes = drawn.add_subplot(lines, columns, number, sharex=shared.get(panel.label))
            shared.setdefault(panel.label, axes)
            _draw_rows(axes, panel, looks)
        else:
            axes = drawn.add_subplot(lines, columns, number)
            _draw_lines(axes, panel, looks)
        axes.set_title(panel.title)
    # Names on an axis need no key.
    labelled = {name for p in figure.panels if isinstance(p, charts.Lines) for name in p.names}
    keyed = [name for name in looks if name not in labelled]
    if len(keyed) > 1:
        handles = [_key(name, looks[name]) for name in keyed]
        drawn.legend(handles=handles, loc="outside upper center", ncols=6, handlelength=1)
    # Laid out once and for all: each drawing would move it by a hair.
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    return drawn


def _height(panel: charts.Chart, columns: int) -> float:
    if isinstance(panel, charts.Rows):
        return max(1.6, 0.8 + len(panel.rows) * (0.12 * _deepest(panel) + 0.1))
    return WIDTH / columns if panel.square else 2.6


def _deepest(panel: charts.Rows) -> int:
    """Return the most values that one row has."""
    return max(sum(value.row == row for value in panel.values) for row in panel.rows)


def _draw_rows(axes: Axes, panel: charts.Rows, looks: Mapping[str, int]) -> None:
    rows, deepest = panel.rows, _deepest(panel)
    if panel.reference is not None:
        axes.axvline(panel.reference, color=INK, linewidth=0.8, zorder=1)
    for row, name in enumerate(rows):
        if row % 2 and deepest > 1:
            axes.axhspan(row - 0.5, row + 0.5, color="#f3f3f3", linewidth=0, zorder=0)
        values = [value for value in panel.values if value.row == name]
        for lane, value in enumerate(values):
            y = row + (lane - (len(values) - 1) / 2) * 0.8 / deepest
            color, marker = _look(looks, value.series)
            if panel.bars:
                start = panel.reference or 0.0
                axes.barh(y, value.value - start, 0.7 / deepest, start, color=color)
                color = INK
            if value.lower is not None and value.upper is not None:
                axes.hlines(y, value.lower, value.upper, color=color, linewidth=1.5)
            if value.start is not None:
                axes.plot([value.start, value.value], [y, y], color=color, linewidth=1.2)
                axes.plot([value.start], [y], marker, color=color, mfc="white", ms=4)
            if not panel.bars:
                axes.plot([value.value], [y], marker, color=color, ms=5 if deepest == 1 else 4)
            if deepest == 1:
                text = charts.number(value.value, panel.digits, signed=panel.signed)
                _note(axes, text, 1, y, xycoords=("axes fraction", "data"))
    shown = [name if len(name) <= 24 else f"{name[:23]}…" for name in rows]
    axes.set_yticks(range(len(rows)), shown)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(panel.label)


def _draw_lines(axes: Axes, panel: charts.Lines, looks: Mapping[str, int]) -> None:
    if panel.square:
        axes.plot([0, 1], [0, 1], color="#aaaaaa", linewidth=0.8, zorder=0)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    for line in panel.lines:
        color, marker = _look(looks, line.series)
        if not (line.series or line.dashed):
            color = "#999999"  # a line that only joins
        if len(line.lower):
            axes.fill_between(line.x, line.lower, line.upper, color=color, alpha=0.15, linewidth=0)
        alpha, width = (0.2, 0.7) if line.faint else (1, 1.3)
        style = "--" if line.dashed else "-"
        axes.plot(line.x, line.y, style, color=color, alpha=alpha, linewidth=width)
        # A line of one point would not be seen.
        if panel.points or len(line.x) == 1:
            for index, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
                area = 4 + 96 * line.weights[index] if len(line.weights) else 20.0
                if panel.names:
                    color, marker = _look(looks, panel.names[round(x)], (color, marker))
                axes.scatter([x], [y], area, color=color, marker=marker, zorder=3, clip_on=False)
                # Of several lines the counts would lie on each other.
                if len(line.counts) and len(panel.lines) == 1:
                    _count(axes, line.counts[index], x, y, area)
                if len(line.labels):
                    _above(axes, line.labels[index], x, y)
    if any(len(line.labels) for line in panel.lines):
        axes.margins(x=0.1, y=0.15)  # room for what is written above the outermost points
    if panel.names:
        _name_points(axes, panel)
    elif panel.log_x:
        axes.set_xscale("log")
    elif all(float(x).is_integer() for line in panel.lines for x in line.x):
        axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def _name_points(axes: Axes, panel: charts.Lines) -> None:
    """Name the places on the axis, and write each point's value beside it."""
    last = len(panel.names) - 1
    values = np.array([y for line in panel.lines for y in line.y])
    middle, reach = (values.min() + values.max()) / 2, max(float(np.ptp(values)), 1e-9)
    axes.set_ylim(middle - 0.65 * reach, middle + 0.65 * reach)
    axes.set_xlim(-0.42 * max(last, 1), last + 0.72 * max(last, 1))
    axes.set_xticks(range(last + 1), panel.names, rotation=30 if last > 2 else 0)
    # Past seven lines there is room for the last one's labels only.
    shown = panel.lines[-1 if len(panel.lines) > 7 else 0 :]
    for position in range(last + 1):
        points = [
            (line.y[list(line.x).index(position)], line) for line in shown if position in line.x
        ]
        heights = charts.spread([value for value, _ in points], 0.075 * reach)
        for (value, line), height in zip(points, heights, strict=True):
            text = charts.number(value, panel.digits)
            if position == last and line.note:
                text += f" ({line.note})"
            weight = "bold" if line.dashed else "normal"
            _note(axes, text, position, height, left=position == 0 < last, weight=weight)


def _note(axes: Axes, text: str, x: float, y: float, left: bool = False, **more: Any) -> None:
    """Write beside a point, on a white ground that keeps lines off the letters."""
    more |= {"size": 7.5, "textcoords": "offset points", "bbox": {"color": "white", "pad": 0.4}}
    more |= {"ha": "right" if left else "left", "va": "center_baseline"}
    axes.annotate(text, (x, y), (-9 if left else 9, 0), **more)


def _count(axes: Axes, count: int, x: float, y: float, area: float) -> None:
    """Write how many observations a point stands for, below it in the upper half and above else."""
    away, side = area**0.5 / 2 + 2, "bottom" if y <= 0.5 else "top"
    offset = (0, away if y <= 0.5 else -away)
    axes.annotate(
        f"{count:,}", (x, y), offset, size=6, textcoords="offset points", ha="center", va=side
    )


def _above(axes: Axes, label: str, x: float, y: float) -> None:
    """Write what a point is above it, its letters' rims white so that lines stay whole."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=2, foreground="white")]
    axes.annotate(
        label, (x, y), (0, 5), size=7.5, textcoords="offset points", ha="center", path_effects=rim
    )


def _look(
    looks: Mapping[str, int], series: str, otherwise: tuple[str, str] = (INK, "o")
) -> tuple[str, str]:
    return (COLORS[looks[series]], MARKERS[looks[series]]) if series in looks else otherwise


def _key(label: str, look: int) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=COLORS[look], marker=MARKERS[look], ls="", label=label)
