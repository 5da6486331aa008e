import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.residual import Factors, apply_residual, initial_factors


@given(rank=st.integers(1, 9), width=st.integers(1, 40), seed=st.integers(0, 2**63))
@settings(max_examples=30, deadline=None)
def test_identity_start_leaves_activations_alone_bit_for_bit(rank, width, seed):
    factors = initial_factors(width, rank, seed)
    hidden = torch.randn(2, 3, width, generator=torch.Generator().manual_seed(seed % 2**32))
    for dtype in (torch.float32, torch.bfloat16):
        assert torch.equal(apply_residual(hidden.to(dtype), factors), hidden.to(dtype))


def test_initial_deviation_is_two_hundredths():
    A = initial_factors(width=1536, rank=64, seed=3).A
    # 98,304 draws: the sample deviation is within 1 % of 0.02 except with negligible probability.
    assert float(A.std()) == pytest.approx(0.02, rel=0.01)
    assert abs(float(A.mean())) < 3e-4


def test_each_row_of_a_stack_gets_its_own_factors():
    stream = np.random.default_rng(0)
    draw = lambda *shape: torch.from_numpy(stream.standard_normal(shape, dtype=np.float32))  # noqa: E731 (three uses on this page)
    episodes = [Factors(draw(3, 8), draw(8, 3)) for _ in range(4)]
    hidden = draw(4, 5, 8)
    together = apply_residual(hidden, Factors.stack(episodes))
    for row, factors in enumerate(episodes):
        by_hand = hidden[row] + (factors.B @ factors.A @ hidden[row].T).T
        # Float32 sums of eight products in two orders: a few units in the last place.
        torch.testing.assert_close(together[row], by_hand, atol=1e-5, rtol=1e-5)


def test_bfloat16_activations_are_rounded_once():
    factors = Factors(torch.full((1, 4), 0.1), torch.full((4, 1), 0.0101))
    hidden = torch.ones(1, 4, dtype=torch.bfloat16)
    # The correction is 0.00404. Added in float32 it rounds up to the next bfloat16 after one,
    # 1.0078125; rounded by itself first, to 0.004028, it would as well, but twice it would not.
    expected = (torch.ones(1, 4) + 0.4 * 0.0101).to(torch.bfloat16)
    assert float(expected[0, 0]) == 1.0078125
    assert torch.equal(apply_residual(hidden, factors), expected)
    barely = Factors(torch.full((1, 4), 0.1), torch.full((4, 1), 0.009766))
    # 0.0039064 is just past half a step and 0.00390625 is not: the sum must see the float32.
    assert float(apply_residual(hidden, barely)[0, 0]) == 1.0078125


def test_the_residual_is_tokenwise():
    factors = Factors(torch.randn(2, 6), torch.randn(6, 2))
    hidden = torch.randn(1, 7, 6)
    order = torch.randperm(7)
    torch.testing.assert_close(
        apply_residual(hidden[:, order], factors), apply_residual(hidden, factors)[:, order]
    )


def test_factors_refuse_shapes_and_types_that_do_not_fit():
    with pytest.raises(LarcError, match="do not belong together"):
        Factors(torch.zeros(2, 8), torch.zeros(8, 3))
    with pytest.raises(LarcError, match="float32"):
        Factors(torch.zeros(2, 8, dtype=torch.float64), torch.zeros(8, 2, dtype=torch.float64))
    with pytest.raises(LarcError, match="rank of a residual is 0"):
        initial_factors(8, 0, seed=1)


def test_copies_own_their_storage():
    factors = initial_factors(8, 2, seed=1)
    copy = factors.copy()
    copy.A.add_(1)
    assert not copy.equal(factors)
    assert factors.equal(initial_factors(8, 2, seed=1))
