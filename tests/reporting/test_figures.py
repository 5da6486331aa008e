import re
import subprocess
import sys

import numpy as np
import pytest

from larc.errors import LarcError
from larc.reporting import svg
from larc.reporting.charts import Figure, Line, Lines, Rows, Value, reliability_chart, spread
from larc.reporting.figures import COLORS, draw, render
from larc.reporting.page import values_table
from larc.reporting.svg_parts import WIDTH, text_width

SLOPES = Lines(
    "Error",
    "",
    "%",
    [
        Line("", [0, 1], [20.0, 30.0], note="1"),
        Line("", [0, 1], [22.0, 32.0], note="2"),
        Line("", [0, 1], [21.0, 31.0], note="mean", dashed=True),
    ],
    digits=1,
    names=["Static", "Adapted"],
    points=True,
)
GAINS = Rows(
    "Gains",
    "points",
    [
        Value("Δobj", -10.0, -12.0, 1.0),
        Value("Static G", 30.0, 25.0, 36.0, series="Static"),
        Value("Adapted G", 40.0, 35.0, 46.0, series="Adapted"),
    ],
    digits=1,
    reference=0.0,
    signed=True,
)
MOVES = Rows(
    "Moves",
    "%",
    [
        Value(row, 20.0, start=50.0, series=series)
        for row in ("p", "q")
        for series in ("Static", "Adapted", "Untrained")
    ],
)
CURVES = Lines(
    "Training",
    "Update",
    "loss",
    [
        Line("Static", range(1, 21), [1 / x for x in range(1, 21)], faint=True),
        Line("Static", range(1, 21), [1 / x for x in range(1, 21)]),
        Line("Adapted", range(1, 21), [2 / x for x in range(1, 21)]),
    ],
)


def _texts(axes):
    return [text.get_text() for text in axes.texts]


def _ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_same_charts_give_the_same_bytes_whatever_was_drawn_before(kind):
    import matplotlib

    figure = Figure("result", "", [SLOPES, GAINS])
    drawn = draw(figure)
    before = render(drawn, kind)
    assert render(drawn, kind) == before
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "lines.linewidth": 9}):
        assert render(draw(figure), kind) == before
        assert matplotlib.rcParams["font.size"] == 30
    assert not any(mark in before for mark in (b"dc:date", b"Matplotlib v", b"Software"))


def test_another_process_gives_the_same_bytes_without_pyplot():
    script = (
        "import sys; from larc.reporting.figures import draw, render\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from larc.reporting.charts import *\n"
        "figure = Figure('a', '', [Rows('b', 'c', [Value('d', 1.0, 0.0, 2.0)])])\n"
        "sys.stdout.buffer.write(render(draw(figure), 'svg'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    figure = Figure("a", "", [Rows("b", "c", [Value("d", 1.0, 0.0, 2.0)])])
    assert run.stdout == render(draw(figure), "svg")


def test_lines_over_names_join_the_values_of_each_and_say_them():
    left, right = draw(Figure("result", "", [SLOPES, GAINS])).axes
    assert _ticks(left.xaxis) == ["Static", "Adapted"]
    assert [list(line.get_ydata()) for line in left.lines] == [[20, 30], [22, 32], [21, 31]]
    assert [line.get_ls() for line in left.lines] == ["-", "-", "--"]
    assert _texts(left) == ["20.0", "22.0", "21.0", "30.0 (1)", "32.0 (2)", "31.0 (mean)"]
    # A point on a name has that name's look.
    colors = [tuple(points.get_facecolor()[0][:3]) for points in left.collections[:2]]
    expected = [tuple(int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)) for c in COLORS[:2]]
    np.testing.assert_allclose(colors, expected)
    assert _ticks(right.yaxis) == ["Δobj", "Static G", "Adapted G"]
    assert _texts(right) == ["−10.0", "+30.0", "+40.0"]
    spans = [segment for lines in right.collections for segment in lines.get_segments()]
    np.testing.assert_allclose(spans[0], [[-12, 0], [1, 0]])
    assert any(list(line.get_xdata()) == [0, 0] for line in right.lines)


def test_rows_of_one_label_share_a_scale_and_values_of_one_row_stand_apart():
    other = Rows("Others", "%", [Value("r", 90.0, start=10.0, series="Static")])
    left, right = draw(Figure("groups", "", [MOVES, other])).axes
    assert left.get_xlim() == right.get_xlim()
    moves = [line for line in left.lines if len(line.get_xdata()) == 2]
    assert len(moves) == 6
    assert len({line.get_ydata()[0] for line in moves}) == 6
    assert [text.get_text() for text in left.figure.legends[0].get_texts()] == [
        "Static",
        "Adapted",
        "Untrained",
    ]


