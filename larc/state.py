"""The slow state: trained starting factors, their version, and what they belong to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from larc.checks import checked_path, instance
from larc.errors import LarcError
from larc.io.files import atomic_directory, atomic_write
from larc.io.hashes import hash_json, hash_tensors
from larc.io.states import pack_state, read_content, unpack_state, whole
from larc.pretrained import read_layout, write_layout
from larc.residual import Factors, initial_factors
from larc.rules import RULES
from larc.scoring import Normalise, checked_normalise
from larc.substrate.frozen import Substrate

SLOW_FILE = "larc slow state, version 1"
_CARD = """---
library_name: larc
tags:
- larc
---

# A slow state of LARC

Starting factors of a low-rank {what} in a frozen language model: rank {rank}, width {width},
{where}, after {version} slow updates, seed {seed}. It belongs to the
substrate `{substrate}` and is refused on any other.

```python
import larc
slow = larc.SlowState.from_pretrained("this directory", substrate=substrate)
```
"""


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
    acts_on : str
        The weight of the layer at the boundary that it corrects; empty for the residual stream.
    step_size : float or None
        The size of the steps it was trained for, where that was learned with it.
    normalise : str
        How its candidates are scored: by the ``mean`` log-probability of their tokens, as in the
        paper; by its ``sum``; or by the mean less the candidate's own ``prior``, which is what the
        same state gives it without the question.
    rule : str
        The update rule it was trained for, as `larc.rules.parse_rule` reads it, where that was
        learned with it.

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
    acts_on: str = ""
    step_size: float | None = None
    normalise: Normalise = "mean"
    rule: str = ""

    def __repr__(self) -> str:
        kind = f"on {self.acts_on} of layer {self.boundary}" if self.acts_on else self.place[1]
        trained = f"after {self.version} slow updates" if self.version else "untrained"
        step = "" if self.step_size is None else f", step size {self.step_size:.3g}"
        size = f"rank {self.factors.rank}, width {self.factors.width}"
        return f"<SlowState {self.digest[:12]}, {size}, {kind}, {trained}, seed {self.seed}{step}>"

    @staticmethod
    def initial(
        substrate: Substrate,
        *,
        rank: int = 4,
        seed: int,
        boundary: int = 0,
        normalise: Normalise = "mean",
    ) -> SlowState:
        """Return the identity start: ``A ~ N(0, 0.02^2)`` from the seed, ``B = 0``, version 0."""
        instance(substrate, "substrate", Substrate)
        substrate.check_boundary(boundary)
        width = substrate.width_at(boundary)
        factors = initial_factors(width, rank, seed).to(substrate.device)
        return SlowState(
            factors,
            0,
            boundary,
            substrate.identity.digest,
            int(seed),
            factors.copy(),
            substrate.acts_on,
            normalise=checked_normalise(normalise),
        )

    def advanced(
        self, factors: Factors, step_size: float | None = None, rule: str = ""
    ) -> SlowState:
        """Return the next version: its own copy of the factors, and the steps if learned."""
        instance(factors, "factors", Factors)
        if factors.A.shape != self.factors.A.shape or not bool(factors.finite()):
            raise LarcError(
                f"factors of rank {factors.rank} and width {factors.width} cannot follow "
                f"rank {self.factors.rank} and width {self.factors.width}, or are not finite."
            )
        return replace(
            self,
            factors=factors.copy(),
            version=self.version + 1,
            step_size=step_size,
            rule=rule,
        )

    @cached_property
    def digest(self) -> str:
        """A name for exactly this state: factors, version, boundary, substrate, step, scoring."""
        tensors = [("A", self.factors.A), ("B", self.factors.B)]
        more: list[float | str] = [] if self.step_size is None else [self.step_size]
        more += [] if self.normalise == "mean" else [self.normalise]
        more += [self.rule] if self.rule else []
        return hash_json(
            [hash_tensors(tensors), self.version, self.boundary, self.substrate, *more]
        )

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
            **self._special,
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
                str(facts.get("acts_on", "")),
                _positive(facts.get("step_size")),
                checked_normalise(facts.get("normalise", "mean")),
                _known_rule(facts.get("rule", "")),
            )

    @property
    def _special(self) -> dict[str, str | float]:
        # Named only where there is one: files from before it are still the same files.
        special: dict[str, str | float] = {"acts_on": self.acts_on} if self.acts_on else {}
        if self.step_size is not None:
            special["step_size"] = self.step_size
        if self.normalise != "mean":
            special["normalise"] = self.normalise
        if self.rule:
            special["rule"] = self.rule
        return special

    @property
    def place(self) -> tuple[str, str]:
        """What it is and where, in words.

        Examples
        --------
        >>> from larc.substrate import load_substrate
        >>> SlowState.initial(load_substrate("tiny"), seed=1, boundary=2).place
        ('residual, `h + B A h`', 'before layer 2')
        """
        if self.acts_on:
            return f"correction of `{self.acts_on}`, `W + B A`", f"in layer {self.boundary}"
        where = f"before layer {self.boundary}" if self.boundary else "at the input embeddings"
        return "residual, `h + B A h`", where

    @property
    def about(self) -> dict[str, str | int | float]:
        """What the state is, as plain values: enough to tell whether it fits."""
        return {
            "boundary": self.boundary,
            "digest": self.digest,
            "rank": self.factors.rank,
            "seed": self.seed,
            "substrate": self.substrate,
            "version": self.version,
            "width": self.factors.width,
            **self._special,
        }

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the state as a directory in the Hub's layout; one that exists is refused.

        Examples
        --------
        >>> import tempfile
        >>> from larc.substrate import load_substrate
        >>> tiny, directory = load_substrate("tiny"), Path(tempfile.mkdtemp()) / "slow"
        >>> slow = SlowState.initial(tiny, seed=1)
        >>> slow.save_pretrained(directory)
        >>> sorted(path.name for path in directory.iterdir())
        ['README.md', 'config.json', 'model.safetensors']
        >>> SlowState.from_pretrained(directory, substrate=tiny).digest == slow.digest
        True
        """
        with atomic_directory(directory) as scratch:
            write_layout(scratch, [(self.about, self.to_bytes())])
            what, where = self.place
            card = _CARD.format(**self.about, what=what, where=where)
            atomic_write(scratch / "README.md", card.encode())

    @staticmethod
    def from_pretrained(
        source: str | Path,
        *,
        seed: int | None = None,
        substrate: Substrate | None = None,
        revision: str | None = None,
    ) -> SlowState:
        """Load a state from a directory, or from a repository of the Hub.

        Parameters
        ----------
        source
            What `save_pretrained` or ``larc package`` wrote, or a hub id.
        seed
            Which of several states; the first by default.
        substrate
            The frozen model it is for: another one is refused here and now, and not at first use.
        revision
            The hub revision; only for hub ids.
        """
        if substrate is not None:
            instance(substrate, "substrate", Substrate)
        name, about, content = read_layout(source, seed=seed, revision=revision)
        slow = SlowState.from_bytes(content, name)
        if about != slow.about:
            raise LarcError(f"{name} is not the state that its config describes; get a whole copy.")
        if substrate is None:
            return slow
        slow.check_fits(substrate)
        return slow.to(substrate.device)

    def to(self, device: torch.device | str) -> SlowState:
        """Return the state with its factors on a device."""
        return replace(self, factors=self.factors.to(device), origin=self.origin.to(device))

    def check_fits(self, substrate: Substrate) -> None:
        """Refuse a substrate that this state was not made on."""
        instance(substrate, "substrate", Substrate)
        if self.acts_on != substrate.acts_on:
            raise LarcError(
                f"the state acts on {self.acts_on or 'the residual stream'} and states of "
                f"{substrate.name} on {substrate.acts_on or 'the residual stream'}; "
                "use a state made on this substrate."
            )
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


