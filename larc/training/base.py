"""What every slow training has: an outer update after another, saved between any two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from larc.checks import checked_path, instance, number, shown, whole_number
from larc.errors import LarcError
from larc.io.states import load_state, save_state, whole
from larc.questions import Limits
from larc.residual import Factors
from larc.scoring import Normalise
from larc.state import SlowState
from larc.substrate.frozen import Substrate

TRAINING_FILE = "larc slow training, version 1"


@dataclass(frozen=True)
class AdamW:
    """The outer optimiser: AdamW without decay, the norm of the factors' gradient clipped first.

    Attributes
    ----------
    learning_rate, beta1, beta2, epsilon
        As torch's.
    clip
        The largest norm of a gradient.
    falls
        By which update the rates have fallen to zero, linearly; 0 keeps them as they are.

    Examples
    --------
    >>> [AdamW(falls=4).share(update) for update in range(5)]
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 1.0
    falls: int = 0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip", "epsilon"):
            object.__setattr__(self, name, number(getattr(self, name), f"{name} of AdamW", above=0))
        for name in ("beta1", "beta2"):
            beta = number(getattr(self, name), f"{name} of AdamW", least=0)
            if beta >= 1:
                raise LarcError(f"{name} of AdamW is {beta}; give a number from 0 to below 1.")
            object.__setattr__(self, name, beta)
        object.__setattr__(self, "falls", whole_number(self.falls, "falls of AdamW"))

    def share(self, update: int) -> float:
        """Return the share of the rates that is left after so many updates."""
        return max(0.0, 1 - update / self.falls) if self.falls else 1.0

    def facts(self) -> dict[str, Any]:
        """Return what a training depends on, as JSON values; rates that stay are as ever."""
        facts = asdict(self)
        if not self.falls:
            del facts["falls"]
        return facts

    def over(self, trained: Mapping[str, Tensor], step_rate: float) -> torch.optim.AdamW:
        """Return torch's optimiser over the factors and, at a rate of their own, the steps."""
        groups: list[dict[str, Any]] = [{"params": [trained["A"], trained["B"]]}]
        steps = [value for name, value in trained.items() if name not in ("A", "B")]
        if steps:
            groups.append({"params": steps, "lr": step_rate})
        return torch.optim.AdamW(
            groups,
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.epsilon,
            weight_decay=0.0,
        )


@dataclass(frozen=True, eq=False)
class OuterGradient(Factors):
    """A batch's gradient at the slow factors, and at the steps that are learned.

    Attributes
    ----------
    steps
        The latter, by name; what is made of the factors (``map``, ``copy``) is without them.
    """

    steps: Mapping[str, float] = field(default_factory=dict)


class SlowTrainer:
    """Trains one slow state, an outer update at a time, and can be saved between any two.

    A subclass says what a batch's loss and gradient are, and what its training depends on. If it
    gives first steps and a rate, its gradient is an `OuterGradient`, and the steps are learned with
    the factors.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        outer: AdamW,
        limits: Limits | None,
        steps: Mapping[str, float] | None = None,
        step_rate: float = 0.0,
    ) -> None:
        instance(substrate, "substrate", Substrate)
        instance(slow, "slow", SlowState)
        instance(outer, "outer", AdamW)
        if limits is not None:
            instance(limits, "limits", Limits)
        slow.check_fits(substrate)
        self.substrate = substrate
        self.slow = slow
        self.outer = outer
        self.limits = limits or Limits()
        self.updates = 0
        self._start = slow.digest
        self._first, self._step_rate = slow, step_rate
        self._trained = _leaves(slow.factors, steps or {})
        self._optimizer = outer.over(self._trained, step_rate)

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the next batch's loss and its gradient at the slow factors."""
        raise TypeError(f"{type(self).__name__} does not say what it trains on")

    def learned(self) -> tuple[float | None, str]:
        """Return the step size, or the rule, that the state has learned so far."""
        return None, ""

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on, as JSON values."""
        return {
            "outer": self.outer.facts(),
            "limits": asdict(self.limits),
            "substrate": self.slow.substrate,
            "boundary": self.slow.boundary,
            "rank": self.slow.factors.rank,
            "start": self._start,
        }

    def advance(self) -> float:
        """Make one outer update and return the mean loss it was made from."""
        loss, gradient = self.batch_gradient()
        norm = float(gradient.norm())
        steps = gradient.steps if isinstance(gradient, OuterGradient) else {}
        if not all(map(math.isfinite, (loss, norm, *steps.values()))):
            raise LarcError(
                f"outer update {self.updates + 1} is not finite and was not made; lower the step "
                "size or the learning rate."
            )
        scale = min(1.0, self.outer.clip / max(norm, 1e-12))
        self._trained["A"].grad = gradient.A * scale
        self._trained["B"].grad = gradient.B * scale
        for name, share in steps.items():
            self._trained[name].grad = torch.tensor(share, dtype=torch.float64)
        rates = (self.outer.learning_rate, self._step_rate)
        for group, rate in zip(self._optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * self.outer.share(self.updates)
        self._optimizer.step()
        self.updates += 1
        self.slow = self.slow.advanced(
            Factors(self._trained["A"], self._trained["B"]), *self.learned()
        )
        return loss

    def save(self, path: str | Path, notes: Any = None) -> None:
        """Write everything the next update depends on to one file, with the caller's own notes."""
        tensors = {
            **self._trained,
            "origin.A": self.slow.origin.A,
            "origin.B": self.slow.origin.B,
        }
        for name, trained in self._trained.items():
            for moment, value in self._optimizer.state[trained].items():
                tensors[f"outer.{name}.{moment}"] = value
        facts = {
            **self.facts(),
            "updates": self.updates,
            "version": self.slow.version,
            "notes": notes,
        }
        save_state(path, TRAINING_FILE, tensors, facts)

    def restore(self, path: str | Path) -> Any:
        """Carry on from a saved point of this same training; returns the notes saved with it."""
        tensors, facts = load_state(path, TRAINING_FILE)
        with whole(path, TRAINING_FILE):
            return self._restore(path, tensors, facts)

    def _restore(self, path: str | Path, tensors: Mapping[str, Tensor], facts: Any) -> Any:
        for name, expected in self.facts().items():
            if facts.get(name) != expected:
                raise LarcError(
                    f"{path} was saved by a training with other {name}; remove it to start anew, "
                    "or give what it was started with."
                )
        device = self.substrate.device
        factors = Factors(tensors["A"], tensors["B"]).to(device)
        origin = Factors(tensors["origin.A"], tensors["origin.B"]).to(device)
        for loaded in (factors, origin):
            loaded.check_like(self.slow.factors)
        # Everything is made before anything is changed.
        steps = {name: float(tensors[name]) for name in self._trained if name not in ("A", "B")}
        trained, notes = _leaves(factors, steps), facts["notes"]
        updates, version = int(facts["updates"]), int(facts["version"])
        optimizer = self.outer.over(trained, self._step_rate)
        for name, leaf in trained.items():
            for moment in ("step", "exp_avg", "exp_avg_sq") if updates else ():
                value = tensors[f"outer.{name}.{moment}"]
                shape = () if moment == "step" else leaf.shape
                value = value.to(leaf.dtype if moment != "step" else torch.float32).reshape(shape)
                if moment != "step":  # which stays where it is
                    value = value.to(leaf.device)
                optimizer.state[leaf][moment] = value
        self._trained, self._optimizer, self.updates = trained, optimizer, updates
        self.slow = replace(
            self.slow,
            factors=factors.copy(),
            version=version,
            origin=origin,
        )
        size, rule = self.learned() if updates else (self._first.step_size, self._first.rule)
        self.slow = replace(self.slow, step_size=size, rule=rule)
        return notes


