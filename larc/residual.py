"""The residual ``h + B A h`` and its two factors, for one episode or for a stack of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from larc.checks import shown, whole_number
from larc.errors import LarcError, reason

INITIAL_DEVIATION = 0.02


@dataclass(frozen=True, eq=False)
class Factors:
    """The two factors of a residual, float32: ``A`` reads, ``B`` writes.

    One episode has ``A`` of shape ``[r, d]`` and ``B`` of shape ``[d, r]``. A stack of episodes has
    one more axis in front of both, and every function here works on either.

    Examples
    --------
    >>> factors = Factors(torch.ones(2, 8), torch.zeros(8, 2))
    >>> factors.rank, factors.width, factors.numbers
    (2, 8, 32)
    >>> Factors.stack([factors, factors]).A.shape
    torch.Size([2, 2, 8])
    """

    A: Tensor
    B: Tensor

    def __post_init__(self) -> None:
        if not (isinstance(self.A, Tensor) and isinstance(self.B, Tensor)) or self.A.ndim < 2:
            raise LarcError("factors are two tensors; A is [r, d] and B is [d, r].")
        if (
            self.B.ndim < 2
            or self.A.shape[-2:] != self.B.mT.shape[-2:]
            or self.A.shape[:-2] != self.B.shape[:-2]
        ):
            raise LarcError(
                f"factors of shapes {list(self.A.shape)} and {list(self.B.shape)} do not belong "
                "together; A is [r, d] and B is [d, r]."
            )
        if self.A.dtype != torch.float32 or self.B.dtype != torch.float32:
            raise LarcError(
                f"factors of type {self.A.dtype} and {self.B.dtype} were given; "
                "factors are float32, whatever the activations are."
            )

    def __repr__(self) -> str:
        stacked = f", stacked={len(self.A)}" if self.A.ndim == 3 else ""
        return f"Factors(rank={self.rank}, width={self.width}{stacked})"

    @property
    def rank(self) -> int:
        """The number of directions read and written, r."""
        return self.A.shape[-2]

    @property
    def width(self) -> int:
        """The width of the hidden vectors, d."""
        return self.A.shape[-1]

    @property
    def numbers(self) -> int:
        """How many numbers one episode's state holds, 2 r d."""
        return 2 * self.rank * self.width

    def map(self, function: Callable[[Tensor], Tensor]) -> Factors:
        """Apply one function to both factors."""
        return Factors(function(self.A), function(self.B))

    def combine(self, other: Factors, function: Callable[[Tensor, Tensor], Tensor]) -> Factors:
        """Apply one function to both pairs of corresponding factors."""
        return Factors(function(self.A, other.A), function(self.B, other.B))

    def copy(self) -> Factors:
        """Return factors with storage of their own and no gradient history."""
        return self.map(lambda tensor: tensor.detach().clone())

    def leaf(self) -> Factors:
        """Return a copy that gradients can be taken with respect to."""
        return self.map(lambda tensor: tensor.detach().clone().requires_grad_())

    def to(self, device: torch.device | str) -> Factors:
        """Return the factors on a device."""
        try:
            device = torch.device(device)
            return self.map(lambda tensor: tensor.to(device))
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            raise LarcError(
                f"device {shown(device)} cannot be used ({reason(error)}); use 'cpu' or 'cuda'."
            ) from error

    def norm(self) -> Tensor:
        """Euclidean norm across both factors: a scalar, or one number per stacked episode."""
        squares = self.A.square().sum((-2, -1)) + self.B.square().sum((-2, -1))
        return squares.sqrt()

    def finite(self) -> Tensor:
        """Whether every entry is finite: a boolean, or one per stacked episode."""
        return self.A.isfinite().all(-1).all(-1) & self.B.isfinite().all(-1).all(-1)

    def equal(self, other: Factors) -> bool:
        """Whether two states are the same, bit for bit."""
        return torch.equal(self.A, other.A) and torch.equal(self.B, other.B)

    def check_like(self, other: Factors) -> None:
        """Refuse factors that have another rank or width than others."""
        if self.A.shape != other.A.shape:
            raise LarcError(
                f"factors of rank {self.rank} and width {self.width} were given where rank "
                f"{other.rank} and width {other.width} are needed."
            )

    @staticmethod
    def stack(factors: Sequence[Factors]) -> Factors:
        """Put episodes into one stack; their entries are copied."""
        return Factors(
            torch.stack([one.A for one in factors]), torch.stack([one.B for one in factors])
        )

    def at(self, index: int | Tensor) -> Factors:
        """Take one episode of a stack, or a stack of some of them."""
        if isinstance(index, int):
            return Factors(self.A[index], self.B[index])
        # Unlike indexing, this adds up the gradients of a repeated episode in a fixed order.
        return Factors(self.A.index_select(0, index), self.B.index_select(0, index))


def initial_factors(width: int, rank: int, seed: int) -> Factors:
    """Draw the identity start: ``A ~ N(0, 0.02^2)`` from the seed's own stream and ``B = 0``.

    Examples
    --------
    >>> factors = initial_factors(width=8, rank=2, seed=7)
    >>> bool((factors.B == 0).all()), factors.equal(initial_factors(8, 2, 7))
    (True, True)
    """
    rank = whole_number(rank, "the rank of a residual", least=1)
    if rank > 2**16:
        raise LarcError(f"the rank of a residual is {shown(rank)}; give 65536 or less.")
    seed = checked_seed(seed)
    stream = np.random.default_rng(seed)
    draws = stream.standard_normal((rank, width), dtype=np.float32)
    return Factors(torch.from_numpy(draws) * INITIAL_DEVIATION, torch.zeros(width, rank))


def checked_seed(seed: int) -> int:
    """Return a seed as a plain number, refusing what would not give the same stream again.

    Examples
    --------
    >>> checked_seed(np.int64(7))
    7
    """
    return whole_number(seed, "the seed", most=math.inf)


def apply_residual(hidden: Tensor, factors: Factors) -> Tensor:
    """Return ``h + B A h`` for every hidden vector, in the type of the activations.

    Parameters
    ----------
    hidden
        Activations ``[..., tokens, d]``, float32 or bfloat16.
    factors
        One pair for all rows, or a stack with one pair per row of ``hidden``.

    Notes
    -----
    The sum is formed in float32 and rounded once, so a correction of exactly zero returns the
    activations unchanged, bit for bit, in either type.

    Examples
    --------
    >>> h = torch.randn(3, 5, 8)
    >>> torch.equal(apply_residual(h, initial_factors(8, 2, seed=0)), h)
    True
    """
    return apply_correction(hidden, hidden, factors)


def apply_correction(output: Tensor, hidden: Tensor, factors: Factors) -> Tensor:
    """Return ``y + B A h``: what ``y = W h`` becomes where the weight is ``W + B A``.

    Examples
    --------
    >>> h, W = torch.randn(5, 8), torch.randn(8, 8)
    >>> factors = Factors(torch.randn(2, 8), torch.randn(8, 2))
    >>> moved = h @ (W + factors.B @ factors.A).T
    >>> torch.allclose(apply_correction(h @ W.T, h, factors), moved, atol=1e-4)
    True
    """
    read = hidden.float() @ factors.A.mT
    return (output.float() + read @ factors.B.mT).to(output.dtype)
