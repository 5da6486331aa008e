import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.evaluation.calibration import expected_calibration_error, reliability


def _binary(confidences):
    return np.stack([confidences, 1 - np.asarray(confidences)], axis=1)


def test_hand_computed_diagram():
    result = reliability(_binary([0.95, 0.95, 0.75, 0.65]), [0, 1, 0, 1], bins=10)
    np.testing.assert_allclose(result.weight[[6, 7, 9]], [0.25, 0.25, 0.5])
    assert result.weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(result.predicted[[6, 7, 9]], [0.65, 0.75, 0.95])
    np.testing.assert_allclose(result.observed[[6, 7, 9]], [0.0, 1.0, 0.5])
    assert np.isnan(result.predicted[[0, 8]]).all()
    # 1/4 of 0.65, 1/4 of 0.25 and 1/2 of 0.45.
    assert expected_calibration_error(result) == pytest.approx(0.45)


def test_a_bin_holds_its_upper_edge():
    # Zero, one, some tenths as they are written, and the number just above one of them.
    probabilities = np.array([0.0, 0.1, 0.3, np.nextafter(0.3, 1), 0.6, 0.7, 1.0])
    result = reliability(_binary(probabilities), [1] * 7, of_class=0)
    assert result.edges[3] == 0.3
    np.testing.assert_allclose(result.weight * 7, [2, 0, 1, 1, 0, 1, 1, 0, 0, 1])


def test_weights_count_instead_of_rows():
    predictions, labels = _binary([0.9, 0.9, 0.6]), [0, 1, 0]
    doubled = reliability(np.vstack([predictions, predictions[:1]]), [*labels, 0])
    weighted = reliability(predictions, labels, weights=[2, 1, 1])
    np.testing.assert_allclose(weighted.weight, doubled.weight)
    np.testing.assert_allclose(weighted.observed, doubled.observed)


def test_rows_without_weight_leave_their_bin_empty():
    result = reliability(_binary([0.9, 0.6]), [0, 1], weights=[1, 0])
    assert np.isnan(result.observed[5])
    assert result.count.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 1, 0]
    assert expected_calibration_error(result) == pytest.approx(0.1)


def test_one_class_against_the_rest():
    predictions = [[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.4, 0.3, 0.3], [0.7, 0.3, 0.0]]
    result = reliability(predictions, [1, 0, 0, 2], of_class=1)
    assert result.weight[2] == 1
    assert result.predicted[2] == pytest.approx(0.3)
    assert result.observed[2] == 0.25


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bins": 0}, "at least one"),
        ({"of_class": 2}, "outside 0..1"),
        ({"weights": [1.0]}, "one weight per row"),
    ],
)
def test_refusals(options, says):
    with pytest.raises(LarcError, match=says):
        reliability(_binary([0.9, 0.6]), [0, 1], **options)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
@settings(deadline=None)
def test_error_is_bounded_and_finer_bins_never_lower_it(seed, bins):
    rng = np.random.default_rng(seed)
    predictions, labels = rng.dirichlet(np.ones(3), size=40), rng.integers(0, 3, size=40)
    weights = rng.dirichlet(np.ones(40))

    def error(bins, order=slice(None)):
        return expected_calibration_error(
            reliability(predictions[order], labels[order], weights=weights[order], bins=bins)
        )

    assert 0 <= error(bins) <= 1
    # Halving every bin can only reveal gaps that cancelled within it.
    assert error(2 * bins) >= error(bins) - 1e-12
    assert error(bins, order=rng.permutation(40)) == pytest.approx(error(bins))


@given(st.integers(1, 9), st.integers(1, 9))
@settings(deadline=None)
def test_predicting_the_frequency_is_calibrated(zeros, ones):
    labels = [0] * zeros + [1] * ones
    share = zeros / (zeros + ones)
    result = reliability(_binary([share] * len(labels)), labels)
    assert expected_calibration_error(result) == pytest.approx(0, abs=1e-12)
