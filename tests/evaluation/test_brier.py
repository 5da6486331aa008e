import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.evaluation.brier import brier_success, half_brier

HEDGE4 = [0.1024, 0.1024, 0.1024]
P1M1 = [0.1839, 0.1658, 0.1927]


def test_hand_computed_losses():
    predictions = [[0.7, 0.1, 0.1, 0.1], [0.97, 0.01, 0.01, 0.01]]
    # (0.3^2 + 3 x 0.1^2) / 2, and (0.97^2 + 0.99^2 + 2 x 0.01^2) / 2.
    np.testing.assert_allclose(half_brier(predictions, [0, 1]), [0.06, 0.9606], rtol=1e-12)


def test_paper_ci_verdict():
    verdict = brier_success(HEDGE4, P1M1)
    assert not verdict.success
    assert verdict.mean == pytest.approx(-0.0784, abs=1e-4)
    assert all(gain < 0 for gain in verdict.gains)
    assert verdict.reason == "the gain is -0.0784 on average, under 0.01."


def test_paper_prefix_verdicts():
    carry, carry_tenth = [0.3577, 0.1925, 0.3400], [0.2847, 0.3384, 0.3382]
    latest_tenth = [0.2223, 0.1748, 0.2713]
    smaller = brier_success(carry, carry_tenth)
    assert not smaller.success
    assert smaller.mean == pytest.approx(-0.0237, abs=1e-4)
    np.testing.assert_allclose(smaller.gains, [0.0730, -0.1459, 0.0017], atol=1.1e-4)
    forgetting = brier_success(carry_tenth, latest_tenth)
    assert forgetting.success
    assert forgetting.mean == pytest.approx(0.0976, abs=1e-4)


def test_one_seed_can_refuse_a_good_mean():
    assert not brier_success([0.5, 0.5], [0.1, 0.5]).success
    assert brier_success([0.5, 0.5], [0.1, 0.4999]).success


def test_a_small_mean_is_no_success():
    verdict = brier_success([0.5, 0.5], [0.495, 0.495])
    assert not verdict.success
    assert min(verdict.gains) > 0


@pytest.mark.parametrize(
    ("probabilities", "labels", "says"),
    [
        ([[0.5, 0.6]], [0], "sums to 1.1"),
        ([[0.5, 0.5]], [2], "outside 0..1"),
        ([[0.5, 0.5]], [0, 1], "one label per row"),
    ],
)
def test_refused_predictions(probabilities, labels, says):
    with pytest.raises(LarcError, match=says):
        half_brier(probabilities, labels)


@pytest.mark.parametrize("path", [[0.1, 0.1], [0.1, 0.1, np.nan], 0.1])
def test_refused_losses(path):
    with pytest.raises(LarcError):
        brier_success(HEDGE4, path)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.floats(0.05, 5))
@settings(deadline=None)
def test_half_brier_is_bounded_and_proper(seed, classes, concentration):
    rng = np.random.default_rng(seed)
    truth, guess = rng.dirichlet(np.full(classes, concentration), size=2)
    labels = np.arange(classes)
    honest, other = (half_brier(np.tile(row, (classes, 1)), labels) for row in (truth, guess))
    # A normalised row may sum to one plus a rounding error.
    assert (other >= 0).all()
    assert (other <= 1 + 1e-12).all()
    # Expected over what happens, no prediction beats the true distribution; the excess is half
    # the squared distance.
    excess = 0.5 * ((truth - guess) ** 2).sum()
    assert truth @ other - truth @ honest == pytest.approx(excess, abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.permutations(range(4)))
@settings(deadline=None)
def test_half_brier_does_not_depend_on_the_order_of_classes(seed, order):
    rng = np.random.default_rng(seed)
    predictions, labels = rng.dirichlet(np.ones(4), size=6), rng.integers(0, 4, size=6)
    places = np.argsort(order)
    np.testing.assert_allclose(
        half_brier(predictions[:, order], places[labels]), half_brier(predictions, labels)
    )
