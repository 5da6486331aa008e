"""Real and sham feedback crossed with keep and reset: what keeping is worth on one's own tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from larc.checks import instance, whole_number
from larc.errors import LarcError
from larc.evaluation import (
    LEAST_GROUPS,
    Cells,
    Intervals,
    all_correct,
    binding_gain,
    bootstrap_intervals,
    expected_error,
    greedy_error,
    group_means,
    group_weights,
    retention_gain,
)
from larc.feedback import CandidateLosses, Feedback, Unlabelled, with_offsets
from larc.learner import Learner
from larc.questions import Limits
from larc.residual import checked_seed
from larc.rules import UpdateRule
from larc.state import SlowState
from larc.substrate.frozen import Substrate
from larc.tasks import Task, checked_tasks

CELLS = ("real_keep", "real_reset", "sham_keep", "sham_reset")
Probabilities = NDArray[np.float64]
#: What is said to a task: one policy, or of a task of many questions one for each.
Policies = Probabilities | list[Probabilities]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The policy of every task in every cell, made without opening a query.

    Each cell has one array of probabilities per task, and of a task of many questions a list of
    arrays, one for each question. The two reset cells are one read: a
    deterministic read of the same state cannot tell which feedback was forgotten. ``evaluations``
    says how often the model evaluated each task's real feedback.
    """

    real_keep: list[Policies]
    real_reset: list[Policies]
    sham_keep: list[Policies]
    sham_reset: list[Policies]
    evaluations: list[int]


def predict(
    substrate: Substrate,
    slow: SlowState,
    tasks: Sequence[Task],
    *,
    seed: int,
    rule: UpdateRule | None = None,
    inner_steps: int = 2,
    limits: Limits | None = None,
) -> Predictions:
    """Adapt to each task's support under real and sham feedback, and read with and without it.

    Batches of a task's support are learned in their order, ``inner_steps`` updates on each. Sham
    feedback permutes losses and labels among their candidates, anew and uniformly at each step,
    from a private stream per task; fixed points included. What a query says is not looked at.
    """
    learner = Learner(substrate, slow, rule, limits=limits)
    tasks, seed = checked_tasks(tasks), checked_seed(seed)
    inner_steps = whole_number(inner_steps, "inner_steps")
    ledger = substrate.ledger
    seeds = [np.random.SeedSequence([seed, number]) for number in range(len(tasks))]
    real = [learner.begin() for _ in tasks]
    sham = [learner.begin(int(sequence.generate_state(1, np.uint64)[0])) for sequence in seeds]
    evaluations = [0] * len(tasks)
    batches = [task.batches for task in tasks]
    with ledger.operation("support"):
        for arrival in range(max(map(len, batches), default=0)):
            learning = [number for number, several in enumerate(batches) if arrival < len(several)]
            for _ in range(inner_steps):
                updates = learner.update_many(
                    [
                        *((real[number], batches[number][arrival]) for number in learning),
                        *((sham[n], _dealt(batches[n][arrival], sham[n].stream)) for n in learning),
                    ]
                )
                for number, update in zip(learning, updates, strict=False):  # the real ones first
                    evaluations[number] += update.evaluations
    start = learner.begin()
    asked = [(number, one) for number, task in enumerate(tasks) for one in task.asked]
    with ledger.operation("query"):
        reads = learner.read_many(
            [
                (episodes[number], one.prompt, one.candidates)
                for episodes in (real, [start] * len(tasks), sham)
                for number, one in asked
            ]
        )
    policies = [read.double().numpy() for read in reads]
    count = len(asked)
    kept, reset, misled = (_by_task(tasks, policies[i * count : (i + 1) * count]) for i in range(3))
    return Predictions(kept, reset, misled, reset, evaluations)


def _dealt(batch: Sequence[Feedback], stream: np.random.Generator) -> list[Feedback]:
    """Return a batch as sham feedback."""
    return [piece.permuted(stream) for piece in batch]


def _by_task(tasks: Sequence[Task], reads: Sequence[Probabilities]) -> list[Policies]:
    """Return what was read as one entry for each task."""
    remaining, answered = iter(reads), []
    for task in tasks:
        policies = [with_offsets(next(remaining), _offsets(one)) for one in task.asked]
        answered.append(policies if task.many else policies[0])
    return answered


