import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from larc.stream.mixing.brier_game import RATE, outcome_losses, substitute

# The machine that runs this may be busy; a deadline would fail for that.
relaxed = settings(deadline=None, max_examples=200)
# From the corners of the simplex to its middle.
spreads = st.sampled_from([0.01, 0.1, 1.0, 30.0])


@st.composite
def games(draw):
    """Weights and predictions, some of them exactly zero."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    outcomes, predictors = draw(st.integers(2, 6)), draw(st.integers(1, 7))
    predictions = chance.dirichlet(np.full(outcomes, draw(spreads)), size=predictors)
    weights = chance.dirichlet(np.full(predictors, draw(spreads)))
    predictions[predictions < 1e-3] = 0
    weights[weights < 1e-9] = 0
    return weights / weights.sum(), predictions / predictions.sum(axis=1, keepdims=True)


def allowed_by(weights, predictions, rate=RATE):
    return -np.log(weights @ np.exp(-rate * outcome_losses(predictions))) / rate


@relaxed
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


@relaxed
@given(games(), st.floats(0.01, 1.0))
def test_a_question_that_counts_less_is_still_within_what_is_allowed(game, weight):
    weights, predictions = game
    mixed = np.array(substitute(allowed_by(weights, predictions).tolist()))
    allowed = -np.log(weights @ np.exp(-RATE * weight * outcome_losses(predictions))) / RATE
    assert (weight * outcome_losses(mixed[None])[0] <= allowed + 1e-12).all()


@relaxed
@given(games())
def test_one_predictor_is_followed_to_the_word(game):
    prediction = game[1][0]
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
