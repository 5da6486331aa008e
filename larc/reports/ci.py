"""What a continuous-integration run found: scores by path, strata, weightings and calibration."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.ci.experts import EXPERTS
from larc.ci.jobs import LABELS
from larc.errors import LarcError
from larc.evaluation import (
    Verdict,
    brier_success,
    expected_calibration_error,
    half_brier,
    nested_weights,
    reliability,
)
from larc.reports.report import Report
from larc.reports.tables import Cell, Table
from larc.studies.parquet import from_parquet
from larc.studies.runs import Run

Array = NDArray[np.float64]
PATHS = ("P0M0", "P1M0", "P0M1", "P1M1", "PERM_M1", "ORIGINAL", "CALIBRATED", "HEDGE4")
SHOWN = {"Reset": "P0M1", "Keep": "P1M1", "Permuted": "PERM_M1", "HEDGE4": "HEDGE4"}


@dataclass(frozen=True, eq=False)
class CIResults:
    """Half-Brier losses ``[seeds, jobs]`` by path, and what is needed to weigh them."""

    seeds: tuple[int, ...]
    repositories: tuple[str, ...]
    commits: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    loss: dict[str, Array]
    policy: dict[str, Array]
    verdict: Verdict
    synthetic: bool

    def weights(self, *levels: Sequence[Hashable]) -> Array:
        """Return nested equal weights over levels, jobs last."""
        return nested_weights(*levels, self.names)

    @property
    def primary(self) -> Array:
        """Repositories equally, commits within them, jobs within those."""
        return self.weights(self.repositories, self.commits)


def load_results(run: Run) -> CIResults:
    """Read a run's saved predictions and score them."""
    seeds = tuple(run.settings["seeds"])
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        units = sorted(
            path.parent.name for path in run.path.glob(f"units/audit-{seed}-*/done.json")
        )
        for unit in units:
            rows += from_parquet(run.unit_file(unit, "predictions.parquet"), unit)
    if not rows or "predictions written" not in [entry["event"] for entry in run.evidence()]:
        raise LarcError(f"{run.path} is not finished; run the study's command again to go on.")
    jobs = {(r["repository"], r["name"]): r for r in rows if r["seed"] == seeds[0]}
    keys = sorted(jobs)
    labels = np.array([jobs[key]["label"] for key in keys])
    said = {(r["seed"], r["path"], r["repository"], r["name"]): r["policy"] for r in rows}
    policy = {
        path: np.array([[said[seed, path, *key] for key in keys] for seed in seeds])
        for path in (*PATHS, *EXPERTS)
    }
    loss = {
        path: np.stack([half_brier(own, labels) for own in by_seed])
        for path, by_seed in policy.items()
    }
    repositories = tuple(key[0] for key in keys)
    commits = tuple(jobs[key]["commit"] for key in keys)
    names = tuple(key[1] for key in keys)
    primary = nested_weights(repositories, commits, names)
    verdict = brier_success((loss["HEDGE4"] @ primary).tolist(), (loss["P1M1"] @ primary).tolist())
    synthetic = bool(run.settings["synthetic"])
    return CIResults(seeds, repositories, commits, names, labels, loss, policy, verdict, synthetic)


def tables(results: CIResults, run: Run) -> list[Table]:
    """Return the study's tables."""
    return [
        _replay(results),
        _effects(results),
        _strata(results),
        _weightings(results),
        _calibration(results),
        _updates(results, run),
    ]


def _seed_row(name: str, by_seed: Array) -> list[Cell]:
    deviation = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    return [name, *map(float, by_seed), float(by_seed.mean()), deviation]


def _columns(results: CIResults, first: str) -> tuple[str, ...]:
    return (first, *(str(seed)[-4:] for seed in results.seeds), "Mean", "Seed SD")


def _replay(results: CIResults) -> Table:
    queue = "a synthetic queue" if results.synthetic else "the audit queue"
    commits = len(set(zip(results.repositories, results.commits, strict=True)))
    rows = [_seed_row(path, results.loss[path] @ results.primary) for path in (*PATHS, *EXPERTS)]
    return Table(
        "replay",
        f"Half-Brier loss on {queue}, {len(results.names)} jobs of {commits} commits; "
        f"repositories, commits and jobs weigh equally. The last rows are HEDGE4's experts. "
        f"{results.verdict.reason}",
        _columns(results, "Path"),
        rows,
        digits=4,
    )


