"""Figures for the page: the charts of a report as inline SVG, coloured by the page's style sheet.

A chart is drawn 420 units wide, so that its letters can be read on a phone; panels stand side by
side where there is room. Every mark (class ``m``) has its values as its title: browsers show it
where it is pointed at, and the page's script does so at once and on touch.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from larc.reporting.charts import Chart, Figure, Line, Lines, Rows, Value, number, spread
from larc.reporting.scales import Scale, around, tick_text
from larc.reporting.svg_parts import (
    WIDTH,
    cut,
    dot,
    letters,
    level,
    look_class,
    mark,
    rule,
    short,
    text_width,
    x_axis,
)

TOP = 30.0  # where lines begin, below the name of what is up
STOPS = 48  # places along a line where its values are told
POINTS = 400  # a line of more points is drawn by its ups and downs


def draw(figure: Figure) -> list[str]:
    """Return a figure's panels; those of rows with the same label are on the same scale.

    Examples
    --------
    >>> gains = Rows("Gains", "points", [Value("G", 4.0, 3.0, 5.0, series="Static")], digits=1)
    >>> (panel,) = draw(Figure("result", "", [gains]))
    >>> panel[panel.index("<title>Static") :][:39].splitlines()
    ['<title>Static: G', '4.0 [3.0, 5.0]</title>']
    """
    looks = figure.looks()
    labelled: dict[str, list[float]] = {}
    for panel in figure.panels:
        if isinstance(panel, Rows):
            labelled.setdefault(panel.label, []).extend(_extent(panel))
    return [
        _draw_rows(panel, looks, *around(labelled[panel.label]))
        if isinstance(panel, Rows)
        else _draw_lines(panel, looks)
        for panel in figure.panels
    ]


# Rows --------------------------------------------------------------------------------------------


def _extent(panel: Rows) -> list[float]:
    ends = [
        end
        for value in panel.values
        for end in (value.value, value.lower, value.upper, value.start)
        if end is not None
    ]
    reference = 0.0 if panel.bars and panel.reference is None else panel.reference
    return ends if reference is None else [*ends, reference]


def _draw_rows(panel: Rows, looks: Mapping[str, int], low: float, high: float) -> str:
    members = {row: [v for v in panel.values if v.row == row] for row in panel.rows}
    deepest, longest = max(map(len, members.values())), max(map(text_width, members))
    # A long name stands above its row: beside it, it would leave no room on a phone.
    beside = longest <= 130
    left = longest + 14 if beside else 12
    scale = Scale(low, high, left, WIDTH - (64 if deepest == 1 else 14))
    lane = 15 if deepest > 1 else 18
    step, top = deepest * lane + (10 if beside else 24), 8.0
    bottom = top + step * len(members)
    parts = [x_axis(scale, top, bottom, panel.label)]
    if panel.reference is not None:
        parts.append(rule(scale(panel.reference), top, bottom, "zero"))
    for number_, (row, values) in enumerate(members.items()):
        start = top + number_ * step
        first = start + (step - lane * (len(values) - 1)) / 2
        if number_ and deepest > 1:
            parts.append(f'<path class="grid" d="M0 {short(start)}H{short(WIDTH)}"/>')
        if beside:
            parts.append(letters(row, left - 10, start + step / 2, "end"))
        else:
            parts.append(letters(cut(row), 0, start + 13, "start"))
            first += 9
        for index, value in enumerate(values):
            parts.append(_value(panel, value, looks, scale, first + index * lane))
            if deepest == 1:
                shown = number(value.value, panel.digits, signed=panel.signed)
                parts.append(letters(shown, WIDTH, first, "end", "number"))
    return _frame(panel, bottom + 42, parts, "rows")


def _value(panel: Rows, value: Value, looks: Mapping[str, int], scale: Scale, y: float) -> str:
    at, parts = scale(value.value), []
    if panel.bars:
        start = scale(panel.reference or 0.0)
        size = f'width="{short(abs(at - start))}" height="10"'
        parts.append(f'<rect class="bar" x="{short(min(at, start))}" y="{short(y - 5)}" {size}/>')
    if value.start is not None:
        parts.append(
            f'<path class="span" d="M{short(scale(value.start))} {short(y)}H{short(at)}"/>'
        )
        parts.append(dot(scale(value.start), y, looks.get(value.series, 0), "hollow"))
    if value.lower is not None and value.upper is not None:
        ends = f"M{short(scale(value.lower))} {short(y)}H{short(scale(value.upper))}"
        parts.append(f'<path class="span{" over" if panel.bars else ""}" d="{ends}"/>')
    if not panel.bars:
        parts.append(dot(at, y, looks.get(value.series, 0)))
    look = "s0" if panel.bars and not value.series else look_class(looks, value.series)
    return mark(said(panel, value), parts, look, at, y)


def said(panel: Rows, value: Value) -> str:
    """Say a value: what it is of on the first line, then the value with its interval or start."""

    def text(figure: float) -> str:
        return number(figure, panel.digits, signed=panel.signed)

    shown = text(value.value)
    if value.start is not None:
        shown = f"{text(value.start)} → {shown}"
    if value.lower is not None and value.upper is not None:
        shown += f" [{text(value.lower)}, {text(value.upper)}]"
    # The row may name its series already.
    of = value.row if value.row.startswith(value.series) else f"{value.series}: {value.row}"
    return "\n".join([of, shown, *([value.note] if value.note else [])])


# Lines -------------------------------------------------------------------------------------------


def _draw_lines(panel: Lines, looks: Mapping[str, int]) -> str:
    drawn = [line for line in panel.lines if len(line.x)]
    heights = [y for line in drawn for y in (*line.y, *line.lower, *line.upper)]
    low, high = (0.0, 1.0) if panel.square else around(heights)
    side = WIDTH - 62
    height = side if panel.square else 200.0
    y_scale = Scale(low, high, TOP + height, TOP)
    x_scale = _x_scale(panel, [x for line in drawn for x in line.x])
    whole = all(float(x).is_integer() for line in drawn for x in line.x)
    parts = [
        letters(panel.y_label, 0, 9, "start", "label"),
        *(level(y_scale(tick), tick_text(tick, y_scale.ticks())) for tick in y_scale.ticks()),
    ]
    if panel.names:
        parts += [
            letters(n, x_scale(i), TOP + height + 18, "middle") for i, n in enumerate(panel.names)
        ]
    else:
        parts.append(x_axis(x_scale, TOP, TOP + height, panel.x_label, whole=whole, grid=False))
    if panel.square:
        parts.append(
            f'<path class="zero" d="M48 {short(TOP + height)}L{short(48 + side)} {short(TOP)}"/>'
        )
    for line in sorted(drawn, key=lambda line: not line.faint):
        parts.append(_line(line, x_scale, y_scale, look_class(looks, line.series)))
    if panel.points:
        parts += _points(panel, drawn, looks, x_scale, y_scale)
    else:
        parts += _stops(panel, drawn, looks, x_scale, y_scale)
    if panel.names:
        parts += _labels(panel, drawn, x_scale, y_scale)
    kind = "points" if panel.points else "along"
    return _frame(panel, TOP + height + (34 if panel.names else 42), parts, kind)


def _x_scale(panel: Lines, values: Sequence[float]) -> Scale:
    if panel.names:
        last = len(panel.names) - 1
        return Scale(-0.5, last + 0.5, 48, WIDTH)
    low, high = (0.0, 1.0) if panel.square else (min(values), max(values))
    # One value alone has no extent.
    low, high = (low, high) if low < high else (low - 0.5, high + 0.5)
    return Scale(low, high, 48, WIDTH - 14, panel.log_x)


def _line(line: Line, x_scale: Scale, y_scale: Scale, look: str) -> str:
    def path(heights: Sequence[float]) -> list[str]:
        places = [(x_scale(x), y_scale(y)) for x, y in zip(line.x, heights, strict=True)]
        return [f"{short(x)} {short(y)}" for x, y in _thinned(places)]

    band = ""
    if len(line.lower):
        ends = [*path(line.upper), *reversed(path(line.lower))]
        band = f'<path class="band {look}" d="M{"L".join(ends)}Z"/>'
    style = " faint" if line.faint else " dashed" if line.dashed else ""
    return f'{band}<path class="line {look}{style}" d="M{"L".join(path(line.y))}"/>'


def _thinned(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the lowest and highest place of each stretch where there are more than can be seen."""
    if len(places) <= POINTS:
        return places
    size = -(-2 * len(places) // POINTS)
    chosen = {0, len(places) - 1}
    for start in range(0, len(places), size):
        inside = range(start, min(start + size, len(places)))
        chosen |= {min(inside, key=lambda i: places[i][1]), max(inside, key=lambda i: places[i][1])}
    return [places[index] for index in sorted(chosen)]


def _points(
    panel: Lines, lines: Sequence[Line], looks: Mapping[str, int], x_scale: Scale, y_scale: Scale
) -> list[str]:
    parts = []
    for line in lines:
        for index, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            series, where = line.series, f"{panel.x_label} {number(x, panel.digits)}"
            if panel.names:
                # What stands on a name has its look.
                series = where = panel.names[round(x)]
            texts = [f"{where}, {name(line)}".strip(", "), number(y, panel.digits)]
            size = 1.0
            if len(line.weights):
                texts.append(f"weight {number(100 * line.weights[index], 1)} %")
                size = 0.5 + 1.5 * line.weights[index] ** 0.5
            if len(line.counts):
                texts.append(f"{line.counts[index]:,} predictions")
            shape = dot(x_scale(x), y_scale(y), looks.get(series, 0), size=size)
            if len(line.labels):
                label = line.labels[index]
                texts[0] = f"{label}: {texts[0]}"
                # Within the chart: past its right end a phone would scroll.
                at = min(x_scale(x), WIDTH - text_width(label) / 2)
                parts.append(letters(label, at, y_scale(y) - 10, "middle", "number"))
            look = look_class(looks, series)
            parts.append(mark("\n".join(texts), [shape], look, x_scale(x), y_scale(y)))
    return parts


def stops(lines: Sequence[Line]) -> list[float]:
    """Return the places where values along lines are told: all, or evenly chosen ones.

    Examples
    --------
    >>> stops([Line("a", range(100), [0.0] * 100)])[-3:]
    [95, 97, 99]
    """
    every = sorted({x for line in lines for x in line.x})
    if len(every) <= STOPS:
        return every
    return [every[round(i * (len(every) - 1) / (STOPS - 1))] for i in range(STOPS)]


def values_at(lines: Sequence[Line], x: float) -> list[float | None]:
    """Return each line's value at the last of its places up to one; none before it begins.

    Examples
    --------
    >>> values_at([Line("a", [1, 5], [0.1, 0.5]), Line("b", [4], [0.4])], 3)
    [0.1, None]
    """
    ends = [bisect.bisect_right(line.x, x) for line in lines]
    return [line.y[end - 1] if end else None for line, end in zip(lines, ends, strict=True)]


def _stops(
    panel: Lines, lines: Sequence[Line], looks: Mapping[str, int], x_scale: Scale, y_scale: Scale
) -> list[str]:
    clear = [line for line in lines if not line.faint]
    parts = []
    for x in stops(clear):
        points = [
            (line, y) for line, y in zip(clear, values_at(clear, x), strict=True) if y is not None
        ]
        texts = [f"{panel.x_label} {tick_text(x, [x])}"]
        texts += [f"{name(line)}: {number(y, panel.digits)}" for line, y in points]
        dots = [
            f'<g class="{look_class(looks, line.series)}">'
            f"{dot(x_scale(x), y_scale(y), looks.get(line.series, 0), size=0.8)}</g>"
            for line, y in points
        ]
        guide = rule(x_scale(x), y_scale.end, y_scale.start, "guide")
        at = x_scale(x), y_scale(points[0][1])
        parts.append(mark("\n".join(texts), [guide, *dots], "stop", *at))
    return parts


def _labels(panel: Lines, lines: Sequence[Line], x_scale: Scale, y_scale: Scale) -> list[str]:
    """Write the values beside the points, of the last line only where there are many."""
    shown = lines[-1 if len(lines) > 4 else 0 :]
    parts = []
    for position in range(len(panel.names)):
        points = [
            (line, y)
            for line in shown
            for x, y in zip(line.x, line.y, strict=True)
            if x == position
        ]
        heights = spread([y_scale(y) for _, y in points], 13.0)
        for (line, y), height in zip(points, heights, strict=True):
            text = number(y, panel.digits)
            if len(lines) > 1 and line.note and position == len(panel.names) - 1:
                text += f" ({line.note})"
            parts.append(letters(text, x_scale(position) + 10, height, "start", "number"))
    return parts


def name(line: Line) -> str:
    """Say which line it is: its series, and its note.

    Examples
    --------
    >>> name(Line("Static", [], [], note="2811"))
    'Static 2811'
    """
    return f"{line.series} {line.note}".strip()


# The whole ---------------------------------------------------------------------------------------


def _frame(panel: Chart, height: float, parts: Iterable[str], kind: str) -> str:
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {short(WIDTH)} {short(height)}" '
        f'role="img" tabindex="0">'
        f"<title>{escape(panel.title)}</title><desc>{escape(describe(panel))}</desc>"
        f"{''.join(parts)}</svg>"
    )


def describe(panel: Chart) -> str:
    """Say in words what a chart shows.

    Examples
    --------
    >>> describe(Rows("Gains", "Points", [Value("G", 4.0, 3.0, 5.0)], digits=1))
    'Points. G: 4.0 [3.0, 5.0].'
    """
    if isinstance(panel, Rows):
        parts = [said(panel, value).replace("\n", ": ", 1) for value in panel.values]
        return f"{panel.label}. {'; '.join(parts)}."
    parts = [_told(line, panel.digits) for line in panel.lines if len(line.y) and not line.faint]
    over = f" over {', '.join(panel.names) if panel.names else panel.x_label.lower()}"
    return f"{panel.y_label}{over}: {'; '.join(parts)}."


def _told(line: Line, digits: int) -> str:
    """Say a line: each point that has a label, else where it begins and ends."""
    which = name(line) or "it"
    if line.labels:
        points = zip(line.labels, line.y, strict=True)
        return f"{which} " + ", ".join(f"{label} {number(y, digits)}" for label, y in points)
    return f"{which} goes from {number(line.y[0], digits)} to {number(line.y[-1], digits)}"
