"""The report of a continuous-integration run, on predictions whose scores are known."""

from dataclasses import replace

import numpy as np
import pytest

from larc.domains.ci.experts import CHOICE, EXPERTS
from larc.evaluation import (
    bootstrap_intervals,
    brier_success,
    expected_calibration_error,
    half_brier,
    nested_weights,
)
from larc.io.parquet import to_parquet
from larc.reporting import figures as drawing
from larc.runs.run import Run
from larc.studies.ci.figures import POINTS, figures
from larc.studies.ci.report import answer, notes, success, tables
from larc.studies.ci.results import DRAWS, PATHS, CIResults, contrasts, path_bins


def policy(right, labels):
    """Return predictions that give the right label some probability, the others equal parts."""
    probabilities = np.repeat((1 - np.asarray(right))[:, None] / 3, 4, axis=1)
    probabilities[np.arange(len(labels)), labels] = right
    return probabilities


def results(right, *, seeds=(11, 12), jobs=None, synthetic=False, paths=PATHS):
    """Return results whose path ``p`` gives each job's label the probability ``right[p]``.

    A probability may differ by seed: ``right[p]`` is then one of each, or one of each per job.
    """
    jobs = jobs or [("a/a", "1", 0), ("a/a", "1", 1), ("a/a", "2", 0), ("b/b", "1", 3)]
    labels = np.array([label for _, _, label in jobs])
    names = tuple(f"{number:020d}" for number in range(len(jobs)))
    policies = {}
    for path in (*paths, *EXPERTS):
        probability = np.asarray(right.get(path, 0.25), dtype=float)
        probability = probability[:, None] if probability.ndim == 1 else probability
        by_seed = np.broadcast_to(probability, (len(seeds), len(jobs)))
        policies[path] = np.stack([policy(one, labels) for one in by_seed])
    loss = {
        path: np.stack([half_brier(one, labels) for one in predicted])
        for path, predicted in policies.items()
    }
    repositories, commits = (tuple(job[index] for job in jobs) for index in (0, 1))
    primary = nested_weights(repositories, commits, names)
    verdict = brier_success(loss["HEDGE4"] @ primary, loss["P1M1"] @ primary)
    asked = np.arange(len(jobs))
    return CIResults(
        seeds, repositories, commits, names, asked, labels, loss, policies, verdict, synthetic
    )


def loss_of(right):
    """Half-Brier of a prediction that spreads the rest evenly."""
    return 0.5 * ((1 - right) ** 2 + 3 * ((1 - right) / 3) ** 2)


@pytest.fixture
def run(tmp_path):
    run = Run.start(tmp_path / "run", "ci", {"seeds": [11, 12], "synthetic": 0})
    updates = [{"time": 1, "path": "P1M1", "loss": loss, "distance": 0.5} for loss in (1.0, 2.0)]
    run.finish_unit("audit-11-a_a", {"updates.parquet": to_parquet(updates)})
    return run


@pytest.fixture(autouse=True)
def written(run):
    """What was predicted is on record; a test may record something before it."""
    run.recorded_units = lambda event, field: ["audit-11-a_a"]


def named(items):
    return {one.name: one for one in items}


