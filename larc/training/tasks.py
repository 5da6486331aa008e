"""Slow training across tasks: one outer update after every batch of episodes closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from larc.checks import instance, number, whole_number
from larc.errors import LarcError
from larc.feedback import Feedback
from larc.io.hashes import hash_json
from larc.objectives import FeedbackObjective, Precomputed, gradients_together
from larc.proposals.improving import ImproveSettings
from larc.questions import Limits
from larc.residual import Factors, checked_seed
from larc.rules import SGD, Descent, Objective, UpdateRule, rule_facts, rule_text
from larc.scoring import Normalise
from larc.state import SlowState
from larc.stepping import StepContext
from larc.substrate.frozen import Substrate
from larc.tasks import Task, checked_tasks
from larc.training.base import (
    AdamW,
    OuterGradient,
    SlowTrainer,
    batch_indices,
    run_training,
    starting_state,
    twice_differentiable,
)
from larc.training.proposals import ProposalTask, ProposalTrainer
from larc.training.stack import (
    STEP,
    STEP_B,
    FastStack,
    learnable_steps,
    shares_of,
    step_shares,
    with_steps,
)

OuterObjective = Literal["static", "adapted", "exact"]


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides a slow training besides the substrate, the start and the tasks.

    ``objective`` says where the query is evaluated and how its gradient reaches the slow state:
    ``static`` at the slow factors (the support steps are taken all the same, and not used),
    ``adapted`` at the adapted ones with the identity for their Jacobian, ``exact`` through the
    support steps themselves.

    With a ``step_rate`` the step size of `SGD`, or the length of `Descent`, is learned too: AdamW
    moves its logarithm at that rate. It starts from the size that the slow state has learned, else
    from the rule's. The static objective has nothing to learn it from; without a rate, or with
    that objective, steps are the rule's and the state has no size of its own afterwards. One number
    is enough: steps of two sizes on ``A`` and ``B`` are steps of one size on ``c A`` and ``B / c``,
    and the balance of the two is trained as it is. Where a rule has a ``step_size_b``, that is
    learned with it.
    """

    objective: OuterObjective = "adapted"
    batch: int = 2
    inner_steps: int = 2
    rule: UpdateRule = field(default_factory=SGD)
    seed: int = 0
    outer: AdamW = field(default_factory=AdamW)
    step_rate: float = 0.0

    def __post_init__(self) -> None:
        if self.objective not in list(get_args(OuterObjective)):
            known = ", ".join(get_args(OuterObjective))
            raise LarcError(f"objective {self.objective!r} is unknown; use one of {known}.")
        instance(self.outer, "outer", AdamW)
        rule_facts(self.rule)  # refuses what is no rule
        given = {
            "batch": whole_number(self.batch, "batch", least=1),
            "inner_steps": whole_number(self.inner_steps, "inner_steps"),
            "seed": checked_seed(self.seed),
            "step_rate": number(self.step_rate, "the step rate", least=0),
        }
        if given["step_rate"] > 1:
            raise LarcError(f"the step rate is {self.step_rate}; give a number from 0 to 1.")
        for name, value in given.items():
            object.__setattr__(self, name, value)
        if self.step_rate and not isinstance(self.rule, SGD | Descent):
            raise LarcError(
                "only the steps of SGD and Descent can be learned; leave the step rate at 0."
            )

        if self.objective == "exact" and isinstance(self.rule, SGD) and self.rule.offset_size:
            raise LarcError(
                "private offsets are no part of the exact gradient; use the adapted objective."
            )

    @property
    def learns_steps(self) -> bool:
        """Whether there is a step to learn, and something to learn it from."""
        return bool(self.step_rate and self.inner_steps and self.objective != "static")

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
        instance(settings, "settings", TrainingSettings)
        tasks = checked_tasks(tasks)
        steps = (
            learnable_steps(settings.rule, slow, several=False) if settings.learns_steps else None
        )
        super().__init__(substrate, slow, settings.outer, limits, steps, settings.step_rate)
        if not tasks:
            raise LarcError("there are no tasks to train on; give at least one.")
        if not all(task.opened for task in tasks):
            raise LarcError("a task has no query losses; training needs them.")
        self.tasks = tasks
        self.settings = settings
        # Tokenises everything now, so that a task that cannot be scored is refused before training.
        for task in self.tasks:
            self._objective(
                [[*(piece for batch in task.batches for piece in batch), *task.queries]]
            )

    def learned(self) -> tuple[float | None, str]:
        """Return the step size of plain SGD that was learned, or the rule with its steps."""
        if not self.settings.learns_steps:
            return None, ""
        rule = with_steps(self.settings.rule, self._trained)
        if isinstance(rule, SGD) and rule == SGD(rule.step_size):
            return rule.step_size, ""
        return None, rule_text(rule)

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

    def _objective(self, feedback: Sequence[Sequence[Feedback]]) -> FeedbackObjective:
        return FeedbackObjective.of(
            self.substrate,
            self.slow.boundary,
            feedback,
            self.limits,
            share_key=[0] * len(feedback),
            normalise=self.slow.normalise,
        )

    def _outer_gradient(self, tasks: Sequence[Task]) -> tuple[float, Factors]:
        """Return the batch's mean query loss and its gradient at the slow factors."""
        with torch.inference_mode(False), torch.enable_grad():
            return self._outer_gradient_in(tasks)

    def _outer_gradient_in(self, tasks: Sequence[Task]) -> tuple[float, Factors]:
        exact = self.settings.objective == "exact"
        arriving = _arriving(tasks)
        # Every task has a first batch; later ones only some of them may have.
        rounds = [(own, self._objective([tasks[n].batches[i] for n in own])) for i, own in arriving]
        support, query = rounds[0][1], self._objective([task.queries for task in tasks])
        rho = self.slow.factors.leaf()
        start = rho.map(lambda tensor: tensor.expand(len(tasks), *tensor.shape))
        if not exact:
            start = start.copy()
        ledger = self.substrate.ledger
        fast = FastStack(with_steps(self.settings.rule, self._trained), start)
        walked: list[tuple[Factors, Factors, StepContext]] = []
        steps_on: list[Objective] = [objective for _, objective in rounds]
        if self.settings.objective == "static":
            # The query is read where the first support step is: one forward serves both.
            with ledger.operation("query"):
                at_start, (losses, gradients) = gradients_together(support, query, start)
            steps_on[0] = Precomputed(support, start, at_start)
        with twice_differentiable() if exact else nullcontext():
            with ledger.operation("support"):
                for (learning, plain), objective in zip(rounds, steps_on, strict=True):
                    for _ in range(self.settings.inner_steps):
                        here, context = fast.factors, fast.context(range(len(tasks)))
                        asked, source = objective, plain
                        if any(fast.offsets):
                            asked = source = replace(
                                plain,
                                offsets=tuple(fast.offsets[n] for n in learning),
                                energy_slopes={},
                            )
                        result = fast.step(
                            asked, learning, source.offset_slopes, differentiable=exact
                        )
                        walked.append((here, fast.factors, context))
                        ledger.check(result.losses.tolist(), result.reached())
            with ledger.operation("query"):
                if exact:
                    return self._exact(fast.under(query).losses(fast.factors), rho, walked)
                if self.settings.objective == "adapted":
                    losses, gradients = fast.under(query).gradients(fast.factors)
                # The identity for the Jacobian of the support steps: each episode's gradient at its
                # own factors goes to the corresponding slow entries, and the batch is averaged.
                mean = gradients.map(lambda tensor: tensor.mean(0))
                if not self.settings.learns_steps:
                    return float(losses.mean()), mean
                # To the same order, a step size that grows by a share takes the whole way from the
                # start to the adapted factors further by that share.
                way = fast.factors.combine(start, torch.sub).combine(gradients, torch.mul)
                by_a, by_b = way.A.sum(), way.B.sum()
                two = STEP_B in self._trained
                parts = {STEP: by_a, STEP_B: by_b} if two else {STEP: by_a + by_b}
                steps = {name: float(part) / len(tasks) for name, part in parts.items()}
                return float(losses.mean()), OuterGradient(mean.A, mean.B, steps)

    def _exact(
        self,
        losses: Tensor,
        rho: Factors,
        walked: Sequence[tuple[Factors, Factors, StepContext]],
    ) -> tuple[float, Factors]:
        """Return the gradient through the support steps, and at the step if that is learned."""
        points = walked if self.settings.learns_steps else ()
        inside = [tensor for _, after, _ in points for tensor in (after.A, after.B)]
        slopes = torch.autograd.grad(losses.mean(), (rho.A, rho.B, *inside))
        self.substrate.ledger.add("backward", 0, 0)
        value, gradient = float(losses.detach().mean()), Factors(*slopes[:2])
        if not points:
            return value, gradient
        total = dict.fromkeys(self._trained.keys() - {"A", "B"}, 0.0)
        for point, (before, after, context) in enumerate(points):
            pull = Factors(*slopes[2 + 2 * point : 4 + 2 * point])
            shares = step_shares(self.settings.rule, pull, before.copy(), after.copy(), context)
            for name, share in shares_of(shares, total).items():
                total[name] += share
        return value, OuterGradient(gradient.A, gradient.B, total)


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
    normalise: Normalise | None = None,
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
    rank, boundary, normalise
        Of a new state, 4, 0 (the input) and ``"mean"`` by default; not with ``slow``.
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
    slow = starting_state(
        substrate, slow, rank=rank, boundary=boundary, normalise=normalise, seed=seed
    )
    settings = TrainingSettings(
        objective,
        batch,
        inner_steps,
        SGD() if rule is None else rule,
        seed,
        AdamW() if outer is None else outer,
        step_rate,
    )
    trainer: SlowTrainer
    given: Any = tasks  # of the kind that the trainer checks
    if proposals is None:
        trainer = Trainer(substrate, slow, given, settings, limits)
    else:
        trainer = ProposalTrainer(substrate, slow, given, settings, proposals, limits)
    return run_training(trainer, updates, checkpoint, checkpoint_every, on_update)


def _arriving(tasks: Sequence[Task]) -> list[tuple[int, list[int]]]:
    """Return the places of batches in their order, each with the tasks that have one there."""
    counts = [len(task.batches) for task in tasks]
    return [
        (batch, [task for task, count in enumerate(counts) if batch < count])
        for batch in range(max(counts))
    ]
