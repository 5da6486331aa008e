import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.evaluation.contrasts import Cells, binding_gain, objective_gain, retention_gain

# The paper's development errors, in percent: real/keep, real/reset, sham/keep, sham/reset.
STATIC = Cells([29.30], [53.95], [57.67], [53.95])
ADAPTED = Cells([24.61], [61.26], [60.38], [61.26])


def test_paper_contrasts():
    # Cells and contrasts are rounded to two decimals separately, so they agree within 0.01 or 0.02.
    assert retention_gain(ADAPTED) == pytest.approx(36.65, abs=0.01)
    assert retention_gain(STATIC) == pytest.approx(24.65, abs=0.01)
    assert binding_gain(ADAPTED) == pytest.approx(35.77, abs=0.02)
    assert binding_gain(STATIC) == pytest.approx(28.36, abs=0.02)
    assert objective_gain(STATIC, ADAPTED) == pytest.approx(4.69, abs=0.01)


def test_paper_decomposition_of_the_two_gains():
    difference = retention_gain(ADAPTED) - retention_gain(STATIC)
    reset_difference = ADAPTED.real_reset - STATIC.real_reset
    assert difference == pytest.approx(12.00, abs=0.01)
    assert reset_difference == pytest.approx(7.31, abs=0.01)
    assert difference == pytest.approx(reset_difference + objective_gain(STATIC, ADAPTED))


def test_paper_ci_contrasts():
    # With memory: kept, reset and permuted half-Brier losses. Resets are one read with two names.
    cells = Cells([0.1808], [0.1274], [0.3305], [0.1274])
    assert retention_gain(cells) == pytest.approx(-0.0534, abs=1e-4)
    assert binding_gain(cells) == pytest.approx(0.1497, abs=1e-4)


def test_hand_computed_rows():
    cells = Cells([0.25, 0.5], [0.5, 0.5], [0.75, 0.25], [1.0, 0.5])
    np.testing.assert_array_equal(retention_gain(cells), [0.25, 0.0])
    np.testing.assert_array_equal(binding_gain(cells), [0.0, -0.25])


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (([0.1], [0.1], [0.1], [0.1, 0.2]), "differ in shape"),
        (([0.1], [np.nan], [0.1], [0.1]), "real_reset cell .* not finite"),
        (([], [], [], []), "empty"),
    ],
)
def test_refused_cells(cells, says):
    with pytest.raises(LarcError, match=says):
        Cells(*cells)


def test_objectives_are_compared_on_the_same_rows():
    with pytest.raises(LarcError, match="same rows"):
        objective_gain(STATIC, Cells(*np.zeros((4, 2))))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_mean_of_a_contrast_is_the_contrast_of_the_means(seed):
    rng = np.random.default_rng(seed)
    rows = rng.random((4, 7, 3))
    weights = rng.dirichlet(np.ones(7))
    cells, averaged = Cells(*rows), Cells(*np.einsum("r,crs->cs", weights, rows))
    for contrast in (retention_gain, binding_gain):
        np.testing.assert_allclose(weights @ contrast(cells), contrast(averaged), atol=1e-14)
