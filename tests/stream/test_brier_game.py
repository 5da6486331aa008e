import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from larc.stream.brier_game import RATE, outcome_losses, substitute

masses = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))


@st.composite
def games(draw):
    outcomes = draw(st.integers(2, 6))
    predictors = draw(st.integers(1, 7))
    rows = draw(
        st.lists(
            st.lists(masses, min_size=outcomes, max_size=outcomes).filter(any),
            min_size=predictors,
            max_size=predictors,
        )
    )
    weights = draw(st.lists(masses, min_size=predictors, max_size=predictors).filter(any))
    predictions = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    return np.array(weights) / np.sum(weights), predictions


def allowed_by(weights, predictions, rate=RATE):
    return -np.log(weights @ np.exp(-rate * outcome_losses(predictions))) / rate


@given(games())
@example((np.array([0.5, 0.5]), np.eye(2)))
@example((np.full(6, 1 / 6), np.eye(6)))
@example((np.array([1.0]), np.array([[0.0, 1.0, 0.0]])))
def test_half_brier_is_mixable_at_rate_two(game):
    weights, predictions = game
    allowed = allowed_by(weights, predictions)
    mixed = np.array(substitute(allowed.tolist()))
    assert (mixed >= 0).all()
    assert mixed.sum() == pytest.approx(1, abs=1e-12)
    # Some outcomes are met with equality, so rounding needs room.
    assert (outcome_losses(mixed[None])[0] <= allowed + 1e-12).all()


@given(games(), st.floats(0.01, 1.0))
def test_a_question_that_counts_less_is_still_within_what_is_allowed(game, weight):
    weights, predictions = game
    mixed = np.array(substitute(allowed_by(weights, predictions).tolist()))
    allowed = -np.log(weights @ np.exp(-RATE * weight * outcome_losses(predictions))) / RATE
    assert (weight * outcome_losses(mixed[None])[0] <= allowed + 1e-12).all()


@given(st.lists(masses, min_size=2, max_size=6).filter(any))
def test_one_predictor_is_followed_to_the_word(row):
    prediction = np.array(row) / np.sum(row)
    allowed = allowed_by(np.ones(1), prediction[None])
    assert substitute(allowed.tolist()) == pytest.approx(prediction.tolist(), abs=1e-12)


def test_no_larger_rate_would_do():
    weights, predictions = np.array([0.5, 0.5]), np.array([[0.55, 0.45], [0.45, 0.55]])
    for rate, mixable in ((RATE, True), (RATE * 1.02, False)):
        allowed = allowed_by(weights, predictions, rate)
        # By symmetry the best answer is one half, and nothing else does better on both outcomes.
        assert bool((allowed + 1e-15 >= 0.25).all()) is mixable


def test_losses_are_those_of_the_measure():
    from larc.evaluation import half_brier

    chance = np.random.default_rng(1)
    predictions = chance.dirichlet(np.ones(4), size=50)
    for outcome in range(4):
        expected = half_brier(predictions, np.full(50, outcome))
        assert outcome_losses(predictions)[:, outcome] == pytest.approx(expected, abs=1e-15)
