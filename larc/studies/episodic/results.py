"""What an episodic run found: risks, contrasts and the selection, from its saved predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.evaluation import (
    LEAST_GROUPS,
    Cells,
    Evidence,
    Selection,
    all_correct,
    binding_gain,
    bootstrap_intervals,
    expected_error,
    greedy_error,
    group_means,
    group_weights,
    objective_gain,
    retention_gain,
    select_objective,
    weighted_mean,
)
from larc.interventions import task_score
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.studies.episodic.names import (
    FINAL_QUERIES,
    QUERIES,
    prediction_name,
    training_name,
)

Array = NDArray[np.float64]
CELLS = ("real_keep", "real_reset", "sham_keep", "sham_reset")
BOOTSTRAP_SEED = 20260929


@dataclass(frozen=True, eq=False)
class Contrast:
    """A gain: by seed, on average, and its interval over groups, where they are enough for one.

    It is in percentage points where losses are fractions, and in losses otherwise.
    """

    name: str
    seeds: Array
    mean: float
    lower: float | None
    upper: float | None

    @property
    def interval(self) -> str | None:
        """The interval as tables show it."""
        if self.lower is None or self.upper is None:
            return None
        return f"[{self.lower:.2f}, {self.upper:.2f}]"

    @property
    def told(self) -> str:
        """The interval as sentences tell it, or that there is none."""
        if self.lower is None or self.upper is None:
            return f"no interval: fewer than {LEAST_GROUPS} groups, or one of each family"
        return f"99 % interval {self.lower:.2f} to {self.upper:.2f}"


@dataclass(frozen=True, eq=False)
class EpisodicResults:
    """Everything the tables and figures of an episodic run are made from.

    Risks are fractions of shape ``[seeds, tasks]``, by arm and cell: of the query, and of the
    ``support``, the very feedback that was learned from. ``rule`` has the query error, by task, of
    taking the candidate of lowest support loss, the first of equals, and ``even`` that of giving
    equals the same chance. With tasks of many questions there is none of the three.
    """

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    names: tuple[str, ...]
    families: tuple[str, ...]
    groups: tuple[str, ...]
    risk: dict[tuple[str, str], Array]
    support: dict[tuple[str, str], Array]
    greedy: dict[tuple[str, str], Array]
    solved: dict[tuple[str, str], Array]
    rule: Array | None
    even: Array | None
    weights: Array
    contrasts: tuple[Contrast, ...]
    selection: Selection
    curves: dict[tuple[str, int], list[float]]
    resamples: int
    fractions: bool = True

    @property
    def scale(self) -> float:
        """What a risk is multiplied by to be shown: fractions are shown in percent."""
        return 100.0 if self.fractions else 1.0

    @property
    def what(self) -> str:
        """What a risk is: an error, or a loss of no certain range."""
        return "error" if self.fractions else "loss"

    @property
    def unit(self) -> str:
        """What follows a risk in a sentence."""
        return " %" if self.fractions else ""

    @property
    def gains(self) -> str:
        """What gains are in."""
        return "percentage points" if self.fractions else "units of the losses"

    def mean(self, values: Array) -> float:
        """Return the weighted mean over tasks, and the plain one over seeds."""
        return float(np.mean(weighted_mean(values, self.weights)))


def load_results(run: Run, *, final: bool = False) -> EpisodicResults:
    """Read an episodic run's saved predictions and queries, and compute what they say."""
    opened = FINAL_QUERIES if final else QUERIES
    settings = run.settings
    arms = (*settings["objectives"], *(("untrained",) if settings["untrained"] else ()))
    seeds = tuple(settings["seeds"])
    if not run.is_done(opened):
        raise LarcError(f"{run.path} is not finished; run the study's command again to go on.")
    content = run.unit_file(opened, "queries.parquet")
    queries = from_parquet(content, f"{run.path}/units/{opened}/queries.parquet")
    predictions = {arm: [prediction_name(arm, seed, final=final) for seed in seeds] for arm in arms}
    policies = _policies(run, [unit for units in predictions.values() for unit in units])
    asked: dict[str, list[dict[str, Any]]] = {}  # of each task its questions
    for row in queries:
        asked.setdefault(row["name"], []).append(row)
    first = [questions[0] for questions in asked.values()]
    names = tuple(asked)
    families = tuple(row["family"] for row in first)
    groups = tuple(row["group"] or row["name"] for row in first)
    cells = sorted({cell for _, _, cell, _ in policies})
    # Of a task of many questions the support is about others than the query.
    paired = all(row["support"] for row in queries)

    def measured(measure: Any, of: str = "query") -> dict[tuple[str, str], Array]:
        losses = [[row[of] for row in questions] for questions in asked.values()]
        return {
            (arm, cell): np.array(
                [
                    [
                        task_score(measure, policies[arm, seed, cell, name], own)
                        for name, own in zip(names, losses, strict=True)
                    ]
                    for seed in seeds
                ]
            )
            for arm in arms
            for cell in cells
        }

    risk = measured(expected_error)
    rule, even = (
        (
            np.array([r["query"][int(np.argmin(r["support"]))] for r in queries], dtype=float),
            np.array([_even(row["support"], row["query"]) for row in queries]),
        )
        if paired
        else (None, None)
    )
    trainings = [(arm, seed) for arm in settings["objectives"] for seed in seeds]
    positions = {
        arm: _positions(run, [*(training_name(arm, seed) for seed in seeds), *predictions[arm]])
        for arm in settings["objectives"]
    }
    fractions = all(
        0 <= loss <= 1 for row in queries for of in ("query", "support") for loss in row[of]
    )
    contrasts = _contrasts(
        risk, arms, families, groups, settings["resamples"], 100.0 if fractions else 1.0
    )
    return EpisodicResults(
        arms=arms,
        seeds=seeds,
        names=names,
        families=families,
        groups=groups,
        risk=risk,
        support=measured(expected_error, "support") if paired else {},
        greedy=measured(greedy_error),
        solved=measured(all_correct),
        rule=rule,
        even=even,
        weights=group_weights(families, groups),
        contrasts=contrasts,
        selection=_select(contrasts, positions, 100.0 if fractions else 1.0),
        curves={(a, s): run.unit_json(training_name(a, s), "curve.json") for a, s in trainings},
        resamples=settings["resamples"],
        fractions=fractions,
    )


