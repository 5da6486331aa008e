"""What the residual's form implies: LoRA, first step, rank, norm, coordinates and descent.

Everything here is about real matrices: no model, no task. ``C = B A`` is the correction, ``G`` the
gradient of a loss with respect to ``C`` under the Frobenius inner product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from larc.errors import LarcError
from larc.residual import Factors


def correction(factors: Factors) -> Tensor:
    """Return the matrix ``C = B A`` that the residual adds.

    Examples
    --------
    >>> correction(Factors(torch.ones(1, 2), torch.ones(2, 1)))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return factors.B @ factors.A


def lora_from_residual(weight: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
    """Return ``(U, V)`` with ``W (h + B A h) = (W + U V) h``: the residual seen as a LoRA on ``W``.

    Examples
    --------
    >>> W, f = torch.randn(3, 4), Factors(torch.randn(2, 4), torch.randn(4, 2))
    >>> U, V = lora_from_residual(W, f)
    >>> bool(torch.allclose(W @ (torch.eye(4) + correction(f)), W + U @ V, atol=1e-5))
    True
    """
    return weight @ factors.B, factors.A


def residual_from_lora(
    weight: Tensor, up: Tensor, down: Tensor, *, rank: int | None = None, tolerance: float = 1e-5
) -> Factors:
    """Return factors whose residual before ``W`` equals adding ``U V`` to ``W``.

    It exists exactly when the columns of ``U V`` lie in the image of ``W``. The product is
    factored anew first: a column of ``U`` outside the image may be cancelled by ``V``.

    Parameters
    ----------
    weight, up, down
        ``W`` of ``[m, d]``, ``U`` of ``[m, q]``, ``V`` of ``[q, d]``.
    rank
        The residual's rank, at least that of ``U V``; padded with zeros. By default ``q``.
    tolerance
        How far, relative to ``U V``, the realised correction may be from it (Frobenius norms).

    Raises
    ------
    LarcError
        If part of the correction lies outside the image of ``W``, or ``rank`` is too small.

    Examples
    --------
    >>> W = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    >>> residual_from_lora(W, torch.tensor([[1.0], [0.0]]), torch.ones(1, 2)).rank
    1
    >>> residual_from_lora(W, torch.tensor([[0.0], [1.0]]), torch.ones(1, 2))
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 100 % of this correction lies outside the image of the weight; no ...
    """
    rank = up.shape[1] if rank is None else rank
    # In float64, so that what is measured below is the correction and not the rounding of it.
    delta, wide = up.double() @ down.double(), weight.double()
    left, values, right = torch.linalg.svd(delta, full_matrices=False)
    allowed = tolerance * float(torch.linalg.norm(delta))
    tails = values.square().flip(0).cumsum(0).flip(0).sqrt()
    needed = int((tails > allowed).sum())
    if needed > rank:
        raise LarcError(
            f"the correction has rank {needed}; ask for a residual of that rank or more."
        )
    # A direction that the weight has only by rounding is none: it would take factors without end.
    cutoff = torch.finfo(weight.dtype).eps * max(weight.shape)
    B = torch.linalg.pinv(wide, rtol=cutoff) @ (left[:, :rank] * values[:rank])
    A = right[:rank]
    padded = Factors(torch.zeros(rank, delta.shape[1]), torch.zeros(weight.shape[1], rank))
    padded.A[: len(A)], padded.B[:, : len(A)] = A.float(), B.float()
    # Measured on what is returned.
    missing = float(torch.linalg.norm(delta - wide @ padded.B.double() @ padded.A.double()))
    if missing > allowed:
        raise LarcError(
            f"{100 * missing / float(torch.linalg.norm(delta)):.3g} % of this correction lies "
            "outside the image of the weight; no residual before that weight can realise it."
        )
    return padded


def factor_gradients(factors: Factors, gradient: Tensor) -> Factors:
    """Return the gradients of the factors, ``(B^T G, G A^T)``, from that of their product.

    Examples
    --------
    >>> identity = Factors(torch.ones(1, 2), torch.zeros(2, 1))
    >>> factor_gradients(identity, torch.eye(2)).A     # B = 0: no gradient reaches A
    tensor([[0., 0.]])
    """
    return Factors(factors.B.mT @ gradient, gradient @ factors.A.mT)


def first_step(factors: Factors, gradient: Tensor, step_size: float) -> Factors:
    """Return the factors after one simultaneous SGD step.

    From the identity (``B = 0``) it leaves ``A`` alone and gives ``B = -eta G A^T``, hence
    ``C = -eta G A^T A``; averaged over a Gaussian ``A`` that is ``-eta r sigma^2 G``.

    Examples
    --------
    >>> start = Factors(torch.tensor([[2.0, 0.0]]), torch.zeros(2, 1))
    >>> float(correction(first_step(start, torch.eye(2), step_size=0.1))[0, 0])  # -0.1 * 2 * 2
    -0.4...
    """
    gradients = factor_gradients(factors, gradient)
    return factors.combine(gradients, lambda value, slope: value - step_size * slope)


def product_step(factors: Factors, gradient: Tensor, step_size: float) -> Tensor:
    """Return by how much one SGD step on the factors changes their product.

    ``-eta (B B^T G + G A^T A) + eta^2 G A^T B^T G``: the first-order terms depend on the factors
    themselves, not on their product alone.
    """
    A, B = factors.A, factors.B
    linear = B @ B.mT @ gradient + gradient @ A.mT @ A
    return -step_size * linear + step_size**2 * gradient @ A.mT @ B.mT @ gradient


def change_gauge(factors: Factors, transform: Tensor) -> Factors:
    """Return ``(R A, B R^-1)``: the same residual now, in general another one after the next step.

    Examples
    --------
    >>> f = Factors(torch.randn(2, 4), torch.randn(4, 2))
    >>> g = change_gauge(f, torch.tensor([[2.0, 1.0], [0.0, 1.0]]))
    >>> bool(torch.allclose(correction(f), correction(g), atol=1e-5))
    True
    """
    return Factors(
        transform @ factors.A, torch.linalg.solve(transform.mT, factors.B.mT).mT.contiguous()
    )


def displacement_bound(factors: Factors) -> Tensor:
    """Return ``||B|| ||A||`` (spectral): how far a hidden vector of length one can be moved."""
    bound: Tensor = torch.linalg.matrix_norm(factors.B, 2) * torch.linalg.matrix_norm(factors.A, 2)
    return bound


def descent_bound(loss: float, gradient_norm: float, step_size: float, smoothness: float) -> float:
    """Return what an ``L``-smooth loss is at most after one gradient step.

    ``loss - eta (1 - L eta / 2) ||gradient||^2``: a decrease for certain only if
    ``0 < eta < 2 / L``. Low rank gives no such ``L``.

    Examples
    --------
    >>> descent_bound(1.0, gradient_norm=1.0, step_size=0.5, smoothness=2.0)
    0.75
    """
    return loss - step_size * (1 - smoothness * step_size / 2) * gradient_norm**2
