import itertools
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from larc.errors import LarcError
from larc.evaluation import bootstrap
from larc.evaluation.bootstrap import bootstrap_intervals, bootstrap_means


def _study(groups=16, columns=5, seed=0):
    values = np.random.default_rng(seed).normal(size=(groups, columns))
    return values, ["list"] * (groups // 2) + ["sum"] * (groups - groups // 2)


def test_matches_the_exact_distribution_of_two_and_two_groups():
    values, families = [0.0, 1.0, 10.0, 30.0], ["list", "list", "sum", "sum"]
    # All 2^2 x 2^2 equally likely draws, family means averaged.
    exact = Counter(
        (a + b) / 4 + (c + d) / 4
        for a, b in itertools.product(values[:2], repeat=2)
        for c, d in itertools.product(values[2:], repeat=2)
    )
    assert len(exact) == 9
    resamples = 40_000
    means = bootstrap_means(values, families, seed=7, resamples=resamples)
    counts = Counter(means[:, 0].tolist())
    assert counts.keys() == exact.keys()
    for mean, ways in exact.items():
        chance = ways / 16
        # Five standard deviations of a binomial count; the seed is fixed besides.
        slack = 5 * np.sqrt(resamples * chance * (1 - chance))
        assert abs(counts[mean] - resamples * chance) < slack
    # The two extreme draws have a chance of 1/16 each, far above the half percent in each tail.
    result = bootstrap_intervals(values, families, seed=7)
    assert (result.estimate, result.lower, result.upper) == ([10.25], [5.0], [15.5])


def test_agrees_with_scipy_on_one_family():
    values = np.random.default_rng(3).gamma(2.0, size=30)
    resamples = 100_000
    ours = bootstrap_intervals(values, ["one"] * 30, seed=1, resamples=resamples)
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        method="percentile",
        confidence_level=0.99,
        n_resamples=resamples,
        batch=10_000,
        rng=np.random.default_rng(2),
    )
    # The draws differ, so the ends agree up to Monte Carlo error: about 0.015 standard errors for
    # a half-percent quantile of 100,000 draws, 0.022 for a difference of two; four times that.
    slack = 0.09 * theirs.standard_error
    assert ours.lower[0] == pytest.approx(theirs.confidence_interval.low, abs=slack)
    assert ours.upper[0] == pytest.approx(theirs.confidence_interval.high, abs=slack)
    assert ours.estimate[0] == pytest.approx(values.mean())


def test_spread_is_that_of_stratified_draws():
    values, families = _study(columns=1)
    values[8:] += 100  # A difference between families is no variation within them.
    means = bootstrap_means(values, families, seed=0, resamples=40_000)
    variance = (values[:8].var() / 8 + values[8:].var() / 8) / 4
    assert means.std() == pytest.approx(np.sqrt(variance), rel=0.02)


def test_families_weigh_equally_whatever_their_size():
    result = bootstrap_intervals([0.0, 0.0, 0.0, 1.0], ["list"] * 3 + ["sum"], seed=0)
    # A family of one group, and another without variation: nothing varies.
    assert (result.lower, result.estimate, result.upper) == ([0.5], [0.5], [0.5])


def test_columns_are_resampled_together():
    values, families = _study(columns=1)
    paired = np.hstack([values, values + 0.3, -values])
    means = bootstrap_means(paired, families, seed=0, resamples=200)
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 0.3)
    np.testing.assert_allclose(means[:, 2], -means[:, 0], atol=1e-15)


def test_calls_with_one_seed_stay_paired():
    values, families = _study(columns=2)
    together = bootstrap_means(values, families, seed=5, resamples=50)
    apart = [bootstrap_means(column, families, seed=5, resamples=50) for column in values.T]
    np.testing.assert_allclose(together, np.hstack(apart), atol=1e-14)


def test_interleaved_families_draw_from_their_own_groups():
    values, families = [0.0, 10.0, 1.0, 30.0], ["list", "sum", "list", "sum"]
    sorted_values, sorted_families = [0.0, 1.0, 10.0, 30.0], ["list", "list", "sum", "sum"]
    np.testing.assert_array_equal(
        bootstrap_means(values, families, seed=0),
        bootstrap_means(sorted_values, sorted_families, seed=0),
    )


def test_blocks_change_nothing(monkeypatch):
    values, families = _study(columns=11)
    whole = bootstrap_intervals(values, families, seed=0, resamples=500)
    monkeypatch.setattr(bootstrap, "_BLOCK", 2_000)
    # Now four columns at a time, and 125 resamples at a time.
    blocks = bootstrap_intervals(values, families, seed=0, resamples=500)
    np.testing.assert_array_equal(blocks.lower, whole.lower)
    np.testing.assert_array_equal(blocks.upper, whole.upper)


def test_a_whole_study_takes_well_under_two_seconds():
    values, families = _study(columns=50)
    start = time.process_time()
    bootstrap_intervals(values, families, seed=0)
    assert time.process_time() - start < 2


def test_seed_decides_the_draws():
    values, families = _study()
    first, again, other = (bootstrap_means(values, families, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("values", "families", "options", "says"),
    [
        ([1.0, np.nan], ["a", "a"], {}, "not finite"),
        ([1.0, 2.0], ["a"], {}, "1 families were given for 2 groups"),
        ([[[1.0]]], ["a"], {}, "3 dimensions"),
        ([1.0, 2.0], ["a", "a"], {"resamples": 0}, "at least one"),
        ([1.0, 2.0], ["a", "a"], {"level": 99}, "between 0 and 1"),
    ],
)
def test_refusals(values, families, options, says):
    with pytest.raises(LarcError, match=says):
        bootstrap_intervals(values, families, seed=0, **options)


@given(st.integers(0, 2**32 - 1), st.permutations(range(5)))
@settings(deadline=None, max_examples=25)
def test_column_order_does_not_matter(seed, order):
    values, families = _study(seed=seed)
    straight = bootstrap_intervals(values, families, seed=seed, resamples=200)
    permuted = bootstrap_intervals(values[:, order], families, seed=seed, resamples=200)
    for name in ("estimate", "lower", "upper"):
        np.testing.assert_array_equal(getattr(permuted, name), getattr(straight, name)[order])


@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(0.1, 3))
@settings(deadline=None, max_examples=25)
def test_intervals_move_and_stretch_with_the_values(seed, shift, scale):
    values, families = _study(groups=6, seed=seed)
    plain = bootstrap_intervals(values, families, seed=0, resamples=200)
    moved = bootstrap_intervals(scale * values + shift, families, seed=0, resamples=200)
    assert (plain.lower <= plain.upper).all()
    for name in ("estimate", "lower", "upper"):
        np.testing.assert_allclose(
            getattr(moved, name), scale * getattr(plain, name) + shift, atol=1e-12
        )
