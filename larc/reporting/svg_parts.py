"""The parts that charts on the page are drawn with: marks, axes, letters, coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from larc.reporting.scales import Scale, tick_text

WIDTH = 420.0  # of a chart
# By look, around a point, of about one area.
SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
    "M-5 -4H5L0 5Z",
    "M-2 -5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z",
    "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
    "M-5 4H5L0 -5Z",
)


def sample(look: int) -> str:
    """Return a look's shape, for a key."""
    return (
        f'<svg class="s{look}" viewBox="-7 -7 14 14" aria-hidden="true">'
        f'<path class="dot" d="{SHAPES[look]}"/></svg>'
    )


def mark(title: str, parts: Iterable[str], look: str, x: float, y: float) -> str:
    """Return what says its values where it is pointed at, and where that is."""
    attributes = f'data-x="{short(x)}" data-y="{short(y)}"'
    return f'<g class="m {look}" {attributes}><title>{escape(title)}</title>{"".join(parts)}</g>'


def dot(x: float, y: float, look: int, kind: str = "", size: float = 1.0) -> str:
    """Return a look's shape at a place."""
    moved = f"translate({short(x)} {short(y)})" + (f" scale({size:.2f})" if size != 1 else "")
    return f'<path class="dot {kind}" transform="{moved}" d="{SHAPES[look]}"/>'


def look_class(looks: Mapping[str, int], series: str) -> str:
    """Return the class that colours a series; ink where it has no look."""
    return f"s{looks[series]}" if series in looks else "ink"


def x_axis(
    scale: Scale, top: float, bottom: float, label: str, whole: bool = False, grid: bool = True
) -> str:
    """Return the axis at the bottom, with its round values and its label."""
    ticks = scale.ticks(whole=whole)
    parts = [f'<path class="axis" d="M{short(scale.start)} {short(bottom)}H{short(scale.end)}"/>']
    for tick in ticks:
        parts.append(rule(scale(tick), top if grid else bottom, bottom + 4, "grid"))
        parts.append(letters(tick_text(tick, ticks), scale(tick), bottom + 14, "middle", "tick"))
    middle = (scale.start + scale.end) / 2
    parts.append(letters(label, middle, bottom + 33, "middle", "label"))
    return "".join(parts)


def level(y: float, text: str) -> str:
    """Return a line across at a height, and what that is."""
    return f'<path class="grid" d="M48 {short(y)}H{short(WIDTH)}"/>' + letters(
        text, 40, y, "end", "tick"
    )


def rule(x: float, top: float, bottom: float, kind: str) -> str:
    """Return a line from top to bottom."""
    return f'<path class="{kind}" d="M{short(x)} {short(top)}V{short(bottom)}"/>'


def letters(text: str, x: float, y: float, anchor: str, kind: str = "") -> str:
    """Return a text at a place, which it begins, ends or has in its middle."""
    # A little lower than the middle: that is where letters are.
    attributes = f'x="{short(x)}" y="{short(y + 4)}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {attributes}>{escape(text)}</text>'


def text_width(text: str) -> float:
    """Return about how wide a text is, in a wide typeface."""
    return sum(8.2 if letter.isupper() or letter.isdigit() else 6.8 for letter in text)


def cut(text: str) -> str:
    """Return as much of a text as a chart is wide."""
    length = len(text)
    while text_width(text[:length]) > WIDTH:
        length -= 1
    return text if length == len(text) else f"{text[: length - 1]}…"


def short(value: float) -> str:
    """Return a coordinate, short and always the same.

    Examples
    --------
    >>> short(2.0), short(-0.04), short(1.26)
    ('2', '0', '1.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