def _leaves(factors: Factors, steps: Mapping[str, float]) -> dict[str, Tensor]:
    """Return what is trained, by name, as tensors that take gradients."""
    leaf = factors.leaf()
    # Steps are twice as precise as the factors, so that a size to start from is that very size.
    numbers = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in steps.items()
    }
    return {"A": leaf.A, "B": leaf.B, **numbers}


def batch_indices(count: int, batch: int, updates: int, seed: int) -> list[int]:
    """Return which of ``count`` things the next batch holds, after a number of updates.

    Every epoch is a fresh order. It is a function of the seed and the count of updates alone, so
    there is nothing else to save or restore.

    Examples
    --------
    >>> sorted(batch_indices(4, batch=2, updates=0, seed=1) + batch_indices(4, 2, 1, 1))
    [0, 1, 2, 3]
    """
    indices = []
    for draw in range(updates * batch, (updates + 1) * batch):
        epoch, position = divmod(draw, count)
        order = np.random.default_rng([seed, epoch]).permutation(count)
        indices.append(int(order[position]))
    return indices


def starting_state(
    substrate: Substrate,
    slow: SlowState | None,
    *,
    rank: int | None,
    boundary: int | None,
    normalise: Normalise | None,
    seed: int,
) -> SlowState:
    """Return the state that training starts from: the one given, or a new one."""
    instance(substrate, "substrate", Substrate)
    if slow is None:
        return SlowState.initial(
            substrate,
            rank=4 if rank is None else rank,
            seed=seed,
            boundary=0 if boundary is None else boundary,
            normalise="mean" if normalise is None else normalise,
        )
    if any(given is not None for given in (rank, boundary, normalise)):
        raise LarcError(
            "rank and boundary are those of the slow state given, and normalise is; leave them out."
        )
    return slow


def run_training(
    trainer: SlowTrainer,
    updates: int,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 16,
    on_update: Callable[[int, float], None] | None = None,
) -> SlowState:
    """Train to a number of updates, from where a checkpoint is, and return the state."""
    updates = whole_number(updates, "updates")
    checkpoint_every = whole_number(checkpoint_every, "checkpoint_every", least=1)
    if on_update is not None and not callable(on_update):
        raise LarcError(f"on_update is {shown(on_update)}; give a function.")
    if checkpoint is not None and not checked_path(checkpoint).parent.is_dir():
        raise LarcError(
            f"there is no directory {Path(checkpoint).parent} to save to; make it first."
        )
    if checkpoint is not None and Path(checkpoint).exists():
        trainer.restore(checkpoint)
        if trainer.updates > updates:
            raise LarcError(
                f"{checkpoint} is {trainer.updates} updates on, past the {updates} asked for; "
                "remove it to start anew."
            )
    while trainer.updates < updates:
        loss = trainer.advance()
        last = trainer.updates == updates
        if checkpoint is not None and (last or trainer.updates % checkpoint_every == 0):
            trainer.save(checkpoint)
        if on_update is not None:
            on_update(trainer.updates, loss)
    return trainer.slow


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Compute inside the block so that gradients can be differentiated again."""
    # The fused attention kernels have no second derivative.
    with sdpa_kernel(SDPBackend.MATH):
        yield
