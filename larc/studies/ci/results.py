"""What a continuous-integration run found: what was said of every job, and its loss."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from larc.domains.ci.experts import EXPERTS
from larc.evaluation import (
    Intervals,
    Reliability,
    Verdict,
    bootstrap_intervals,
    brier_success,
    half_brier,
    nested_weights,
    reliability,
    weighted_mean,
)
from larc.runs.run import Run
from larc.studies.replay_tables import predicted_rows

Array = NDArray[np.float64]
PATHS = ("P0M0", "P1M0", "P0M1", "P1M1", "PERM_M1", "ORIGINAL", "CALIBRATED", "HEDGE4")
#: How the strategies from states trained through the window are called.
THROUGH = "THROUGH_"
#: The seed of the bootstrap: the same commits are drawn for every difference.
DRAWS = 20261119
#: Differences that get an interval over commits: a name, what should be worse, and better.
PAIRS = (
    ("G: reset minus keep, with memory", "P0M1", "P1M1"),
    ("G: reset minus keep, without memory", "P0M0", "P1M0"),
    ("D: permuted minus real", "PERM_M1", "P1M1"),
    ("HEDGE4 minus P1M1", "HEDGE4", "P1M1"),
    ("HEDGE4 minus P0M1", "HEDGE4", "P0M1"),
    ("Logistic minus P0M0", "logistic", "P0M0"),
    ("Logistic minus P1M0", "logistic", "P1M0"),
    ("G with memory, trained through the window", f"{THROUGH}P0M1", f"{THROUGH}P1M1"),
    ("G without memory, trained through the window", f"{THROUGH}P0M0", f"{THROUGH}P1M0"),
    ("Logistic minus reset, trained through the window", "logistic", f"{THROUGH}P0M0"),
    ("Logistic minus keep, trained through the window", "logistic", f"{THROUGH}P1M0"),
)
SHOWN = {"Reset": "P0M1", "Keep": "P1M1", "Permuted": "PERM_M1", "HEDGE4": "HEDGE4"}


@dataclass(frozen=True, eq=False)
class CIResults:
    """Predictions ``[seeds, jobs, labels]`` and half-Brier losses ``[seeds, jobs]`` by path.

    The other fields have one entry per job: what is needed to weigh them and to order them.
    """

    seeds: tuple[int, ...]
    repositories: tuple[str, ...]
    commits: tuple[str, ...]
    names: tuple[str, ...]
    asked: NDArray[np.int64]
    labels: NDArray[np.int64]
    loss: dict[str, Array]
    policy: dict[str, Array]
    verdict: Verdict
    synthetic: bool

    @property
    def paths(self) -> list[str]:
        """Every path that was replayed, HEDGE4 last; its experts are none."""
        return [path for path in self.loss if path not in EXPERTS]

    def weights(self, *levels: Sequence[Hashable]) -> Array:
        """Return nested equal weights over levels, jobs last."""
        return nested_weights(*levels, self.names)

    @property
    def primary(self) -> Array:
        """Repositories equally, commits within them, jobs within those."""
        return self.weights(self.repositories, self.commits)

    def scores(self, path: str) -> Array:
        """Return a path's loss by seed, with the primary weights."""
        return weighted_mean(self.loss[path], self.primary)

    @property
    def path_scores(self) -> dict[str, Array]:
        """The loss by seed of every path that contrasts are made of."""
        through = [path for path in self.loss if path.startswith(THROUGH)]
        return {path: self.scores(path) for path in (*PATHS, *through)}