def _even(support: Sequence[float], query: Sequence[float]) -> float:
    """Return the query error of a rule that gives the candidates of lowest support loss one chance.

    Examples
    --------
    >>> _even([0.0, 0.5, 0.0], [0.0, 1.0, 0.5])
    0.25
    """
    least = min(support)
    risks = [risk for loss, risk in zip(support, query, strict=True) if loss == least]
    return math.fsum(risks) / len(risks)


def _policies(run: Run, units: Sequence[str]) -> dict[tuple[str, int, str, str], list[Array]]:
    policies: dict[tuple[str, int, str, str], list[Array]] = {}
    for unit in units:
        for row in from_parquet(run.unit_file(unit, "predictions.parquet"), f"{run.path}/{unit}"):
            key = (row["arm"], row["seed"], row["cell"], row["name"])
            policies.setdefault(key, []).append(np.asarray(row["policy"]))
    return policies


def _contrasts(
    risk: dict[tuple[str, str], Array],
    arms: Sequence[str],
    families: Sequence[str],
    groups: Sequence[str],
    resamples: int,
    scale: float,
) -> tuple[Contrast, ...]:
    cells = {arm: Cells(**{cell: risk[arm, cell].T for cell in CELLS}) for arm in arms}
    columns: dict[str, Array] = {}
    if {"static", "adapted"} <= set(arms):
        columns["Δobj"] = objective_gain(cells["static"], cells["adapted"])
    for arm in arms:
        columns[f"{arm} G"] = retention_gain(cells[arm])
        columns[f"{arm} D"] = binding_gain(cells[arm])
    return _resampled(columns, families, groups, resamples, scale)


def _resampled(
    columns: dict[str, Array],
    families: Sequence[str],
    groups: Sequence[str],
    resamples: int,
    scale: float,
) -> tuple[Contrast, ...]:
    """Return gains ``[tasks, seeds]`` by name as contrasts, with intervals over groups."""
    # One bootstrap for all contrasts, each with its seeds: everything stays paired.
    stacked = np.concatenate([np.c_[v, v.mean(1)] for v in columns.values()], axis=1)
    means = group_means(stacked, families, groups)
    intervals = bootstrap_intervals(
        means.values, means.families, seed=BOOTSTRAP_SEED, resamples=resamples
    )
    width = next(iter(columns.values())).shape[1] + 1
    contrasts = []
    for number, name in enumerate(columns):
        span = slice(number * width, (number + 1) * width)
        estimates, last = scale * intervals.estimate[span], (number + 1) * width - 1
        contrasts.append(
            Contrast(
                name,
                estimates[:-1],
                float(estimates[-1]),
                scale * float(intervals.lower[last]) if intervals.known else None,
                scale * float(intervals.upper[last]) if intervals.known else None,
            )
        )
    return tuple(contrasts)


def less_error(than: EpisodicResults, results: EpisodicResults, arm: str) -> Contrast | None:
    """Return how much lower an arm's error after feedback is than another run's, paired by group.

    Nothing where the two did not answer the same tasks with the same seeds, or one lacks the arm.
    """
    comparable = than.names == results.names and than.seeds == results.seeds
    if not comparable or arm not in than.arms:
        return None
    gain = (than.risk[arm, "real_keep"] - results.risk[arm, "real_keep"]).T
    columns = {f"{arm} less error": gain}
    (contrast,) = _resampled(
        columns, results.families, results.groups, results.resamples, results.scale
    )
    return contrast


def _positions(run: Run, units: Sequence[str]) -> int:
    """Return the positions, padding included, that units put through the model."""
    return sum(row["physical"] for unit in units for row in run.unit_json(unit, "ledger.json"))


def _select(contrasts: Sequence[Contrast], positions: Mapping[str, int], scale: float) -> Selection:
    named = {contrast.name: contrast for contrast in contrasts}
    evidence = []
    for objective, cost in positions.items():
        gain, binding = named[f"{objective} G"], named[f"{objective} D"]
        if gain.lower is None or binding.lower is None:
            return Selection(None, "No objective is selected: there are too few groups.")
        evidence.append(
            Evidence(
                objective,
                (gain.seeds / scale).tolist(),
                (binding.seeds / scale).tolist(),
                gain.lower / scale,
                binding.lower / scale,
                float(cost),  # counted, not timed, so that a rerun selects the same
            )
        )
    return select_objective(evidence)


def chosen_objective(run: Run) -> tuple[str | None, str]:
    """Return the objective that a run selected, or none, and why."""
    selection = load_results(run).selection
    return selection.chosen, selection.reason
