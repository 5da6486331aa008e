"""Slow training: one outer update after every batch of episodes closes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from larc.errors import LarcError
from larc.objectives import FeedbackObjective, Known, gradients_together
from larc.residual import Factors
from larc.rules import SGD, Objective, UpdateRule, rule_facts
from larc.scoring import CandidateLosses, Label, Limits
from larc.state import SlowState
from larc.stored import load_state, save_state, whole
from larc.substrate.frozen import Substrate
from larc.substrate.identity import hash_json
from larc.tasks import Task

OuterObjective = Literal["static", "adapted", "exact"]
TRAINING_FILE = "larc slow training, version 1"
STEP = "log_step"  # the logarithm of a step size that is learned, among what is trained
_FARTHEST = 80.0  # of that logarithm: float32 holds no larger steps


@dataclass(frozen=True)
class AdamW:
    """The outer optimiser: AdamW without decay, the norm of the factors' gradient clipped first."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not all(
            math.isfinite(v) and v > 0 for v in (self.learning_rate, self.clip, self.epsilon)
        ):
            raise LarcError(
                "the learning rate, epsilon and clip of AdamW must be positive numbers."
            )
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise LarcError("the betas of AdamW must lie from 0 to below 1.")

    def over(self, trained: Mapping[str, Tensor], step_rate: float) -> torch.optim.AdamW:
        """Return torch's optimiser over the factors and, at a rate of its own, the step size."""
        groups: list[dict[str, Any]] = [{"params": [trained["A"], trained["B"]]}]
        if STEP in trained:
            groups.append({"params": [trained[STEP]], "lr": step_rate})
        return torch.optim.AdamW(
            groups,
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.epsilon,
            weight_decay=0.0,
        )


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides a slow training besides the substrate, the start and the tasks.

    ``objective`` says where the query is evaluated and how its gradient reaches the slow state:
    ``static`` at the slow factors (the support steps are taken all the same, and not used),
    ``adapted`` at the adapted ones with the identity for their Jacobian, ``exact`` through the
    support steps themselves.

    With a ``step_rate`` the step size of `SGD` is learned too: AdamW moves its logarithm at that
    rate. It starts from the size that the slow state has learned before, else from the rule's. Only
    the adapted objective has anything to learn it from; without a rate, or with the static
    objective, steps are the rule's and the state has no size of its own afterwards. One number is
    enough: steps of two sizes on ``A`` and ``B`` are steps of one size on ``c A`` and ``B / c``,
    and the balance of the two is trained as it is.
    """

    objective: OuterObjective = "adapted"
    batch: int = 2
    inner_steps: int = 2
    rule: UpdateRule = field(default_factory=SGD)
    seed: int = 0
    outer: AdamW = field(default_factory=AdamW)
    step_rate: float = 0.0

    def __post_init__(self) -> None:
        if self.objective not in get_args(OuterObjective):
            known = ", ".join(get_args(OuterObjective))
            raise LarcError(f"objective {self.objective!r} is unknown; use one of {known}.")
        if self.batch < 1 or self.inner_steps < 0:
            raise LarcError("a batch holds at least one episode and takes no fewer than 0 steps.")
        if not 0 <= self.step_rate <= 1:
            raise LarcError(f"step rate {self.step_rate} was given; give a number from 0 to 1.")
        if self.step_rate and not isinstance(self.rule, SGD):
            raise LarcError("only the step size of SGD can be learned; leave the step rate at 0.")
        if self.step_rate and self.objective == "exact":
            raise LarcError(
                "a step size is learned with the adapted objective; leave the step rate at 0."
            )

    @property
    def first_step(self) -> float | None:
        """The step size that learning starts from, if one is learned."""
        learned = self.step_rate and self.inner_steps and self.objective == "adapted"
        return self.rule.step_size if learned and isinstance(self.rule, SGD) else None

    def facts(self) -> dict[str, Any]:
        """Return them as JSON values; a step rate only where there is one."""
        facts = {**asdict(self), "rule": rule_facts(self.rule)}
        return facts if self.step_rate else {k: v for k, v in facts.items() if k != "step_rate"}


@dataclass(frozen=True, eq=False)
class OuterGradient(Factors):
    """A batch's gradient at the slow factors, and at the logarithm of the step size.

    Attributes
    ----------
    log_step
        The latter; what is made of the factors (``map``, ``copy``) is without it.
    """

    log_step: float = 0.0


class SlowTrainer:
    """Trains one slow state, an outer update at a time, and can be saved between any two.

    A subclass says what a batch's loss and gradient are, and what its training depends on. If it
    gives a first step size and a rate, its gradient is an `OuterGradient`, and the step size is
    learned with the factors.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        outer: AdamW,
        limits: Limits | None,
        first_step: float | None = None,
        step_rate: float = 0.0,
    ) -> None:
        slow.check_fits(substrate)
        self.substrate = substrate
        self.slow = slow
        self.outer = outer
        self.limits = limits or Limits()
        self.updates = 0
        self._start = slow.digest
        self._start_step, self._step_rate = slow.step_size, step_rate
        # A state that has learned its step size goes on from there.
        step = first_step and (slow.step_size or first_step)
        self._trained = _leaves(slow.factors, step)
        self._optimizer = outer.over(self._trained, step_rate)

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the next batch's loss and its gradient at the slow factors."""
        raise TypeError(f"{type(self).__name__} does not say what it trains on")

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on, as JSON values."""
        return {
            "outer": asdict(self.outer),
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
        share = gradient.log_step if isinstance(gradient, OuterGradient) else 0.0
        if not all(map(math.isfinite, (loss, norm, share))):
            raise LarcError(
                f"outer update {self.updates + 1} is not finite and was not made; lower the step "
                "size or the learning rate."
            )
        scale = min(1.0, self.outer.clip / max(norm, 1e-12))
        self._trained["A"].grad = gradient.A * scale
        self._trained["B"].grad = gradient.B * scale
        if STEP in self._trained:
            self._trained[STEP].grad = torch.tensor(share, dtype=torch.float64)
        self._optimizer.step()
        self.updates += 1
        self.slow = self.slow.advanced(
            Factors(self._trained["A"], self._trained["B"]), _step_size(self._trained)
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
        for name, own in self.facts().items():
            if facts.get(name) != own:
                raise LarcError(
                    f"{path} was saved by a training with other {name}; remove it to start anew, "
                    "or give what it was started with."
                )
        device = self.substrate.device
        factors = Factors(tensors["A"], tensors["B"]).to(device)
        origin = Factors(tensors["origin.A"], tensors["origin.B"]).to(device)
        for own in (factors, origin):
            own.check_like(self.slow.factors)
        # Everything is made before anything is changed.
        trained, notes = _leaves(factors, _step_size(self._trained)), facts["notes"]
        if STEP in trained:
            with torch.no_grad():
                trained[STEP].copy_(tensors[STEP].reshape(()))
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
            step_size=_step_size(trained) if updates else self._start_step,
        )
        return notes


def _leaves(factors: Factors, step: float | None) -> dict[str, Tensor]:
    """Return what is trained, by name, as tensors that take gradients."""
    leaf = factors.leaf()
    trained = {"A": leaf.A, "B": leaf.B}
    if step is not None:
        # Twice as precise as the factors, so that a size to start from is that very size.
        trained[STEP] = torch.tensor(math.log(step), dtype=torch.float64, requires_grad=True)
    return trained


def _step_size(trained: Mapping[str, Tensor]) -> float | None:
    if STEP not in trained:
        return None
    logarithm = float(trained[STEP].detach())
    if abs(logarithm) > _FARTHEST:
        raise LarcError(f"a step size of e^{logarithm:.0f} was learned; lower the step rate.")
    return math.exp(logarithm)


class Trainer(SlowTrainer):
    """Trains a slow state across tasks.

    Parameters
    ----------
    substrate, slow
        The frozen model and where training starts.
    tasks
        What to train on; every task needs its query losses.
    settings, limits
        How.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        tasks: Iterable[Task],
        settings: TrainingSettings,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            substrate, slow, settings.outer, limits, settings.first_step, settings.step_rate
        )
        tasks = list(tasks)
        if not tasks:
            raise LarcError("there are no tasks to train on; give at least one.")
        if any(task.query is None for task in tasks):
            raise LarcError("a task has no query losses; training needs them.")
        self.tasks = tasks
        self.settings = settings
        # Tokenises everything now, so that a task that cannot be scored is refused before training.
        for task in self.tasks:
            self._objective([task], "support")

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on: also the settings and the tasks."""
        return {
            "settings": self.settings.facts(),
            "tasks": hash_json([asdict(task) for task in self.tasks]),
            **super().facts(),
        }

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the next batch's mean query loss and its gradient at the slow factors."""
        indices = batch_indices(
            len(self.tasks), self.settings.batch, self.updates, self.settings.seed
        )
        return self._outer_gradient([self.tasks[index] for index in indices])

    def _objective(self, tasks: Sequence[Task], which: str) -> FeedbackObjective:
        feedback = [
            [CandidateLosses(task.prompt, task.candidates, getattr(task, which))] for task in tasks
        ]
        return FeedbackObjective.of(
            self.substrate, self.slow.boundary, feedback, self.limits, alike=[0] * len(tasks)
        )

    def _outer_gradient(self, tasks: Sequence[Task]) -> tuple[float, Factors]:
        """Return the batch's mean query loss and its gradient at the slow factors."""
        with torch.inference_mode(False), torch.enable_grad():
            return self._outer_gradient_in(tasks)

    def _outer_gradient_in(self, tasks: Sequence[Task]) -> tuple[float, Factors]:
        exact = self.settings.objective == "exact"
        support, query = self._objective(tasks, "support"), self._objective(tasks, "query")
        rho = self.slow.factors.leaf()
        start = rho.map(lambda tensor: tensor.expand(len(tasks), *tensor.shape))
        if not exact:
            start = start.copy()
        ledger, step = self.substrate.ledger, _step_size(self._trained)
        rule = self.settings.rule if step is None else SGD(step)
        steps_on: Objective = support
        if self.settings.objective == "static":
            # The query is read where the first support step is: one forward serves both.
            with ledger.operation("query"):
                at_start, (losses, gradients) = gradients_together(support, query, start)
            steps_on = Known(support, start, at_start)
        with _twice_differentiable() if exact else nullcontext():
            fast = start
            with ledger.operation("support"):
                for _ in range(self.settings.inner_steps):
                    made = rule.step(steps_on, fast, differentiable=exact)
                    fast = made.factors
                    ledger.check(made.losses.tolist(), made.reached())
            with ledger.operation("query"):
                if exact:
                    losses = query.losses(fast)
                    slopes = torch.autograd.grad(losses.mean(), (rho.A, rho.B))
                    ledger.add("backward", 0, 0)
                    return float(losses.detach().mean()), Factors(*slopes)
                if self.settings.objective == "adapted":
                    losses, gradients = query.gradients(fast)
                # The identity for the Jacobian of the support steps: each episode's gradient at its
                # own factors goes to the corresponding slow entries, and the batch is averaged.
                mean = gradients.map(lambda tensor: tensor.mean(0))
                if step is None:
                    return float(losses.mean()), mean
                # To the same order, a step size that grows by a share takes the whole way from the
                # start to the adapted factors further by that share.
                way = fast.combine(start, torch.sub).combine(gradients, torch.mul)
                share = float(way.A.sum() + way.B.sum()) / len(tasks)
                return float(losses.mean()), OuterGradient(mean.A, mean.B, share)


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
        epoch, place = divmod(draw, count)
        order = np.random.default_rng([seed, epoch]).permutation(count)
        indices.append(int(order[place]))
    return indices


