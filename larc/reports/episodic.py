"""What an episodic run found: risks, contrasts, the selection, and the tables that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.evaluation import (
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
)
from larc.ledger import KINDS
from larc.reports.tables import Cell, Table
from larc.studies.parquet import from_parquet
from larc.studies.runs import Run, read_json

Array = NDArray[np.float64]
CELLS = ("real_keep", "real_reset", "sham_keep", "sham_reset")
CELL_NAMES = ("Real/keep", "Real/reset", "Sham/keep", "Sham/reset")
BOOTSTRAP_SEED = 20260929


@dataclass(frozen=True, eq=False)
class Contrast:
    """A gain in percentage points: by seed, on average, and its interval over groups."""

    name: str
    seeds: Array
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class EpisodicResults:
    """Everything the tables and figures of an episodic run are made from.

    Risks are fractions of shape ``[seeds, tasks]``, by arm and cell.
    """

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    names: tuple[str, ...]
    families: tuple[str, ...]
    groups: tuple[str, ...]
    risk: dict[tuple[str, str], Array]
    greedy: dict[tuple[str, str], Array]
    solved: dict[tuple[str, str], Array]
    rule: Array
    weights: Array
    contrasts: tuple[Contrast, ...]
    selection: Selection
    curves: dict[tuple[str, int], list[float]]
    ledger: list[dict[str, Any]]
    cost: dict[str, dict[str, Any]]
    resamples: int

    def mean(self, values: Array) -> float:
        """Return the weighted mean over tasks, and the plain one over seeds."""
        return float(np.mean(values @ self.weights))


def load_results(run: Run, *, final: bool = False) -> EpisodicResults:
    """Read an episodic run's saved predictions and queries, and compute what they say."""
    prefix, opened = ("final", "final-queries") if final else ("predict", "queries")
    settings = run.settings
    arms = (*settings["objectives"], *(("untrained",) if settings["untrained"] else ()))
    seeds = tuple(settings["seeds"])
    if not run.is_done(opened):
        raise LarcError(f"{run.path} is not finished; run the study's command again to go on.")
    content = run.unit_file(opened, "queries.parquet")
    queries = from_parquet(content, f"{run.path}/units/{opened}/queries.parquet")
    policies = _policies(run, [f"{prefix}-{arm}-{seed}" for arm in arms for seed in seeds])
    families = tuple(row["family"] for row in queries)
    groups = tuple(row["group"] or row["name"] for row in queries)
    names = tuple(row["name"] for row in queries)
    losses = [np.asarray(row["query"]) for row in queries]
    cells = sorted({cell for _, _, cell, _ in policies})

    def measured(measure: Any) -> dict[tuple[str, str], Array]:
        return {
            (arm, cell): np.array(
                [
                    [
                        float(measure(policies[arm, seed, cell, name][None], loss[None])[0])
                        for name, loss in zip(names, losses, strict=True)
                    ]
                    for seed in seeds
                ]
            )
            for arm in arms
            for cell in cells
        }

    risk = measured(expected_error)
    rule = np.array([r["query"][int(np.argmin(r["support"]))] for r in queries], dtype=float)
    trainings = [(arm, seed) for arm in settings["objectives"] for seed in seeds]
    units = [f"train-{a}-{s}" for a, s in trainings]
    units += [f"{prefix}-{a}-{s}" for a in arms for s in seeds]
    ledgers = {unit: read_json(run.path / "units" / unit / "ledger.json") for unit in units}
    contrasts = _contrasts(risk, arms, families, groups, settings["resamples"])
    return EpisodicResults(
        arms=arms,
        seeds=seeds,
        names=names,
        families=families,
        groups=groups,
        risk=risk,
        greedy=measured(greedy_error),
        solved=measured(all_correct),
        rule=rule,
        weights=group_weights(families, groups),
        contrasts=contrasts,
        selection=_select(contrasts, settings["objectives"], ledgers, prefix),
        curves={
            (a, s): read_json(run.path / f"units/train-{a}-{s}/curve.json") for a, s in trainings
        },
        ledger=_summed(ledgers.values()),
        cost={unit: read_json(run.path / "units" / unit / "cost.json") for unit in units},
        resamples=settings["resamples"],
    )


