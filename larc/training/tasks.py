"""Slow training across tasks: one outer update after every batch of episodes closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from larc.errors import LarcError
from larc.feedback import CandidateLosses
from larc.io.hashes import hash_json
from larc.objectives import FeedbackObjective, Precomputed, gradients_together
from larc.proposals.improving import ImproveSettings
from larc.residual import Factors
from larc.rules import SGD, Objective, UpdateRule, rule_facts
from larc.scoring import Limits
from larc.state import SlowState
from larc.substrate.frozen import Substrate
from larc.tasks import Task
from larc.training.base import AdamW, OuterGradient, SlowTrainer, batch_indices, step_size_of
from larc.training.proposals import ProposalTask, ProposalTrainer

OuterObjective = Literal["static", "adapted", "exact"]


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
            self.substrate, self.slow.boundary, feedback, self.limits, share_key=[0] * len(tasks)
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
        ledger, step = self.substrate.ledger, step_size_of(self._trained)
        rule = self.settings.rule if step is None else SGD(step)
        steps_on: Objective = support
        if self.settings.objective == "static":
            # The query is read where the first support step is: one forward serves both.
            with ledger.operation("query"):
                at_start, (losses, gradients) = gradients_together(support, query, start)
            steps_on = Precomputed(support, start, at_start)
        with _twice_differentiable() if exact else nullcontext():
            fast = start
            with ledger.operation("support"):
                for _ in range(self.settings.inner_steps):
                    update = rule.step(steps_on, fast, differentiable=exact)
                    fast = update.factors
                    ledger.check(update.losses.tolist(), update.reached())
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


def train(
    substrate: Substrate,
    tasks: Iterable[Task] | Iterable[ProposalTask],
    *,
    proposals: ImproveSettings | None = None,
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
    proposals
        How the model's own texts are proposed and learned from: tasks are then `ProposalTask`, and
        their episodes searches of so many rounds.
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
    given: list[Any] = list(tasks)
    trainer: SlowTrainer
    if proposals is None:
        trainer = Trainer(substrate, slow, given, settings, limits)
    else:
        trainer = ProposalTrainer(substrate, slow, given, settings, proposals, limits)
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
