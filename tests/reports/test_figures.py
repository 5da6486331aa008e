import subprocess
import sys

import numpy as np
import pytest

from larc.errors import LarcError
from larc.evaluation import Selection
from larc.reports.episodic import CELLS, Contrast, EpisodicResults
from larc.reports.figures import (
    LOOKS,
    _looks,
    _smoothed,
    _spread,
    curves_figure,
    figures,
    groups_figure,
    render,
    result_figure,
)

NAMES = ("result", "curves", "groups")


def _results(
    arms=("static", "adapted", "untrained"), seeds=(1, 2, 3), families=("sum", "list"), updates=20
):
    """Two groups of two tasks a family; arm a, seed s: keep errs 20 + 10 a + s %, reset 30 more."""
    groups = [f"{family}/{group}" for family in families for group in "pq" for _ in range(2)]
    keep = {
        arm: np.full((len(seeds), len(groups)), 0.2 + 0.1 * number)
        + 0.01 * np.arange(len(seeds))[:, None]
        for number, arm in enumerate(arms)
    }
    risk = {(a, c): keep[a] + (0 if c == "real_keep" else 0.3) for a in arms for c in CELLS}
    contrasts = [
        Contrast(f"{arm} {gain}", np.full(len(seeds), 30.0), 30.0, 25.0, 36.0)
        for arm in arms
        for gain in "GD"
    ]
    if {"static", "adapted"} <= set(arms):
        contrasts.insert(0, Contrast("Δobj", np.full(len(seeds), -10.0), -10.0, -12.0, 1.0))
    return EpisodicResults(
        arms=tuple(arms),
        seeds=tuple(seeds),
        names=tuple(f"{group}/{index}" for index, group in enumerate(groups)),
        families=tuple(group.split("/")[0] for group in groups),
        groups=tuple(groups),
        risk=risk,
        greedy=risk,
        solved=risk,
        rule=np.zeros(len(groups)),
        weights=np.full(len(groups), 1 / len(groups)),
        contrasts=tuple(contrasts),
        selection=Selection(None, "none"),
        curves={
            (arm, seed): [1 / (1 + update) for update in range(updates)]
            for arm in arms
            if arm != "untrained"
            for seed in seeds
        },
        ledger=[],
        cost={},
        resamples=100,
    )


def _texts(axes):
    return [text.get_text() for text in axes.texts]


def _ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_same_results_give_the_same_bytes_whatever_was_drawn_before(kind):
    import matplotlib

    found = figures(_results())
    assert tuple(found) == NAMES
    before = {name: render(figure, kind) for name, figure in found.items()}
    assert {name: render(figure, kind) for name, figure in found.items()} == before
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "lines.linewidth": 9}):
        again = {name: render(figure, kind) for name, figure in figures(_results()).items()}
        assert matplotlib.rcParams["font.size"] == 30
    assert again == before
    assert not any(mark in before["result"] for mark in (b"dc:date", b"Matplotlib v", b"Software"))


def test_another_process_gives_the_same_bytes_without_pyplot():
    from matplotlib.figure import Figure

    script = (
        "import sys; from larc.reports.figures import render\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from matplotlib.figure import Figure\n"
        "figure = Figure(); figure.subplots().plot([1, 2])\n"
        "sys.stdout.buffer.write(render(figure, 'svg'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    figure = Figure()
    figure.subplots().plot([1, 2])
    assert run.stdout == render(figure, "svg")


def test_result_joins_the_trained_arms_of_each_seed_and_their_means():
    left, right = result_figure(_results()).axes
    assert _ticks(left.xaxis) == ["Static", "Adapted"]
    assert _ticks(right.yaxis)[:3] == ["Δobj", "Static G", "Static D"]
    lines = [line for line in left.lines if len(line.get_xdata()) == 2]
    assert [line.get_ydata().round(6).tolist() for line in lines if line.get_ls() == "-"] == [
        [20, 30],
        [21, 31],
        [22, 32],
    ]
    (dashed,) = [line for line in lines if line.get_ls() == "--"]
    np.testing.assert_allclose(dashed.get_ydata(), [21, 31])
    assert dashed.get_color() == "black"
    assert _texts(left)[:5] == ["20.0", "21.0", "22.0", "21.0", "30.0 (1)"]
    assert _texts(left)[-1] == "31.0 (mean)"
    spans = [segment for lines in right.collections for segment in lines.get_segments()]
    np.testing.assert_allclose(spans[0], [[-12, 0], [1, 0]])
    assert any(list(line.get_xdata()) == [0, 0] for line in right.lines)


def test_curves_show_each_update_and_the_mean_of_the_last_eight():
    (axes,) = curves_figure(_results(seeds=(1,))).axes
    raw, smooth = axes.lines[:2]
    assert len(axes.lines) == 4
    assert raw.get_alpha() < 1
    assert raw.get_color() == smooth.get_color() == LOOKS["static"][0]
    assert smooth.get_ydata()[-1] == pytest.approx(np.mean(raw.get_ydata()[-8:]))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Static", "Adapted"]
    np.testing.assert_allclose(_smoothed([2.0, 4.0]), [2, 3])


def test_groups_go_from_reset_to_kept_averaged_over_seeds():
    figure = groups_figure(_results())
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Sum", "List"]
    for axes in figure.axes:
        assert _ticks(axes.yaxis) == ["p", "q"]
        bars = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
        np.testing.assert_allclose(bars, 2 * [[51, 21], [61, 31], [71, 41]])
        assert axes.get_xlim() == figure.axes[0].get_xlim()


@pytest.mark.parametrize(
    "results",
    [
        _results(arms=("adapted",), seeds=(1,), families=("list",), updates=1),
        _results(arms=("untrained",), updates=0),
        _results(seeds=range(9), families=("a", "b", "c")),
        _results(arms=("static", "adapted", "exact", "a$b", "c_$d$", "untrained"), seeds=(1,)),
    ],
)
def test_unusual_shapes_are_drawn_inside_the_figure(results):
    for name, figure in figures(results).items():
        assert render(figure, "svg").startswith(b"<?xml")
        tight = figure.get_tightbbox().extents
        size = figure.get_size_inches()
        assert tight[0] >= -0.01, name
        assert tight[1] >= -0.01, name
        assert (tight[2:] <= size + 0.01).all(), name


def test_arms_have_fixed_and_different_looks():
    looks = _looks(("mine", "untrained", "static", "other"))
    assert looks["static"] == LOOKS["static"]
    assert len({color for color, _ in looks.values()}) == len(looks) == 6


def test_labels_are_moved_apart_and_no_further():
    assert _spread([5.0, 1.0], 1.0) == [5.0, 1.0]
    np.testing.assert_allclose(_spread([2.0, 2.0, 2.0], 1.0), [1, 2, 3])
    np.testing.assert_allclose(_spread([2.5, 9.0, 2.0], 1.5), [3, 9, 1.5])


def test_refusals_say_what_to_do(monkeypatch):
    figure = result_figure(_results())
    with pytest.raises(LarcError, match="'svg' or 'png', not 'gif'"):
        render(figure, "gif")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.style")
    with pytest.raises(LarcError, match=r"pip install larc\[studies\]"):
        result_figure(_results())