def test_the_tables_are_those_of_the_paper(run):
    # The second job of a/a's first commit is predicted worse.
    keep = np.array([[0.9, 0.5, 0.9, 0.7], [0.8, 0.4, 0.8, 0.6]])
    outcome = results({"P1M1": keep, "P0M1": 0.6, "PERM_M1": 0.3, "HEDGE4": 0.8})
    shown = named(tables(outcome, run))
    assert list(shown) == [
        *("queue", "replay", "effects", "commits", "strata", "weightings", "calibration"),
        *("reliability", "updates"),
    ]
    assert shown["replay"].columns == ("Path", "11", "12", "Mean", "Seed SD")
    rows = {row[0]: row[1:] for row in shown["replay"].rows}
    assert list(rows) == [*PATHS, *EXPERTS]
    a, b, c, d = loss_of(keep).T  # by job, each with its two seeds
    by_seed = ((a + b) / 2 + c) / 4 + d / 2
    assert rows["P1M1"] == pytest.approx([*by_seed, by_seed.mean(), by_seed.std(ddof=1)])
    assert rows["HEDGE4"] == pytest.approx([loss_of(0.8)] * 3 + [0], abs=1e-12)

    strata = {(row[0], row[1]): row[2:] for row in shown["strata"].rows}
    assert list(strata) == [
        *(("a/a", name) for name in ("All", "Success", "Failure")),
        *(("b/b", name) for name in ("All", "Other")),
    ]
    expected = [loss_of(0.6), ((a + b) / 4 + c / 2).mean(), loss_of(0.3), loss_of(0.8)]
    assert strata["a/a", "All"] == pytest.approx([3, 2, *expected])
    # Labels weigh jobs equally.
    expected[1] = ((a + c) / 2).mean()
    assert strata["a/a", "Success"] == pytest.approx([2, 2, *expected])

    ways = {row[0]: row[1:] for row in shown["weightings"].rows}
    keeps = [ways[way][1] for way in ways]
    commits, jobs = (((a + b) / 2 + c + d) / 3).mean(), ((a + b + c + d) / 4).mean()
    assert keeps == pytest.approx([by_seed.mean(), commits, jobs])
    assert [row[1:] for row in shown["updates"].rows] == [[2, 1.5, 0.5, 0.5]]


def test_the_effects_are_differences_of_losses_by_seed(run):
    right = {"P0M0": 0.5, "P1M0": (0.6, 0.4), "P0M1": 0.7, "P1M1": (0.8, 0.3), "PERM_M1": 0.2}
    outcome = results(right | {"HEDGE4": 0.9})
    effects = {row[0]: row[1:3] for row in named(tables(outcome, run))["effects"].rows}
    loss = {name: loss_of(np.broadcast_to(probability, 2)) for name, probability in right.items()}
    kept, plain = loss["P0M1"] - loss["P1M1"], loss["P0M0"] - loss["P1M0"]
    assert effects["G: reset minus keep, with memory"] == pytest.approx(list(kept))
    assert effects["G: reset minus keep, without memory"] == pytest.approx(list(plain))
    assert effects["D: permuted minus real"] == pytest.approx(list(loss["PERM_M1"] - loss["P1M1"]))
    assert effects["Memory at reset"] == pytest.approx(list(loss["P0M0"] - loss["P0M1"]))
    assert effects["Memory when kept"] == pytest.approx(list(loss["P1M0"] - loss["P1M1"]))
    assert effects["Policy by memory"] == pytest.approx(list(kept - plain))
    assert effects["HEDGE4 minus P1M1"] == pytest.approx(list(loss_of(0.9) - loss["P1M1"]))
    assert "raised half-Brier loss" in answer(outcome)


def test_intervals_are_over_commits_within_their_repository(run):
    keep = np.array([[0.9, 0.5, 0.9, 0.7], [0.8, 0.4, 0.8, 0.6]])
    outcome = results({"P1M1": keep, "P0M1": 0.6})
    rows = {row[0]: row[1:] for row in named(tables(outcome, run))["commits"].rows}
    a, b, c, d = (loss_of(0.6) - loss_of(keep)).mean(0)
    # The jobs of a commit first, then the commits of a repository, then the two repositories.
    mean, told = rows["G: reset minus keep, with memory"]
    assert mean == pytest.approx((((a + b) / 2 + c) / 2 + d) / 2)
    assert told == "none: too few commits"  # there are three
    assert not any("through the window" in name for name in rows)
    many = replace(
        outcome,
        repositories=("a/a", "a/a", "b/b", "b/b"),
        commits=tuple("1234"),
    )
    told = named(tables(many, run))["commits"].rows[0][2]
    expected = bootstrap_intervals([a, b, c, d], ["a", "a", "b", "b"], seed=DRAWS)
    ends = [float(end) for end in told.strip("[]").replace("−", "-").split(", ")]
    assert ends == pytest.approx([expected.lower[0], expected.upper[0]], abs=1e-4)