class LabelTrainer(SlowTrainer):
    """Trains a slow state on labelled questions, each with a weight.

    A batch's loss is its examples' cross-entropy, each times its weight relative to the average:
    on the whole, every example counts by its weight.

    Parameters
    ----------
    substrate, slow
        The frozen model and where training starts.
    labels, weights
        The examples, and how much each counts.
    batch, seed, outer, limits
        Examples in an update, what draws their order, the optimiser, the token limits.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        labels: Sequence[Label],
        weights: Sequence[float],
        *,
        batch: int = 8,
        seed: int = 0,
        outer: AdamW | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(substrate, slow, outer or AdamW(), limits)
        if not labels or len(labels) != len(weights):
            raise LarcError("training needs at least one label, and a weight for each.")
        self.labels, self.batch, self.order_seed = list(labels), batch, seed
        total = sum(weights)
        self.weights = [weight * len(labels) / total for weight in weights]

    @property
    def epoch(self) -> int:
        """How many updates meet every example once; the last may meet some of the next epoch."""
        return math.ceil(len(self.labels) / self.batch)

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on: also the examples, their weights and order."""
        examples = [asdict(label) for label in self.labels]
        return {
            **super().facts(),
            "examples": hash_json([examples, self.weights, self.batch, self.order_seed]),
        }

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the next batch's mean weighted cross-entropy and its gradient."""
        indices = batch_indices(len(self.labels), self.batch, self.updates, self.order_seed)
        # Examples as episodes of one stack: each has its own copy, and so its own gradient.
        feedback = [[self.labels[index]] for index in indices]
        alike = [0] * len(feedback)
        objective = FeedbackObjective.of(
            self.substrate, self.slow.boundary, feedback, self.limits, alike
        )
        stack = Factors.stack([self.slow.factors] * len(indices))
        losses, gradients = objective.gradients(stack)
        weights = torch.tensor([self.weights[index] for index in indices], device=losses.device)
        mean = gradients.map(lambda slope: (weights[:, None, None] * slope).mean(0))
        return float((weights * losses).mean()), mean