def _policies(run: Run, units: Sequence[str]) -> dict[tuple[str, int, str, str], Array]:
    return {
        (row["arm"], row["seed"], row["cell"], row["name"]): np.asarray(row["policy"])
        for unit in units
        for row in from_parquet(run.unit_file(unit, "predictions.parquet"), f"{run.path}/{unit}")
    }


def _contrasts(
    risk: dict[tuple[str, str], Array],
    arms: Sequence[str],
    families: Sequence[str],
    groups: Sequence[str],
    resamples: int,
) -> tuple[Contrast, ...]:
    cells = {arm: Cells(**{cell: risk[arm, cell].T for cell in CELLS}) for arm in arms}
    columns: dict[str, Array] = {}
    if {"static", "adapted"} <= set(arms):
        columns["Δobj"] = objective_gain(cells["static"], cells["adapted"])
    for arm in arms:
        columns[f"{arm} G"] = retention_gain(cells[arm])
        columns[f"{arm} D"] = binding_gain(cells[arm])
    # One bootstrap for all contrasts, each with its seeds: everything stays paired.
    stacked = np.concatenate([np.c_[v, v.mean(1)] for v in columns.values()], axis=1)
    means = group_means(stacked, families, groups)
    found = bootstrap_intervals(
        means.values, means.families, seed=BOOTSTRAP_SEED, resamples=resamples
    )
    width = next(iter(columns.values())).shape[1] + 1
    contrasts = []
    for number, name in enumerate(columns):
        own = slice(number * width, (number + 1) * width)
        estimates, last = 100 * found.estimate[own], (number + 1) * width - 1
        contrasts.append(
            Contrast(
                name,
                estimates[:-1],
                float(estimates[-1]),
                100 * float(found.lower[last]),
                100 * float(found.upper[last]),
            )
        )
    return tuple(contrasts)


def _select(
    contrasts: Sequence[Contrast],
    objectives: Sequence[str],
    ledgers: dict[str, list[dict[str, Any]]],
    prefix: str,
) -> Selection:
    named = {contrast.name: contrast for contrast in contrasts}
    evidence = []
    for objective in objectives:
        gain, binding = named[f"{objective} G"], named[f"{objective} D"]
        # Cost is counted, not timed, so that a rerun selects the same.
        cost = sum(
            row["physical"]
            for unit, rows in ledgers.items()
            if unit.startswith((f"train-{objective}-", f"{prefix}-{objective}-"))
            for row in rows
        )
        evidence.append(
            Evidence(
                objective,
                (gain.seeds / 100).tolist(),
                (binding.seeds / 100).tolist(),
                gain.lower / 100,
                binding.lower / 100,
                float(cost),
            )
        )
    return select_objective(evidence)


def _summed(ledgers: Any) -> list[dict[str, Any]]:
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for rows in ledgers:
        for row in rows:
            key = (row["operation"], row["kind"])
            total = totals.setdefault(
                key,
                {"operation": key[0], "kind": key[1], "calls": 0, "physical": 0, "effective": 0},
            )
            for count in ("calls", "physical", "effective"):
                total[count] += row[count]
    return [totals[key] for key in sorted(totals)]


def tables(results: EpisodicResults) -> list[Table]:
    """Return the study's tables, in percent, arms as rows."""
    return [
        _endpoint(results),
        _contrast_table(results),
        _controls(results),
        _secondary(results),
        _ledger_table(results),
        _cost_table(results),
    ]


def _short(seed: int) -> str:
    return str(seed)[-4:]


def _endpoint(results: EpisodicResults) -> Table:
    rows: list[list[Cell]] = []
    for arm in results.arms:
        by_seed = 100 * results.risk[arm, "real_keep"] @ results.weights
        deviation = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
        rows.append([arm.capitalize(), *map(float, by_seed), float(by_seed.mean()), deviation])
    return Table(
        "endpoint",
        "Expected query error after adaptation to real feedback, in %; lower is better.",
        ("Objective", *map(_short, results.seeds), "Mean", "Seed SD"),
        rows,
    )


