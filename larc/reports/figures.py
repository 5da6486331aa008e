"""Figures of an episodic run, drawn from its results with matplotlib: same results, same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from larc.errors import LarcError
from larc.reports.episodic import EpisodicResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0
WINDOW = 8
INK = "#222222"
# Okabe and Ito's colours, told apart with any colour vision; shapes repeat what colours say.
LOOKS = {"static": ("#0072b2", "o"), "adapted": ("#d55e00", "s")}
LOOKS |= {"exact": ("#009e73", "D"), "untrained": ("#777777", "^")}
OTHERS = (("#cc79a7", "v"), ("#e69f00", "P"), ("#56b4e9", "X"))
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
        raise LarcError("figures need matplotlib; run `pip install larc[studies]`.") from error
    with matplotlib.style.context(STYLE, after_reset=True):
        yield


def figures(results: EpisodicResults) -> dict[str, Figure]:
    """Return all figures of a run by name: ``result``, ``curves`` and ``groups``."""
    return {
        "result": result_figure(results),
        "curves": curves_figure(results),
        "groups": groups_figure(results),
    }


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
def result_figure(results: EpisodicResults) -> Figure:
    """Draw the error after adaptation by objective and seed, and the contrasts beside it."""
    figure = _figure(max(2.9, 1.1 + 0.24 * len(results.contrasts)))
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_endpoint(left, results)
    _draw_contrasts(right, results)
    return _settled(figure)


@_styled()
def curves_figure(results: EpisodicResults) -> Figure:
    """Draw the query loss of each training: the mean of the last updates, and faintly each."""
    figure, looks = _figure(2.9), _looks(results.arms)
    axes = figure.subplots()
    for (arm, _), curve in results.curves.items():
        (color, marker), updates = looks[arm], range(1, len(curve) + 1)
        axes.plot(updates, curve, color=color, alpha=0.2, linewidth=0.7, zorder=1)
        # A line of one point would not be seen.
        axes.plot(updates, _smoothed(curve), marker if len(curve) == 1 else "-", color=color)
    axes.set_title(f"Training, mean of {WINDOW} updates (faint: each)")
    axes.set_xlabel("Slow update")
    axes.set_ylabel("Query loss (expected error, 0–1)")
    axes.locator_params(axis="x", integer=True)
    drawn = {arm for arm, _ in results.curves}
    entries = [_key(arm.capitalize(), color=looks[arm][0]) for arm in results.arms if arm in drawn]
    axes.legend(
        handles=entries, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, handlelength=1.2
    )
    return _settled(figure)


@_styled()
def groups_figure(results: EpisodicResults) -> Figure:
    """Draw what real feedback did to each group's error: reset to kept, seeds averaged."""
    looks, arms = _looks(results.arms), results.arms
    members: dict[str, dict[str, list[int]]] = {}
    for task, (family, group) in enumerate(zip(results.families, results.groups, strict=True)):
        members.setdefault(family, {}).setdefault(group, []).append(task)
    columns = min(2, len(members))
    lines = -(-len(members) // columns)
    tallest = max(map(len, members.values())) * (0.12 * len(arms) + 0.08)
    figure = _figure(min(0.5 + lines * (0.75 + tallest), 60))
    for place, (family, groups) in enumerate(members.items(), start=1):
        axes = figure.add_subplot(lines, columns, place, sharex=next(iter(figure.axes), None))
        for row, tasks in enumerate(groups.values()):
            if row % 2:
                axes.axhspan(row - 0.5, row + 0.5, color="#f3f3f3", linewidth=0)
            for number, arm in enumerate(arms):
                y = row + (number - (len(arms) - 1) / 2) * 0.8 / len(arms)
                reset, keep = (
                    100 * float(results.risk[arm, cell][:, tasks].mean())
                    for cell in ("real_reset", "real_keep")
                )
                color, marker = looks[arm]
                axes.plot([reset, keep], [y, y], color=color, linewidth=1.2)
                for value, fill in ((reset, "white"), (keep, color)):
                    axes.plot([value], [y], marker, color=color, mfc=fill, ms=4, clip_on=False)
        _name_rows(axes, [group.removeprefix(f"{family}/") for group in groups])
        axes.set_title(family.capitalize())
        axes.set_xlabel("Expected query error (%)")
        axes.set_ylabel("Group")
    axes.set_xlim(0, max(1.0, axes.get_xlim()[1]))
    entries = [_key(arm.capitalize(), *looks[arm]) for arm in arms]
    entries += [_key("hollow: reset", INK, "o", "white"), _key("filled: kept", INK, "o")]
    figure.legend(handles=entries, loc="outside upper center", ncols=6, handlelength=1)
    return _settled(figure)


def _draw_endpoint(axes: Axes, results: EpisodicResults) -> None:
    arms = [arm for arm in results.arms if arm != "untrained"] or list(results.arms)
    looks, last = _looks(results.arms), len(arms) - 1
    # Rows are seeds, columns arms.
    error = np.array([100 * results.risk[a, "real_keep"] @ results.weights for a in arms]).T
    middle, reach = (error.min() + error.max()) / 2, max(float(np.ptp(error)), 4.0)
    axes.set_ylim(max(middle - 0.65 * reach, -0.1 * reach), middle + 0.65 * reach)
    axes.set_xlim(-0.42 * max(last, 1), last + 0.72 * max(last, 1))
    axes.plot(range(len(arms)), error.T, color="#aaaaaa", linewidth=1, zorder=1)
    labels = [str(seed)[-4:] for seed in results.seeds]
    if len(error) > 1:
        axes.plot(range(len(arms)), error.mean(0), "--_", color="black", markersize=11)
        labels.append("mean")
    for place, arm in enumerate(arms):
        color, marker = looks[arm]
        values = error[:, place].tolist()
        axes.plot([place] * len(values), values, marker, color=color, markersize=5)
        values += [float(np.mean(values))] * (len(values) > 1)
        # Past six seeds there is room for the mean's label only.
        shown = list(zip(values, labels, strict=True))[-1 if len(values) > 7 else 0 :]
        heights = _spread([value for value, _ in shown], 0.075 * reach)
        for (value, label), height in zip(shown, heights, strict=True):
            text = f"{value:.1f} ({label})" if place == last else f"{value:.1f}"
            weight = "bold" if label == "mean" else "normal"
            _note(axes, text, place, height, left=place == 0 < last, weight=weight)
    names = [arm.capitalize() for arm in arms]
    axes.set_xticks(range(len(arms)), names, rotation=30 if len(arms) > 3 else 0)
    axes.set_ylabel("Expected query error (%)")
    axes.set_title("Error after adaptation, by seed")


def _draw_contrasts(axes: Axes, results: EpisodicResults) -> None:
    looks = _looks(results.arms)
    axes.axvline(0, color=INK, linewidth=0.8)
    for row, contrast in enumerate(results.contrasts):
        color, marker = looks.get(contrast.name.rpartition(" ")[0], (INK, "o"))
        axes.hlines(row, contrast.lower, contrast.upper, color=color, linewidth=1.6)
        axes.plot([contrast.mean], [row], color=color, marker=marker, markersize=5.5)
        _note(axes, f"{contrast.mean:+.1f}", 1, row, xycoords=("axes fraction", "data"))
    _name_rows(axes, [c.name[:1].upper() + c.name[1:] for c in results.contrasts])
    axes.set_xlabel("Gain (percentage points), 99 % interval\nG: reset − kept; D: real G − sham G")
    axes.set_title("Gains over groups")


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    shown = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    axes.set_yticks(range(len(shown)), shown)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.5, -0.5)


