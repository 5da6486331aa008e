import numpy as np
import pytest

from larc.errors import LarcError
from larc.evaluation.checks import (
    checked_labels,
    checked_probabilities,
    checked_weights,
    finite_array,
)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([[1.0], [1.0, 2.0]], "rows of equal length"),
        (["a"], "not an array of numbers"),
        ([1.0, np.inf], "not finite"),
        ([], "empty"),
        ([[1.0]], "give an array with 1"),
    ],
)
def test_refuses_what_is_not_a_finite_vector(values, says):
    with pytest.raises(LarcError, match=says):
        finite_array(values, "risk", ndim=1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], "row 1 .* sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], "row 1 .* negative"),
        ([[np.nan, 1.0]], "not finite"),
        ([0.5, 0.5], "1 dimensions"),
    ],
)
def test_refuses_what_is_not_a_policy(values, says):
    with pytest.raises(LarcError, match=says):
        checked_probabilities(values)


def test_accepts_a_float32_softmax():
    energies = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32) * 10
    powers = np.exp(energies - energies.max(axis=1, keepdims=True))
    policy = checked_probabilities(powers / powers.sum(axis=1, keepdims=True))
    assert policy.dtype == np.float64


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([0], "one label per row"),
        ([0.0, 1.0], "integer class indices"),
        ([0, -1], "label -1 is outside 0..3"),
        ([0, 4], "label 4 is outside 0..3"),
    ],
)
def test_refuses_what_is_not_a_class(labels, says):
    with pytest.raises(LarcError, match=says):
        checked_labels(labels, rows=2, classes=4)


@pytest.mark.parametrize("weights", [[1.0], [2.0, -1.0], [0.0, 0.0], [np.nan, 1.0]])
def test_refuses_what_cannot_weigh(weights):
    with pytest.raises(LarcError):
        checked_weights(weights, rows=2)