def _contrast_table(results: EpisodicResults) -> Table:
    rows: list[list[Cell]] = [
        [
            c.name[0].upper() + c.name[1:],
            c.mean,
            f"[{c.lower:.2f}, {c.upper:.2f}]",
            *map(float, c.seeds),
        ]
        for c in results.contrasts
    ]
    return Table(
        "contrasts",
        f"Paired gains in percentage points; positive is favourable. Intervals: 99 %, "
        f"{results.resamples:,} resamples of {len(set(results.groups))} groups within families. "
        f"{results.selection.reason}",
        ("Contrast", "Mean", "99 % interval", *map(_short, results.seeds)),
        rows,
    )


def _controls(results: EpisodicResults) -> Table:
    rule = float(100 * results.rule @ results.weights)
    rows: list[list[Cell]] = []
    for arm in results.arms:
        risks = [100 * results.mean(results.risk[arm, cell]) for cell in CELLS]
        text = results.risk.get((arm, "text"))
        rows.append(
            [arm.capitalize(), *risks, None if text is None else 100 * results.mean(text), rule]
        )
    return Table(
        "controls",
        "Expected query error in %. Text renders the feedback in the prompt at the slow state; "
        "Rule takes the candidate with the lowest support loss, the first of equals.",
        ("Objective", *CELL_NAMES, "Text", "Rule"),
        rows,
    )


def _secondary(results: EpisodicResults) -> Table:
    rows: list[list[Cell]] = [
        [
            arm.capitalize(),
            name,
            *(
                100 * results.mean(measure[arm, cell])
                for measure in (results.risk, results.greedy, results.solved)
            ),
        ]
        for arm in results.arms
        for cell, name in (("real_reset", "Reset"), ("real_keep", "Adapted state"))
    ]
    return Table(
        "secondary",
        "The most probable candidate: its error, and how often it passes every query, in %.",
        ("Objective", "Read state", "Expected error", "Greedy error", "All queries correct"),
        rows,
    )


def _ledger_table(results: EpisodicResults) -> Table:
    rows: list[list[Any]] = [
        [row["operation"], row["kind"], row["calls"], row["physical"], row["effective"]]
        for row in results.ledger
    ]
    for kind in KINDS:
        chosen = [row for row in results.ledger if row["kind"] == kind]
        counts = [sum(row[count] for row in chosen) for count in ("calls", "physical", "effective")]
        rows.append(["total", kind, *counts])
    return Table(
        "ledger",
        "Model work of all units: calls, and positions with and without padding.",
        ("Operation", "Kind", "Calls", "Physical positions", "Effective positions"),
        rows,
    )


def _cost_table(results: EpisodicResults) -> Table:
    operations = sorted({name for cost in results.cost.values() for name in cost["milliseconds"]})
    rows: list[list[Cell]] = []
    totals = [0] * len(operations)
    for unit, cost in results.cost.items():
        spent = [int(cost["milliseconds"].get(name, 0)) for name in operations]
        totals = [total + own for total, own in zip(totals, spent, strict=True)]
        rows.append([unit, *spent, sum(spent), round(cost["peak_bytes"] / 2**20)])
    peak = max(round(cost["peak_bytes"] / 2**20) for cost in results.cost.values())
    rows.append(["total", *totals, sum(totals), peak])
    return Table(
        "cost",
        "Wall time in milliseconds by operation, and the peak memory of the process in MiB. Times "
        "are of one machine on one day.",
        ("Unit", *(name.capitalize() for name in operations), "Sum", "Peak MiB"),
        rows,
    )


def answer(results: EpisodicResults) -> str:
    """Say in one sentence whether keeping what feedback taught helped."""
    trained = [arm for arm in results.arms if arm != "untrained"] or list(results.arms)
    best = min(trained, key=lambda arm: results.mean(results.risk[arm, "real_keep"]))
    gain = next(c for c in results.contrasts if c.name == f"{best} G")
    keep = 100 * results.mean(results.risk[best, "real_keep"])
    reset = 100 * results.mean(results.risk[best, "real_reset"])
    verdict = (
        "helped" if gain.lower > 0 else "hurt" if gain.upper < 0 else "made no sure difference"
    )
    return (
        f"Keeping what feedback taught {verdict}: with the {best} start, expected query error was "
        f"{keep:.2f} % kept and {reset:.2f} % reset, a gain of {gain.mean:.2f} points "
        f"(99 % interval {gain.lower:.2f} to {gain.upper:.2f})."
    )