def _note(axes: Axes, text: str, x: float, y: float, left: bool = False, **more: Any) -> None:
    """Write beside a point, on a white ground that keeps lines off the letters."""
    more |= {"size": 7.5, "textcoords": "offset points", "bbox": {"color": "white", "pad": 0.4}}
    more |= {"ha": "right" if left else "left", "va": "center_baseline"}
    axes.annotate(text, (x, y), (-9 if left else 9, 0), **more)


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def _settled(figure: Figure) -> Figure:
    """Lay the figure out once and for all: each drawing would move it by a hair."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _looks(arms: Sequence[str]) -> dict[str, tuple[str, str]]:
    others = [arm for arm in arms if arm not in LOOKS]
    return LOOKS | {arm: OTHERS[index % len(OTHERS)] for index, arm in enumerate(others)}


def _key(label: str, color: str, marker: str = "", fill: str | None = None) -> Any:
    from matplotlib.lines import Line2D

    style: Literal["", "-"] = "" if marker else "-"
    return Line2D([], [], color=color, marker=marker, ls=style, mfc=fill or color, label=label)


def _smoothed(curve: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of each value and up to ``WINDOW - 1`` before it."""
    values = np.asarray(curve, dtype=float)
    return np.array([values[max(0, i + 1 - WINDOW) : i + 1].mean() for i in range(len(values))])


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Return the nearest heights, in the same order, that are at least a gap apart."""
    order = np.argsort(values, kind="stable")
    level = np.asarray(values, dtype=float)[order] - gap * np.arange(len(order))
    heights = np.empty(len(order))
    # Isotonic regression by its max-min formula: labels are few.
    for k, index in enumerate(order):
        means = [[level[i : j + 1].mean() for j in range(k, len(order))] for i in range(k + 1)]
        heights[index] = max(map(min, means)) + gap * k
    return heights.tolist()
