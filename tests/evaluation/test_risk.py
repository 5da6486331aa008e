import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.evaluation.risk import all_correct, expected_error, greedy_error


def test_hand_computed_row():
    policy, losses = [[0.4, 0.3, 0.2, 0.1]], [[0.0, 1.0, 0.5, 0.5]]
    np.testing.assert_allclose(expected_error(policy, losses), [0.45], rtol=1e-15)
    np.testing.assert_array_equal(greedy_error(policy, losses), [0.0])
    np.testing.assert_array_equal(all_correct(policy, losses), [1.0])


def test_the_first_candidate_wins_a_tie():
    policy = [[0.25, 0.25, 0.25, 0.25], [0.2, 0.4, 0.4, 0.0]]
    losses = [[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.0, 0.4]]
    np.testing.assert_array_equal(greedy_error(policy, losses), [0.1, 0.2])
    np.testing.assert_array_equal(all_correct(policy, losses), [0.0, 0.0])


def test_measures_can_be_subtracted():
    right = all_correct([[1.0, 0.0]], [[0.0, 1.0]])
    wrong = all_correct([[1.0, 0.0]], [[1.0, 0.0]])
    np.testing.assert_array_equal(wrong - right, [-1.0])


@pytest.mark.parametrize("measure", [expected_error, greedy_error, all_correct])
@pytest.mark.parametrize(
    ("policy", "losses", "says"),
    [
        ([[0.5, 0.5]], [[0.0, 1.0, 1.0]], "one loss per candidate"),
        ([[0.5, 0.5]], [0.0, 1.0], "1 dimensions"),
        ([[0.5, 0.5]], [[0.0, np.nan]], "not finite"),
        ([[0.5, 0.6]], [[0.0, 1.0]], "sums to 1.1"),
    ],
)
def test_refusals(measure, policy, losses, says):
    with pytest.raises(LarcError, match=says):
        measure(policy, losses)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(deadline=None)
def test_risks_lie_between_the_best_and_the_worst_candidate(seed, candidates):
    rng = np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(candidates), size=5)
    losses = rng.integers(0, 5, size=(5, candidates)) / 4
    for risk in (expected_error(policy, losses), greedy_error(policy, losses)):
        assert (risk >= losses.min(axis=1) - 1e-12).all()
        assert (risk <= losses.max(axis=1) + 1e-12).all()
    certain = np.eye(candidates)[policy.argmax(axis=1)]
    np.testing.assert_array_equal(expected_error(certain, losses), greedy_error(policy, losses))
