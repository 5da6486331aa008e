import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.errors import LarcError
from larc.evaluation.weights import (
    group_means,
    group_weights,
    nested_mean,
    nested_weights,
    restrict_weights,
    weighted_mean,
)

# (family, group) of each row: small alphabets, so that groups repeat and family sizes differ.
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=30)


def test_hand_computed_weights():
    families = ["sum", "sum", "sum", "list", "list", "list"]
    groups = [(1, 2), (1, 2), (3, 4), (1, 2), (1, 2), (1, 2)]
    # sum: two groups of 1/4, the first split over two rows; list: one group of 1/2 over three.
    expected = [1 / 8, 1 / 8, 1 / 4, 1 / 6, 1 / 6, 1 / 6]
    np.testing.assert_allclose(group_weights(families, groups), expected, rtol=1e-15)


def test_three_levels():
    weights = nested_weights(["x", "x", "x", "y"], ["a", "a", "b", "a"], [1, 2, 3, 1])
    np.testing.assert_array_equal(weights, [0.125, 0.125, 0.25, 0.5])


def test_a_level_with_one_row_per_node_changes_nothing():
    repositories, commits = ["x", "y", "y", "y"], ["a", "a", "b", "b"]
    np.testing.assert_array_equal(
        nested_weights(repositories, commits), nested_weights(repositories, commits, range(4))
    )


def test_numpy_arrays_and_lists_name_the_same_groups():
    families, groups = ["a", "b", "a"], [1, 1, 2]
    np.testing.assert_array_equal(
        group_weights(np.array(families), np.array(groups)), group_weights(families, groups)
    )


def _ci_queue():
    """Build the paper's audit queue: one commit of 83 jobs, and 71 commits sharing 3,238 jobs."""
    repositories = np.repeat(["numpy", "pandas"], [83, 3238])
    commits = np.concatenate([np.zeros(83, dtype=int), 1 + np.arange(3238) ** 2 % 71])
    # Squares leave out some remainders; the first 71 jobs make sure every commit has a job.
    commits[83 : 83 + 71] = np.arange(1, 72)
    return repositories, commits


def test_paper_commit_weights():
    repositories, commits = _ci_queue()
    weights = nested_weights(repositories, commits)
    numpy_commit = weights[commits == 0].sum()
    pandas_commits = [weights[commits == commit].sum() for commit in range(1, 72)]
    assert numpy_commit == pytest.approx(1 / 2)
    np.testing.assert_allclose(pandas_commits, 1 / 142)
    assert numpy_commit / pandas_commits[0] == pytest.approx(71)


@pytest.mark.parametrize(
    ("numpy_loss", "pandas_loss", "by_repository", "by_commit"),
    [
        (0.0300, 0.2248, 0.1274, 0.2221),  # reset
        (0.0273, 0.3343, 0.1808, 0.3300),  # keep
        (0.2656, 0.3954, 0.3305, 0.3936),  # permuted
        (0.0277, 0.1772, 0.1024, 0.1751),  # HEDGE4
    ],
)
def test_paper_weighting_sensitivity(numpy_loss, pandas_loss, by_repository, by_commit):
    repositories, commits = _ci_queue()
    # The published per-repository losses weigh commits equally: any jobs with that mean will do.
    losses = np.where(repositories == "numpy", numpy_loss, pandas_loss)
    # Both inputs are rounded at 5e-5, and so is the result.
    assert nested_weights(repositories, commits) @ losses == pytest.approx(by_repository, abs=1e-4)
    assert nested_weights(commits) @ losses == pytest.approx(by_commit, abs=1e-4)


def test_paper_job_weighting():
    # Reset: NumPy's successes, then pandas' success, failure, cancelled and other.
    losses = np.repeat([0.0300, 0.0401, 0.9386, 0.8475, 0.2692], [83, 2310, 32, 704, 192])
    assert nested_weights(range(len(losses))) @ losses == pytest.approx(0.2329, abs=1e-4)


def test_restriction_keeps_each_outer_total():
    repositories = ["x"] * 2 + ["y"] * 4
    weights = nested_weights(repositories, ["a", "a", "b", "b", "c", "c"])
    kept = np.array([True, True, True, True, True, False])
    restricted = restrict_weights(weights, kept, within=repositories)
    # y: full-queue weights 1/8 each, three of four kept, scaled back to a half.
    np.testing.assert_allclose(restricted, [1 / 4, 1 / 4, 1 / 6, 1 / 6, 1 / 6, 0], rtol=1e-15)
    # Weighing the prefix afresh would give commit c as much as commit b: another measure.
    assert restricted[4] < nested_weights(["x"] * 2 + ["y"] * 3, list("aabbc"))[4]


def test_restriction_without_a_level_keeps_the_overall_total():
    restricted = restrict_weights([0.5, 0.25, 0.25], [True, True, False])
    np.testing.assert_allclose(restricted, [2 / 3, 1 / 3, 0], rtol=1e-15)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.5, 0.5], [True, False], ["x", "y"]), "within 'y'"),
        (([0.5, 0.5], [0, 1], ["x", "y"]), "booleans"),
        (([0.5, 0.5], [True], ["x"]), "one weight per row"),
        (([0.5, 0.5], [True, True], ["x"]), "one label per row"),
    ],
)
def test_refused_restrictions(arguments, says):
    with pytest.raises(LarcError, match=says):
        restrict_weights(*arguments)


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ([], "no level"),
        ([[]], "no row"),
        ([["a", "b"], ["c"]], "1 labels were given for 2 rows"),
        ([[["a"], ["b"]]], "cannot name a group"),
        ([[1.0, float("nan")]], "not a number"),
    ],
)
def test_refused_levels(levels, says):
    with pytest.raises(LarcError, match=says):
        nested_weights(*levels)