def _effects(results: CIResults) -> Table:
    score = {path: results.loss[path] @ results.primary for path in PATHS}
    contrasts = {
        "G: reset minus keep, with memory": score["P0M1"] - score["P1M1"],
        "G: reset minus keep, without memory": score["P0M0"] - score["P1M0"],
        "D: permuted minus real": score["PERM_M1"] - score["P1M1"],
        "Memory at reset": score["P0M0"] - score["P0M1"],
        "Memory when kept": score["P1M0"] - score["P1M1"],
        "Policy by memory": (score["P0M1"] - score["P1M1"]) - (score["P0M0"] - score["P1M0"]),
        "HEDGE4 minus P1M1": score["HEDGE4"] - score["P1M1"],
        "HEDGE4 minus P0M1": score["HEDGE4"] - score["P0M1"],
    }
    return Table(
        "effects",
        "Differences of half-Brier loss by seed; positive is favourable to what comes second.",
        _columns(results, "Contrast"),
        [_seed_row(name, values) for name, values in contrasts.items()],
        digits=4,
    )


def _strata(results: CIResults) -> Table:
    rows: list[list[Cell]] = []
    repositories = np.array(results.repositories)
    for repository in sorted(set(results.repositories)):
        inside = repositories == repository
        for name in ("All", *(label.capitalize() for label in LABELS)):
            chosen = inside
            if name != "All":
                chosen = inside & (results.labels == LABELS.index(name.lower()))
            count = int(chosen.sum())
            if not count:
                continue
            commits = [c for c, keep in zip(results.commits, chosen, strict=True) if keep]
            names = [n for n, keep in zip(results.names, chosen, strict=True) if keep]
            weights = nested_weights(commits, names) if name == "All" else np.full(count, 1 / count)
            scores = [
                float((results.loss[path][:, chosen] @ weights).mean()) for path in SHOWN.values()
            ]
            rows.append([repository, name, count, len(set(commits)), *scores])
    return Table(
        "strata",
        "Half-Brier loss by repository and observed label, seeds averaged. Rows of all labels "
        "weigh commits equally, the others jobs.",
        ("Repository", "Label", "Jobs", "Commits", *SHOWN),
        rows,
        digits=4,
    )


def _weightings(results: CIResults) -> Table:
    pairs = list(zip(results.repositories, results.commits, strict=True))
    ways = {
        "Repository then commit (primary)": results.primary,
        "Commit": results.weights(pairs),
        "Job": np.full(len(results.names), 1 / len(results.names)),
    }
    return Table(
        "weightings",
        "The same predictions under three weightings, seeds averaged.",
        ("Aggregation", *SHOWN),
        [
            [name, *(float((results.loss[path] @ w).mean()) for path in SHOWN.values())]
            for name, w in ways.items()
        ],
        digits=4,
    )


def _calibration(results: CIResults) -> Table:
    rows = []
    for path in PATHS:
        errors = [
            expected_calibration_error(reliability(own, results.labels, weights=results.primary))
            for own in results.policy[path]
        ]
        rows.append(_seed_row(path, np.array(errors)))
    return Table(
        "calibration",
        "Expected calibration error of the most probable label, ten bins, primary weights.",
        _columns(results, "Path"),
        rows,
        digits=4,
    )


def _updates(results: CIResults, run: Run) -> Table:
    found: dict[str, list[tuple[float, float]]] = {}
    for path in sorted(run.path.glob("units/audit-*/updates.parquet")):
        for row in from_parquet(path.read_bytes(), str(path)):
            found.setdefault(row["path"], []).append((row["loss"], row["distance"]))
    return Table(
        "updates",
        "Updates of the paths that learn: how many, the mean loss on their own batch before them, "
        "and how far the factors moved.",
        ("Path", "Updates", "Loss before", "Distance", "Largest distance"),
        [
            [
                name,
                len(values),
                float(np.mean([loss for loss, _ in values])),
                float(np.mean([d for _, d in values])),
                float(np.max([d for _, d in values])),
            ]
            for name, values in sorted(found.items())
        ],
        digits=4,
    )


def answer(results: CIResults) -> str:
    """Say in one sentence whether keeping what late labels taught helped."""
    reset = float((results.loss["P0M1"] @ results.primary).mean())
    keep = float((results.loss["P1M1"] @ results.primary).mean())
    hedge = float((results.loss["HEDGE4"] @ results.primary).mean())
    verb = "lowered" if keep < reset else "raised"
    queue = "a synthetic queue" if results.synthetic else "this queue"
    return (
        f"On {queue}, keeping online updates {verb} half-Brier loss from {reset:.4f} (reset) to "
        f"{keep:.4f}; HEDGE4, without a model, has {hedge:.4f}."
    )


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    found = load_results(run)
    return Report(
        "The continuous-integration study" + (" (synthetic jobs)" if found.synthetic else ""),
        "Does keeping what late labels taught predict the next jobs better than going back to the "
        "trained start, and better than HEDGE4, which has no model?",
        answer(found),
        tables(found, run),
    )