def load_results(run: Run) -> CIResults:
    """Read a run's saved predictions and score them."""
    seeds = tuple(run.settings["seeds"])
    rows = predicted_rows(run)
    jobs = {(r["repository"], r["name"]): r for r in rows if r["seed"] == seeds[0]}
    keys = sorted(jobs)
    labels = np.array([jobs[key]["label"] for key in keys])
    asked = np.array([jobs[key]["asked"] for key in keys])
    policies = {(r["seed"], r["path"], r["repository"], r["name"]): r["policy"] for r in rows}
    further = {row["path"] for row in rows} - {*PATHS, *EXPERTS}
    paths = (*PATHS[:-1], *sorted(further), PATHS[-1])
    policy = {
        path: np.array([[policies[seed, path, *key] for key in keys] for seed in seeds])
        for path in (*paths, *EXPERTS)
    }
    loss = {
        path: np.stack([half_brier(probabilities, labels) for probabilities in by_seed])
        for path, by_seed in policy.items()
    }
    repositories = tuple(key[0] for key in keys)
    commits = tuple(jobs[key]["commit"] for key in keys)
    names = tuple(key[1] for key in keys)
    primary = nested_weights(repositories, commits, names)
    hedge, keep = (weighted_mean(loss[path], primary).tolist() for path in ("HEDGE4", "P1M1"))
    verdict = brier_success(hedge, keep)
    synthetic = bool(run.settings["synthetic"])
    return CIResults(
        seeds, repositories, commits, names, asked, labels, loss, policy, verdict, synthetic
    )


def contrasts(score: Mapping[str, Array]) -> dict[str, tuple[str, Array]]:
    """Return the differences that are asked about: a short name, the whole name, and by seed.

    Parameters
    ----------
    score
        The loss of each path by seed.
    """
    with_memory = score["P0M1"] - score["P1M1"]
    plain = score["P0M0"] - score["P1M0"]
    losses_by_path = {
        "G with memory": ("G: reset minus keep, with memory", with_memory),
        "G without memory": ("G: reset minus keep, without memory", plain),
        "D": ("D: permuted minus real", score["PERM_M1"] - score["P1M1"]),
        "Memory at reset": ("Memory at reset", score["P0M0"] - score["P0M1"]),
        "Memory when kept": ("Memory when kept", score["P1M0"] - score["P1M1"]),
        "Policy by memory": ("Policy by memory", with_memory - plain),
        "HEDGE4 − P1M1": ("HEDGE4 minus P1M1", score["HEDGE4"] - score["P1M1"]),
        "HEDGE4 − P0M1": ("HEDGE4 minus P0M1", score["HEDGE4"] - score["P0M1"]),
    }
    if f"{THROUGH}P1M1" not in score:
        return losses_by_path
    # The same of states that were trained through the window.
    reset, keep = (f"{THROUGH}P{kept}M" for kept in (0, 1))
    return {
        **losses_by_path,
        "G with memory, through": (
            "G with memory, trained through the window",
            score[f"{reset}1"] - score[f"{keep}1"],
        ),
        "G without memory, through": (
            "G without memory, trained through the window",
            score[f"{reset}0"] - score[f"{keep}0"],
        ),
        "D, through": (
            "D, trained through the window",
            score[f"{THROUGH}PERM_M1"] - score[f"{keep}1"],
        ),
        "P1M1 − THROUGH_P1M1": (
            "Training through the window, kept with memory",
            score["P1M1"] - score[f"{keep}1"],
        ),
    }


def commit_gains(results: CIResults) -> list[tuple[str, Intervals]]:
    """Return differences of loss with their intervals over commits, drawn within repositories.

    A name, and by how much the path that it names first loses more than the second.
    """
    keys = list(zip(results.repositories, results.commits, strict=True))
    commits = list(dict.fromkeys(keys))
    index_of = {key: number for number, key in enumerate(commits)}
    of_job = np.array([index_of[key] for key in keys])
    jobs = np.bincount(of_job)
    gains = []
    for name, worse, better in PAIRS:
        if worse in results.loss and better in results.loss:
            difference = (results.loss[worse] - results.loss[better]).mean(0)
            values = np.bincount(of_job, difference) / jobs
            families = [repository for repository, _ in commits]
            gains.append((name, bootstrap_intervals(values, families, seed=DRAWS)))
    return gains


def path_bins(results: CIResults) -> dict[str, Reliability]:
    """Return each path's reliability bins; each prediction of each seed is one."""
    labels, weights = (
        np.tile(values, len(results.seeds)) for values in (results.labels, results.primary)
    )
    return {
        path: reliability(np.concatenate(list(results.policy[path])), labels, weights=weights)
        for path in results.paths
    }