def test_the_queue_is_told_with_what_was_left_out(run):
    outcome = results({})
    rows = named(tables(outcome, run))["queue"].rows
    # A run of before the queue was recorded knows what it predicted, not what it was trained on.
    assert rows == [["a/a", None, None, 3, 2, 2, 1, 0, 0], ["b/b", None, None, 1, 1, 0, 0, 0, 1]]
    trained = {"a/a": {"training": {"jobs": 9, "commits": 4}}, "c/c": {"training": {"jobs": 1}}}
    shared = {"jobs": 7, "commits": 2}
    run.record("questions read", {"counts": {"repositories": trained, "shared": shared}})
    queue = named(tables(outcome, run))["queue"]
    assert [row[:5] for row in queue.rows] == [
        ["a/a", 9, 4, 3, 2],
        ["b/b", None, None, 1, 1],
        ["c/c", 1, None, 0, 0],
    ]
    assert "7 jobs of 2 commits that were in both windows are in neither" in queue.caption


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [((0.9, 0.85), "It is met"), ((0.99, 0.7), "It is not met"), ((0.801, 0.802), "not met")],
)
def test_the_rule_for_success_is_said_with_its_outcome(keep, sentence):
    outcome = results({"P1M1": keep, "HEDGE4": 0.8})
    assert sentence in success(outcome)
    assert success(outcome) in notes(outcome)
    assert outcome.verdict.reason in success(outcome)


def test_what_is_not_blind_and_what_is_not_the_papers_is_said(run):
    outcome = results({})
    shown = named(tables(outcome, run))
    assert CHOICE in notes(outcome)
    assert CHOICE in shown["replay"].caption
    assert any("not the queue of the paper" in note for note in notes(outcome))
    made_up = results({}, synthetic=True)
    assert any("made up" in note for note in notes(made_up))
    assert "a synthetic queue" in named(tables(made_up, run))["replay"].caption


def test_the_result_shows_every_path_and_effect_by_seed_and_on_average():
    outcome = results({"P1M1": (0.9, 0.5), "HEDGE4": 0.8})
    paths, effects = named(figures(outcome))["result"].panels
    assert paths.rows == list(PATHS)
    assert paths.reference == pytest.approx(loss_of(0.8))
    keep = {v.series: v.value for v in paths.values if v.row == "P1M1"}
    by_seed = outcome.scores("P1M1")
    assert keep == pytest.approx({"11": by_seed[0], "12": by_seed[1], "mean": by_seed.mean()})
    assert effects.reference == 0
    assert effects.rows == list(contrasts(outcome.path_scores))
    gain = {v.series: v.value for v in effects.values if v.row == "HEDGE4 − P1M1"}
    assert gain == pytest.approx(
        {"11": outcome.verdict.gains[0], "12": outcome.verdict.gains[1]}
        | {"mean": outcome.verdict.mean}
    )
    (alone,) = [
        value
        for value in named(figures(results({}, seeds=(11,))))["result"].panels[0].values
        if value.row == "P1M1"
    ]
    assert (alone.series, alone.value) == ("", 0.375)


def test_further_paths_are_shown_wherever_all_are(run):
    outcome = results({"TENTH_M1": 0.7}, paths=(*PATHS[:-1], "TENTH_M1", "HEDGE4"))
    shown = named(tables(outcome, run))
    for name in ("replay", "calibration", "reliability"):
        assert "TENTH_M1" in [row[0] for row in shown[name].rows]
    drawn = named(figures(outcome))
    assert drawn["result"].panels[0].rows[-2:] == ["TENTH_M1", "HEDGE4"]
    assert len(drawn["reliability"].panels) == len(PATHS) + 1


