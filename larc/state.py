"""The slow state: trained starting factors, their version, and what they belong to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from larc.errors import LarcError
from larc.residual import Factors, initial_factors
from larc.stored import pack_state, unpack_state, whole
from larc.substrate.frozen import Substrate
from larc.substrate.identity import hash_json, hash_tensors

SLOW_FILE = "larc slow state, version 1"


@dataclass(frozen=True, eq=False)
class SlowState:
    """Starting factors at one boundary of one substrate; immutable, so a version means one thing.

    Attributes
    ----------
    factors : Factors
        What a new episode copies.
    version : int
        How many slow updates made it; 0 is the untrained identity.
    boundary : int
        Where the residual is: 0 for the input embeddings, k for before layer k.
    substrate : str
        The digest of the substrate it belongs to.
    seed : int
        The seed its first factors were drawn from.
    origin : Factors
        Those first factors.

    Examples
    --------
    >>> from larc.substrate import load_substrate
    >>> slow = SlowState.initial(load_substrate("tiny"), rank=4, seed=1)
    >>> slow.version, slow.factors.numbers, slow.boundary
    (0, 256, 0)
    """

    factors: Factors
    version: int
    boundary: int
    substrate: str
    seed: int
    origin: Factors

    @staticmethod
    def initial(substrate: Substrate, *, rank: int = 4, seed: int, boundary: int = 0) -> SlowState:
        """Return the identity start: ``A ~ N(0, 0.02^2)`` from the seed, ``B = 0``, version 0."""
        substrate.check_boundary(boundary)
        width = substrate.width_at(boundary)
        factors = initial_factors(width, rank, seed).to(substrate.device)
        return SlowState(factors, 0, boundary, substrate.identity.digest, int(seed), factors.copy())

    def advanced(self, factors: Factors) -> SlowState:
        """Return the next version, with its own copy of the factors."""
        if factors.A.shape != self.factors.A.shape or not bool(factors.finite()):
            raise LarcError(
                f"factors of rank {factors.rank} and width {factors.width} cannot follow "
                f"rank {self.factors.rank} and width {self.factors.width}, or are not finite."
            )
        return replace(self, factors=factors.copy(), version=self.version + 1)

    @cached_property
    def digest(self) -> str:
        """A name for exactly this state: factors, version, boundary and substrate."""
        tensors = [("A", self.factors.A), ("B", self.factors.B)]
        return hash_json([hash_tensors(tensors), self.version, self.boundary, self.substrate])

    def to_bytes(self) -> bytes:
        """Return the state as the content of a file."""
        tensors = {
            "A": self.factors.A,
            "B": self.factors.B,
            "origin.A": self.origin.A,
            "origin.B": self.origin.B,
        }
        facts = {
            "version": self.version,
            "boundary": self.boundary,
            "substrate": self.substrate,
            "seed": self.seed,
        }
        return pack_state(SLOW_FILE, tensors, facts)

    @staticmethod
    def from_bytes(content: bytes, name: str = "the slow state") -> SlowState:
        """Return the state that `to_bytes` wrote, bit for bit.

        Examples
        --------
        >>> from larc.substrate import load_substrate
        >>> slow = SlowState.initial(load_substrate("tiny"), seed=1)
        >>> SlowState.from_bytes(slow.to_bytes()).digest == slow.digest
        True
        """
        tensors, facts = unpack_state(content, SLOW_FILE, name)
        with whole(name, SLOW_FILE):
            factors = Factors(tensors["A"], tensors["B"])
            origin = Factors(tensors["origin.A"], tensors["origin.B"])
            origin.check_like(factors)
            return SlowState(
                factors,
                int(facts["version"]),
                int(facts["boundary"]),
                str(facts["substrate"]),
                int(facts["seed"]),
                origin,
            )

    def to(self, device: torch.device | str) -> SlowState:
        """Return the state with its factors on a device."""
        return replace(self, factors=self.factors.to(device), origin=self.origin.to(device))

    def check_fits(self, substrate: Substrate) -> None:
        """Refuse a substrate that this state was not made on."""
        width = substrate.width_at(self.boundary)
        if self.factors.width != width:
            raise LarcError(
                f"the state has width {self.factors.width} and {substrate.name} has width "
                f"{width}; use a state made on this substrate."
            )
        if self.substrate != substrate.identity.digest:
            raise LarcError(
                f"the state belongs to substrate {self.substrate[:12]}… and {substrate.name} is "
                f"{substrate.identity.digest[:12]}…; use a state made on this substrate."
            )
