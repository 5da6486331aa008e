"""What every measurement starts from: the model, two episodes, states that differ."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch

from benchmarks.speed.timing import Clock, Run, Timed, alternate
from larc.domains.programs import build_episodes, split_groups, to_task
from larc.errors import LarcError
from larc.questions import EncodedQuestion, Limits, ask
from larc.residual import Factors
from larc.state import SlowState
from larc.substrate.frozen import Substrate
from larc.tasks import Task

T = TypeVar("T")
SEED = 2026092811
#: The paper's inner loop.
INNER_STEPS, STEP_SIZE = 2, 0.1


@dataclass(frozen=True)
class Setting:
    """The model, and how often each alternative is run.

    ``clock`` is what is read before and after; ``quick`` takes smaller sizes. ``limits`` are wide
    enough for every substrate: a byte tokenizer makes long prompts.
    """

    substrate: Substrate
    repetitions: int
    quick: bool = False
    clock: Clock = time.perf_counter
    limits: Limits = field(default_factory=lambda: Limits(prompt=1024, candidate=64))

    def alternate(self, candidates: Mapping[str, Run], *, long: bool = False) -> dict[str, Timed]:
        """Time alternatives side by side, as often as this setting says.

        What takes long is measured at most twice.
        """
        repetitions = min(self.repetitions, 2) if long else self.repetitions
        return alternate(candidates, repetitions, self.clock)

    @cached_property
    def episodes(self) -> list[Task]:
        """Program episodes, of the two families in turn."""
        built = build_episodes(split_groups("training"))
        tasks = [to_task(episode, with_query=True) for episode in built]
        families = [
            [task for task in tasks if task.family == name]
            for name in dict.fromkeys(task.family for task in tasks)
        ]
        return [task for pair in zip(*families, strict=False) for task in pair]

    @property
    def pair(self) -> list[Task]:
        """Two episodes of four candidates, one of each family."""
        return self.episodes[:2]

    @cached_property
    def slow(self) -> SlowState:
        """A slow state whose B is not zero: at zero, a mistake in A would not show."""
        first = SlowState.initial(self.substrate, seed=SEED)
        return first.advanced(_written(first.factors, seed=7))

    def ask(self, task: Task) -> EncodedQuestion:
        """Return a task's question as tokens."""
        return ask(self.substrate, task.prompt, task.candidates, self.limits)

    def own_model(self) -> Any:
        """Return a copy of the frozen model, for a peer that puts its own layers into it.

        It attends as `transformers` does by default: what we changed there is part of ours.
        """
        model = copy.deepcopy(self.substrate.model)
        model.set_attn_implementation("sdpa")
        return model


def _written(factors: Factors, seed: int) -> Factors:
    stream = torch.Generator().manual_seed(seed)
    B = 0.02 * torch.randn(factors.B.shape, generator=stream)
    return Factors(factors.A.clone(), B.to(factors.B.device))


def orthonormal_state(width: int, rank: int, seed: int) -> Factors:
    """Draw factors whose B has orthonormal columns: the ones that LoReFT can be, too.

    Examples
    --------
    >>> B = orthonormal_state(width=8, rank=2, seed=1).B
    >>> bool(torch.allclose(B.T @ B, torch.eye(2), atol=1e-6))
    True
    """
    stream = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(width, rank, generator=stream)).Q
    return Factors(0.02 * torch.randn(rank, width, generator=stream), basis.contiguous())


class Keeping(Generic[T]):
    """A run that keeps what it returned last, so that what was timed can be looked at.

    Examples
    --------
    >>> run = Keeping(lambda: 7)
    >>> run(), run.result
    (7, 7)
    """

    def __init__(self, run: Callable[[], T]) -> None:
        self.run = run
        self.result: T

    def __call__(self) -> T:
        """Run once."""
        self.result = self.run()
        return self.result


def check_same(name: str, theirs: torch.Tensor, ours: torch.Tensor, tolerance: float) -> float:
    """Return the largest difference relative to the largest entry, refusing one past tolerance.

    Examples
    --------
    >>> check_same("half", torch.tensor([1.0]), torch.tensor([2.0]), tolerance=0.1)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: half does not compute what LARC does (largest difference 5.0e-01, ...
    """
    difference = float((theirs - ours).abs().max() / ours.abs().max())
    if not difference <= tolerance:
        raise LarcError(
            f"{name} does not compute what LARC does (largest difference {difference:.1e}, at most "
            f"{tolerance:.0e} is allowed), so that its time is no comparison; report this."
        )
    return difference