def test_curves_bars_and_reliability_are_drawn():
    from larc.evaluation import reliability

    bins = reliability([[0.9, 0.1], [0.8, 0.2], [0.45, 0.55]], [0, 1, 1])
    bars = Rows("Bars", "x", [Value("a", -2.0, -3.0, -1.0), Value("b", 4.0)], bars=True)
    square = reliability_chart("Reliability", {"Keep": bins})
    figure = draw(Figure("all", "", [CURVES, bars, square], columns=3))
    curves, bar_axes, diagram = figure.axes
    assert [line.get_alpha() for line in curves.lines] == [0.2, 1, 1]
    assert [patch.get_width() for patch in bar_axes.patches] == [-2, 4]
    np.testing.assert_allclose(diagram.lines[1].get_xdata(), [0.55, 0.8, 0.9])
    assert diagram.get_xlim() == diagram.get_ylim() == (0, 1)
    areas = [points.get_sizes()[0] for points in diagram.collections]
    np.testing.assert_allclose(areas, 4 + 96 / 3)  # a third of the weight each


@pytest.mark.parametrize(
    "figure",
    [
        Figure("one", "", [Rows("a", "b", [Value("a row with a very long name indeed", 1.0)])]),
        Figure("point", "", [Lines("a", "b", "c", [Line("s", [1], [0.5])])]),
        Figure("same", "", [Lines("a", "", "c", [Line("", [0], [1.0])], names=["x"], points=True)]),
        Figure("dollars", "", [Rows("a$b", "c_$d$", [Value("$x$", 1.0, series="$y$")])]),
        Figure("three", "", [MOVES, GAINS, CURVES], columns=3),
    ],
    ids=lambda figure: figure.name,
)
def test_unusual_shapes_are_drawn_inside_the_figure(figure):
    drawn = draw(figure)
    assert render(drawn, "svg").startswith(b"<?xml")
    tight = drawn.get_tightbbox().extents
    assert (tight[:2] >= -0.01).all()
    assert (tight[2:] <= drawn.get_size_inches() + 0.01).all()


def test_series_have_fixed_and_different_looks():
    names = ("mine", "Untrained", "Static", "other")
    looks = Figure("a", "", [Rows("", "", [Value("r", 1.0, series=n) for n in names])]).looks()
    assert looks["Static"] == 0
    assert len(set(looks.values())) == 4


def test_labelled_points_say_what_they_are():
    line = Line("Static", [2.0, 4.0], [9.0, 1.0], labels=["two steps", "four"])
    figure = Figure("cost", "", [Lines("Error", "Evaluations", "%", [line], points=True)])
    assert _texts(draw(figure).axes[0]) == ["two steps", "four"]
    (page,) = svg.draw(figure)
    assert ">two steps</text>" in page
    assert "<title>four: Evaluations 4.000, Static\n1.000</title>" in page
    assert "Static two steps 9.000, four 1.000.</desc>" in page


def test_labelled_points_are_told_each_by_itself():
    # Two of one cost, and another arm that was not tried at that cost.
    lines = [
        Line("Static", [2.0, 2.0], [9.0, 1.0], labels=["a", "b"]),
        Line("Adapted", [3.0], [5.0], labels=["a"]),
    ]
    told = values_table(Lines("Error", "Evaluations", "%", lines, points=True))
    assert [list(row) for row in told.rows] == [
        ["Static", 2.0, 9.0, "a"],
        ["Static", 2.0, 1.0, "b"],
        ["Adapted", 3.0, 5.0, "a"],
    ]


def test_a_label_stays_within_the_chart():
    line = Line("", [1.0, 2.0], [9.0, 1.0], labels=["a", "a label of some length"])
    figure = Figure("cost", "", [Lines("Error", "Evaluations", "%", [line], points=True)])
    (page,) = svg.draw(figure)
    middle = float(re.search(r'<text[^>]* x="([\d.]+)"[^>]*>a label of some', page)[1])
    assert middle + text_width("a label of some length") / 2 <= WIDTH


def test_labels_are_moved_apart_and_no_further():
    assert spread([5.0, 1.0], 1.0) == [5.0, 1.0]
    np.testing.assert_allclose(spread([2.0, 2.0, 2.0], 1.0), [1, 2, 3])


def test_refusals_say_what_to_do(monkeypatch):
    drawn = draw(Figure("a", "", [GAINS]))
    with pytest.raises(LarcError, match="'svg' or 'png', not 'gif'"):
        render(drawn, "gif")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.style")
    with pytest.raises(LarcError, match=r"pip install 'larc-lm\[figures\]'"):
        draw(Figure("a", "", [GAINS]))