def train(
    substrate: Substrate,
    tasks: Iterable[Task],
    *,
    objective: OuterObjective = "adapted",
    updates: int = 256,
    batch: int = 2,
    inner_steps: int = 2,
    rule: UpdateRule | None = None,
    seed: int,
    rank: int | None = None,
    boundary: int | None = None,
    slow: SlowState | None = None,
    outer: AdamW | None = None,
    step_rate: float = 0.0,
    limits: Limits | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 16,
    on_update: Callable[[int, float], None] | None = None,
) -> SlowState:
    """Train a slow state across tasks and return it.

    Parameters
    ----------
    substrate, tasks
        The frozen model, and episodes with their query losses.
    objective
        ``"static"``, ``"adapted"`` or ``"exact"``: see `TrainingSettings`.
    updates, batch, inner_steps, rule
        Outer updates to make, episodes in each, and the support steps an episode takes: those of
        the rule, ``SGD(0.1)`` by default, whatever a slow state to go on from has learned.
    seed
        Draws the first factors and, on a stream of its own, the order of the tasks.
    rank, boundary
        Of a new state, 4 and 0 (the input) by default; not with ``slow``.
    slow
        A state to go on from instead of a new one.
    outer, step_rate, limits
        The outer optimiser, the rate at which it learns SGD's step size (see `TrainingSettings`),
        and the token limits.
    checkpoint
        A file to save to every ``checkpoint_every`` updates, and to carry on from if it is there.
    on_update
        Called after each update with its number and its query loss.

    Examples
    --------
    >>> import larc
    >>> tasks = [larc.Task(f"Is {n} even? ", ["yes", "no"], support=[n % 2, 1 - n % 2],
    ...                    query=[n % 2, 1 - n % 2], group=str(n)) for n in range(4)]
    >>> slow = larc.train(larc.load_substrate("tiny"), tasks, updates=2, seed=1)
    >>> slow.version
    2
    """
    if slow is None:
        slow = SlowState.initial(substrate, rank=rank or 4, seed=seed, boundary=boundary or 0)
    elif rank is not None or boundary is not None:
        raise LarcError("rank and boundary are those of the slow state given; leave them out.")
    if checkpoint_every < 1:
        raise LarcError(f"checkpoint_every is {checkpoint_every}; give 1 or more.")
    if checkpoint is not None and not Path(checkpoint).parent.is_dir():
        raise LarcError(
            f"there is no directory {Path(checkpoint).parent} to save to; make it first."
        )
    settings = TrainingSettings(
        objective, batch, inner_steps, rule or SGD(), seed, outer or AdamW(), step_rate
    )
    trainer = Trainer(substrate, slow, tasks, settings, limits)
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
def _twice_differentiable() -> Iterator[None]:
    # The fused attention kernels have no second derivative.
    with sdpa_kernel(SDPBackend.MATH):
        yield