@pytest.mark.parametrize(
    ("values", "groups", "says"),
    [
        ([1.0, np.nan], [1, 2], "not finite"),
        ([1.0, 2.0, 3.0], [1, 2], "one label per row"),
        (1.0, [1, 2], "0 dimensions"),
    ],
)
def test_refused_group_means(values, groups, says):
    with pytest.raises(LarcError, match=says):
        group_means(values, ["a", "a"], groups)


@given(ROWS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_weights_sum_to_one_and_follow_their_rows(rows, random):
    weights = group_weights(*zip(*rows, strict=True))
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = group_weights(*zip(*[rows[index] for index in order], strict=True))
    np.testing.assert_array_equal(shuffled, weights[order])


@given(ROWS, st.data())
@settings(deadline=None)
def test_a_duplicated_row_moves_no_group(rows, data):
    copied = data.draw(st.sampled_from(rows))
    number = {row: index for index, row in enumerate(dict.fromkeys(rows))}

    def mean(rows):
        return group_weights(*zip(*rows, strict=True)) @ [number[row] for row in rows]

    assert mean([*rows, copied]) == pytest.approx(mean(rows))


@given(ROWS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_group_means_average_to_the_weighted_mean_whatever_the_row_order(rows, random):
    families, groups = zip(*rows, strict=True)
    values = np.array([[random.uniform(0, 1), random.uniform(0, 1)] for _ in rows])
    means = group_means(values, families, groups)
    assert len(set(zip(means.families, means.groups, strict=True))) == len(means.values)
    np.testing.assert_allclose(
        nested_weights(means.families) @ means.values, group_weights(families, groups) @ values
    )
    order = list(range(len(rows)))
    random.shuffle(order)
    again = group_means(values[order], [families[i] for i in order], [groups[i] for i in order])
    assert (again.families, again.groups) == (means.families, means.groups)
    np.testing.assert_allclose(again.values, means.values)


@given(ROWS, st.data())
@settings(deadline=None)
def test_restriction_properties(rows, data):
    families, groups = zip(*rows, strict=True)
    weights = group_weights(families, groups)
    np.testing.assert_allclose(restrict_weights(weights, [True] * len(rows), families), weights)
    keep = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    for family in set(families):
        keep[families.index(family)] = True
    restricted = restrict_weights(weights, keep, families)
    assert (restricted[~np.array(keep)] == 0).all()
    for family in set(families):
        here = np.array(families) == family
        assert restricted[here].sum() == pytest.approx(weights[here].sum())


def test_a_nested_mean_is_the_mean_with_nested_weights_in_any_order():
    stream = np.random.default_rng(4)
    rows = 300
    values = stream.random((rows, 3))
    outer = [f"r{n}" for n in stream.integers(0, 3, rows)]
    inner = [f"c{n}" for n in stream.integers(0, 20, rows)]
    # Three hundred roundings of numbers below one.
    for levels in ((), (outer,), (outer, inner)):
        weights = nested_weights(*levels) if levels else np.full(rows, 1 / rows)
        means = nested_mean(values, *levels)
        np.testing.assert_allclose(means, weights @ values, rtol=1e-14)
        order = stream.permutation(rows)
        shuffled = [[level[index] for index in order] for level in levels]
        assert nested_mean(values[order], *shuffled).tolist() == means.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
@settings(deadline=None)
def test_a_weighted_mean_is_exact_and_has_no_order(seed, rows):
    stream = np.random.default_rng(seed)
    values = stream.random((2, rows)) * 10.0 ** stream.integers(-9, 9, rows)
    weights = nested_weights(stream.integers(0, 3, rows).tolist())
    means = weighted_mean(values, weights)
    # Each product is rounded once, and then their exact sum.
    exact = [sum(map(Fraction, (row * weights).tolist())) for row in values]
    assert means.tolist() == [float(mean) for mean in exact]
    order = stream.permutation(rows)
    assert weighted_mean(values[:, order], weights[order]).tolist() == means.tolist()
    assert float(weighted_mean(values[0], weights)) == means[0]


PRODUCTS = {"dot", "vdot", "matmul", "einsum", "inner", "tensordot", "linalg", "cov", "corrcoef"}
ROOT = Path(larc.__file__).parents[1]


@pytest.mark.parametrize("room", ["larc/evaluation", "larc/reports", "website"])
def test_no_figure_of_a_report_is_a_product_of_matrices(room):
    for path in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.MatMult), path.name
            assert getattr(node, "attr", "") not in PRODUCTS, path.name


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([[1.0], [2.0]], [0.5, 0.5], "2 weights were given for 1 rows"),
        ([1.0, 2.0, 3.0], [1.0], "1 weights were given for 3 rows"),
        ([1.0, np.inf], [0.5, 0.5], "the array of values holds a value that is not finite"),
    ],
)
def test_a_weighted_mean_needs_a_weight_for_each_value(values, weights, message):
    with pytest.raises(LarcError, match=message):
        weighted_mean(values, weights)


def test_a_nested_mean_needs_rows_and_a_label_for_each():
    with pytest.raises(LarcError, match="is empty; give at least one"):
        nested_mean(np.empty((0, 2)))
    with pytest.raises(LarcError, match="1 labels were given for 2 rows"):
        nested_mean([[1.0], [2.0]], ["a"])