def _known_rule(text: str) -> str:
    """Return the rule of a file; one of this package only, since its class is not loaded here."""
    if text and text.split(":")[0] not in RULES:
        raise ValueError(f"{text!r} is no rule of this package")
    return text


def _positive(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, float) or not 0 < value < math.inf:
        raise ValueError(f"{value!r} is no step size")
    return value


def read_slow(path: str | Path) -> SlowState:
    """Return the slow state of a file, such as a run keeps, or of a package directory.

    Examples
    --------
    >>> import tempfile
    >>> from larc.substrate import load_substrate
    >>> slow, path = SlowState.initial(load_substrate("tiny"), seed=1), tempfile.mktemp()
    >>> atomic_write(path, slow.to_bytes())
    >>> read_slow(path).digest == slow.digest
    True
    """
    path = checked_path(path)
    if path.is_dir():
        states = sorted(path.glob("units/*/slow.safetensors"))
        if states:
            raise LarcError(
                f"{path} is a run; give one of its states, such as {states[0]}, or make a package "
                f"of them with `larc package {path}`."
            )
        return SlowState.from_pretrained(path)
    if path.suffix == ".larc":
        raise LarcError(f"{path} is a packed run; `larc unpack` it, and give one of its states.")
    return SlowState.from_bytes(read_content(path, SLOW_FILE), str(path))