def test_loss_over_time_ends_at_the_difference_of_the_strata(run):
    stream = np.random.default_rng(5)
    jobs = [
        ("a/a" if number % 3 else "b/b", str(number // 7), int(stream.integers(4)))
        for number in range(900)
    ]
    right = {path: stream.random((2, len(jobs))) for path in PATHS}
    outcome = results(right, jobs=jobs)
    strata = {
        row[0]: row[4:] for row in named(tables(outcome, run))["strata"].rows if row[1] == "All"
    }
    panels = named(figures(outcome))["over-time"].panels
    assert [panel.title for panel in panels] == ["a/a", "b/b"]
    for panel in panels:
        reset, keep, permuted, hedge = strata[panel.title]
        ends = {line.series: line.y[-1] for line in panel.lines if not line.faint}
        assert ends == pytest.approx(
            {
                "Reset": reset - hedge,
                "Keep": keep - hedge,
                "Permuted": permuted - hedge,
                "HEDGE4": 0,
            }
        )
        keep_lines = [line for line in panel.lines if line.series == "Keep"]
        assert [line.note for line in keep_lines if line.faint] == ["11", "12"]
        inside = [job for job in jobs if job[0] == panel.title]
        assert (keep_lines[-1].x[0], keep_lines[-1].y[0], keep_lines[-1].x[-1]) == (
            0,
            0.0,
            len(inside),
        )
        assert len(keep_lines[-1].x) == min(len(inside), POINTS) + 1


def test_jobs_of_one_second_are_one_place():
    outcome = results({"P1M1": 0.9, "HEDGE4": 0.8})
    outcome.asked[:] = [5, 5, 2, 0]
    first = named(figures(outcome))["over-time"].panels[0]
    keep = next(line for line in first.lines if line.series == "Keep" and not line.faint)
    # The one of the second commit, which weighs a half, then both of the first.
    more = loss_of(0.9) - loss_of(0.8)
    assert keep.x == [0, 1, 3]
    assert keep.y == pytest.approx([0, more / 2, more])


def test_each_path_has_a_reliability_diagram_with_its_error_and_counts(run):
    outcome = results({"P1M1": (0.95, 0.75), "HEDGE4": 0.55})
    figure = named(figures(outcome))["reliability"]
    bins = path_bins(outcome)
    for panel, path in zip(figure.panels, PATHS, strict=True):
        assert panel.title == f"{path}, ECE {expected_calibration_error(bins[path]):.3f}"
        assert panel.square
    (keep,) = figure.panels[PATHS.index("P1M1")].lines
    assert keep.x == pytest.approx([0.75, 0.95])
    assert keep.y == [1, 1]
    assert keep.counts == [4, 4]
    rows = [row for row in named(tables(outcome, run))["reliability"].rows if row[0] == "P1M1"]
    assert [row[1:3] for row in rows] == [["0.7 to 0.8", 4], ["0.9 to 1.0", 4]]
    assert np.array([row[3:] for row in rows]) == pytest.approx(
        np.array([[0.5, 0.75, 1], [0.5, 0.95, 1]])
    )


def test_the_figures_are_drawn_inside_and_are_the_same_each_time():
    outcome = results({"P1M1": (0.9, 0.8), "PERM_M1": 0.1})
    assert figures(outcome) == figures(outcome)
    drawn = {figure.name: drawing.draw(figure) for figure in figures(outcome)}
    for name, one in drawn.items():
        tight, size = one.get_tightbbox().extents, one.get_size_inches()
        assert (tight[:2] >= -0.01).all(), name
        assert (tight[2:] <= size + 0.01).all(), name
    keep = drawn["reliability"].axes[PATHS.index("P1M1")]
    assert [text.get_text() for text in keep.texts] == ["4", "4"]