def _offsets(asked: Feedback | Unlabelled) -> Sequence[float]:
    return () if isinstance(asked, CandidateLosses) else asked.offsets


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What feedback was worth: risks by cell, gains, and their intervals, as the losses given.

    Attributes
    ----------
    risk
        Expected query error in each cell; also of the most probable candidate (``greedy``), and
        how often that candidate is right throughout (``solved``).
    G, D
        The gain from keeping what real feedback taught over resetting it, and how much of it
        depends on the feedback's binding to the candidates.
    intervals
        Of G and D in that order, over resampled groups.
    predictions
        The policies it was computed from.
    fractions
        Whether every query loss lies from 0 to 1, so that a risk is an error in percent.
    """

    risk: dict[str, float]
    greedy: dict[str, float]
    solved: dict[str, float]
    G: float
    D: float
    intervals: Intervals
    groups: int
    predictions: Predictions = field(repr=False)
    fractions: bool = True

    def __str__(self) -> str:
        """Render the four risks and both gains: in percent, or as the losses that they are."""
        title = "expected query error, %" if self.fractions else "expected query loss"
        scale, unit = (100.0, " points") if self.fractions else (1.0, "")
        groups = f"{self.groups} group{'s' * (self.groups != 1)}"

        def row(name: str, *cells: str) -> str:
            return f"  {name:24} {'   '.join(f'{scale * self.risk[cell]:6.2f}' for cell in cells)}"

        def gain(name: str, number: int, value: float) -> str:
            low, high = (
                scale * end[number] for end in (self.intervals.lower, self.intervals.upper)
            )
            if not self.intervals.known:
                return f"{name} = {scale * value:.2f}{unit}, no interval"
            level = f"{100 * self.intervals.level:.0f} %"
            return f"{name} = {scale * value:.2f}{unit}, {level} interval [{low:.2f}, {high:.2f}]"

        few = f": that takes {LEAST_GROUPS} groups, and of some family two"
        return "\n".join(
            [
                f"{title:27}  keep    reset",
                row("real feedback", "real_keep", "real_reset"),
                row("sham feedback", "sham_keep", "sham_reset"),
                f"{gain('G', 0, self.G)} over {groups}{'' if self.intervals.known else few}",
                gain("D", 1, self.D),
            ]
        )


def evaluate(
    substrate: Substrate,
    slow: SlowState,
    tasks: Iterable[Task],
    *,
    seed: int,
    rule: UpdateRule | None = None,
    inner_steps: int = 2,
    limits: Limits | None = None,
    resamples: int = 10_000,
) -> Evaluation:
    """Measure on one's own tasks whether feedback helps, and whether keeping it does.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> tasks = [larc.Task(f"Is {n} even? ", ["yes", "no"], support=[n % 2, 1 - n % 2],
    ...                    query=[n % 2, 1 - n % 2], group=str(n)) for n in range(4)]
    >>> slow = larc.SlowState.initial(substrate, rank=4, seed=1)
    >>> report = larc.evaluate(substrate, slow, tasks, seed=1)
    >>> report.G > 0, report.risk["real_reset"] == report.risk["sham_reset"]
    (True, True)
    """
    tasks = checked_tasks(tasks)
    resamples = whole_number(resamples, "resamples", least=1)
    if not tasks or not all(task.opened for task in tasks):
        raise LarcError("evaluation needs at least one task, each with its query losses or labels.")
    predictions = predict(
        substrate, slow, tasks, seed=seed, rule=rule, inner_steps=inner_steps, limits=limits
    )
    return judge(predictions, tasks, seed=seed, resamples=resamples)


def judge(
    predictions: Predictions, tasks: Sequence[Task], *, seed: int, resamples: int = 10_000
) -> Evaluation:
    """Open the queries and score predictions that have been made."""
    instance(predictions, "predictions", Predictions)
    tasks, seed = checked_tasks(tasks), checked_seed(seed)
    resamples = whole_number(resamples, "resamples", least=1)
    if any(len(getattr(predictions, cell)) != len(tasks) for cell in CELLS):
        raise LarcError(f"the predictions are not of these {len(tasks)} tasks; give those asked.")
    if not tasks or any(task.query is None for task in tasks):
        raise LarcError("evaluation needs at least one task, each with its query losses.")
    families = [task.family for task in tasks]
    # A task that names no group stands for itself.
    groups = [task.group or f"task {number}" for number, task in enumerate(tasks)]
    weights = group_weights(families, groups)

    def scores(cell: str, measure: Measure) -> NDArray[np.float64]:
        cells: list[Policies] = getattr(predictions, cell)
        return np.array(
            [
                task_score(measure, one, [query.losses for query in task.queries])
                for one, task in zip(cells, tasks, strict=True)
            ],
            dtype=np.float64,
        )

    risks = {cell: scores(cell, expected_error) for cell in CELLS}
    cells = Cells(**risks)
    gains = np.stack([retention_gain(cells), binding_gain(cells)], axis=1)
    means = group_means(gains, families, groups)
    intervals = bootstrap_intervals(means.values, means.families, seed=seed, resamples=resamples)
    return Evaluation(
        risk={cell: float(weights @ risks[cell]) for cell in CELLS},
        greedy={cell: float(weights @ scores(cell, greedy_error)) for cell in CELLS},
        solved={cell: float(weights @ scores(cell, all_correct)) for cell in CELLS},
        G=float(intervals.estimate[0]),
        D=float(intervals.estimate[1]),
        intervals=intervals,
        groups=len(means.groups),
        predictions=predictions,
        fractions=all(
            0 <= loss <= 1 for task in tasks for one in task.queries for loss in one.losses
        ),
    )


Measure = Callable[..., NDArray[np.float64]]


def task_score(measure: Measure, policies: Policies, losses: Sequence[Sequence[float]]) -> float:
    """Return one number for a task: the mean over its questions, or whether all are right.

    Examples
    --------
    >>> policies = [np.array([1.0, 0.0]), np.array([0.5, 0.5])]
    >>> task_score(expected_error, policies, [[0, 1], [0, 1]])
    0.25
    >>> task_score(all_correct, policies, [[0, 1], [1, 0]])
    0.0
    """
    reads = policies if isinstance(policies, list) else [policies]
    values = [
        float(measure(np.asarray(policy)[None], np.asarray(loss)[None])[0])
        for policy, loss in zip(reads, losses, strict=True)
    ]
    if len(values) == 1:
        return values[0]
    return min(values) if measure is all_correct else float(np.mean(values))
