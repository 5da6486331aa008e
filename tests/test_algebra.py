"""The paper's Section 3 as laws. Matrices are float64-sized checks done in float32 factors, so
equalities hold to a few hundred units in the last place: atol 1e-4 on entries of order one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from larc import algebra
from larc.errors import LarcError
from larc.residual import Factors, apply_residual

sizes = st.tuples(st.integers(1, 4), st.integers(4, 12), st.integers(0, 10_000))


def drawn(*shapes, seed):
    stream = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=stream) for shape in shapes]


@given(sizes)
@settings(max_examples=40, deadline=None)
def test_a_residual_before_a_linear_map_is_a_lora_on_it(case):
    rank, width, seed = case
    A, B, W, h = drawn((rank, width), (width, rank), (7, width), (5, width), seed=seed)
    U, V = algebra.lora_from_residual(W, Factors(A, B))
    torch.testing.assert_close(
        apply_residual(h, Factors(A, B)) @ W.T, h @ (W + U @ V).T, atol=1e-3, rtol=1e-3
    )
    assert torch.linalg.matrix_rank(U @ V) <= rank


@given(sizes)
@settings(max_examples=40, deadline=None)
def test_with_full_row_rank_every_low_rank_correction_is_reachable(case):
    rank, width, seed = case
    rows = min(width, 4)
    U, V, W = drawn((rows, rank), (rank, width), (rows, width), seed=seed)
    W = W + 3 * torch.eye(rows, width)  # keeps the map well conditioned
    factors = algebra.residual_from_lora(W, U, V)
    torch.testing.assert_close(
        W @ algebra.correction(factors), U @ V, atol=2e-3 * float((U @ V).norm()), rtol=0
    )
    assert factors.rank == rank


def test_outside_the_image_nothing_is_reachable_and_inside_it_zeros_pad_the_rank():
    W = torch.diag(torch.tensor([1.0, 2.0, 0.0]))
    outside = torch.tensor([[0.0], [0.0], [1.0]])
    with pytest.raises(LarcError, match="outside the image"):
        algebra.residual_from_lora(W, outside, torch.ones(1, 3))
    inside = torch.tensor([[1.0], [1.0], [0.0]])
    factors = algebra.residual_from_lora(W, inside, torch.ones(1, 3), rank=3)
    assert factors.rank == 3
    torch.testing.assert_close(W @ algebra.correction(factors), inside @ torch.ones(1, 3))


@pytest.mark.parametrize("tolerance", [1e-3, 1e-4, 1e-5])
def test_a_correction_outside_the_image_is_accepted_up_to_the_stated_tolerance(tolerance):
    W = torch.diag(torch.tensor([1.0, 1.0, 0.0]))
    down = torch.ones(1, 3)
    # 2 % to either side: float32 factors add about 1e-7, a hundredth of that at 1e-5.
    for part, accepted in ((0.98, True), (1.02, False)):
        up = torch.tensor([[1.0], [0.0], [part * tolerance]])
        if accepted:
            factors = algebra.residual_from_lora(W, up, down, tolerance=tolerance)
            missing = (up @ down - W @ algebra.correction(factors)).norm()
            assert missing <= tolerance * (up @ down).norm()
        else:
            with pytest.raises(LarcError, match="outside the image"):
                algebra.residual_from_lora(W, up, down, tolerance=tolerance)


def test_a_rank_too_small_is_accepted_up_to_the_stated_tolerance():
    # Many small directions: each is below the tolerance, all together are not.
    small = 0.5e-3
    up = torch.diag(torch.tensor([1.0, *[small] * 8]))
    with pytest.raises(LarcError, match="has rank 5; ask"):
        algebra.residual_from_lora(torch.eye(9), up, torch.eye(9), rank=1, tolerance=1e-3)
    factors = algebra.residual_from_lora(torch.eye(9), up, torch.eye(9), rank=5, tolerance=1e-3)
    assert (up - algebra.correction(factors)).norm() <= 1e-3 * up.norm()


def test_a_factor_column_outside_the_image_may_be_cancelled_by_the_other_factor():
    W = torch.diag(torch.tensor([1.0, 0.0]))
    up = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    down = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    factors = algebra.residual_from_lora(W, up, down)
    torch.testing.assert_close(W @ algebra.correction(factors), up @ down)


def test_first_step_from_the_identity_matches_autograd_and_moves_B_alone():
    A, G = drawn((3, 9), (9, 9), seed=1)
    start = Factors(A, torch.zeros(9, 3))
    leaf = start.leaf()
    (G * algebra.correction(leaf)).sum().backward()
    assert torch.equal(leaf.A.grad, torch.zeros_like(A))
    after = algebra.first_step(start, G, step_size=0.1)
    assert torch.equal(after.A, A)
    torch.testing.assert_close(after.B, start.B - 0.1 * leaf.B.grad)
    torch.testing.assert_close(algebra.correction(after), -0.1 * G @ A.T @ A, atol=1e-5, rtol=1e-5)


def test_first_step_in_expectation_is_the_full_gradient_scaled():
    eta, rank, sigma, width, draws = 0.1, 4, 0.02, 5, 20_000
    (G,) = drawn((width, width), seed=2)
    stream = torch.Generator().manual_seed(3)
    A = sigma * torch.randn(draws, rank, width, generator=stream)
    start = Factors(A, torch.zeros(draws, width, rank))
    mean = algebra.correction(algebra.first_step(start, G, eta)).mean(0)
    # Standard error per entry is about eta * sigma^2 * sqrt(r * 2 * width / draws) = 1.8e-6.
    torch.testing.assert_close(mean, -eta * rank * sigma**2 * G, atol=1e-5, rtol=0)


def test_both_factors_at_zero_are_stationary():
    (G,) = drawn((6, 6), seed=4)
    stuck = algebra.factor_gradients(Factors(torch.zeros(2, 6), torch.zeros(6, 2)), G)
    assert not stuck.A.any()
    assert not stuck.B.any()


@given(sizes)
@settings(max_examples=40, deadline=None)
def test_rank_and_norm_bounds(case):
    rank, width, seed = case
    A, B, h = drawn((rank, width), (width, rank), (6, width), seed=seed)
    factors = Factors(A, B)
    assert torch.linalg.matrix_rank(algebra.correction(factors)) <= rank
    moved = torch.linalg.vector_norm(apply_residual(h, factors) - h, dim=-1)
    bound = algebra.displacement_bound(factors) * torch.linalg.vector_norm(h, dim=-1)
    assert bool((moved <= bound * (1 + 1e-4) + 1e-5).all())
    one = Factors(torch.eye(1, width) * 3, torch.eye(width, 1) * 2)
    assert float(algebra.displacement_bound(one)) == pytest.approx(6.0)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_two_residuals_can_differ_by_twice_their_rank(rank):
    width = 2 * rank
    eye = torch.eye(width)
    one = Factors(eye[:rank], eye[:, :rank])
    other = Factors(eye[rank:], eye[:, rank:])
    difference = algebra.correction(one) - algebra.correction(other)
    assert int(torch.linalg.matrix_rank(difference)) == 2 * rank


@given(sizes, st.floats(0.5, 2.0))
@settings(max_examples=40, deadline=None)
def test_the_next_step_depends_on_coordinates_that_the_prediction_does_not_see(case, c):
    rank, width, seed = case
    A, B, G = drawn((rank, width), (width, rank), (width, width), seed=seed)
    factors, eta = Factors(A, B), 0.01
    scaled = algebra.change_gauge(factors, c * torch.eye(rank))
    close = {"atol": 1e-4 * width**2, "rtol": 1e-3}
    torch.testing.assert_close(algebra.correction(factors), algebra.correction(scaled), **close)
    stepped = algebra.correction(algebra.first_step(scaled, G, eta)) - algebra.correction(scaled)
    by_equation = -eta * (B @ B.T @ G / c**2 + c**2 * G @ A.T @ A) + eta**2 * G @ A.T @ B.T @ G
    torch.testing.assert_close(stepped, by_equation, **close)
    torch.testing.assert_close(algebra.product_step(scaled, G, eta), by_equation, **close)
    if c > 1.2:
        plain = algebra.product_step(factors, G, eta)
        assert not torch.allclose(plain, by_equation, atol=1e-6)


@given(st.floats(0.1, 5.0), st.floats(0.0, 1.0), st.lists(st.floats(-2, 2), min_size=2, max_size=6))
def test_descent_bound_holds_and_is_attained_by_the_stiffest_quadratic(smoothness, eta, point):
    x = torch.tensor(point, dtype=torch.float64)
    curvatures = torch.linspace(0.1, 1.0, len(x), dtype=torch.float64) * smoothness
    loss = lambda v: float((curvatures * v * v).sum() / 2)  # noqa: E731 (a formula)
    gradient = curvatures * x
    bound = algebra.descent_bound(loss(x), float(gradient.norm()), eta, smoothness)
    assert loss(x - eta * gradient) <= bound + 1e-9
    stiff = float((smoothness * x * x).sum() / 2)
    bound = algebra.descent_bound(stiff, float((smoothness * x).norm()), eta, smoothness)
    stepped = x - eta * smoothness * x
    assert float((smoothness * stepped * stepped).sum() / 2) == pytest.approx(bound, abs=1e-9)


def test_past_two_over_L_a_step_can_ascend():
    assert algebra.descent_bound(1.0, 1.0, step_size=2.5, smoothness=1.0) > 1.0
