"""What a prefix intervention found: losses of its paths, updates on their own batch, crossings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.domains.ci.jobs import LABELS
from larc.evaluation import (
    Verdict,
    brier_success,
    half_brier,
    nested_weights,
    restrict_weights,
    weighted_mean,
)
from larc.runs.run import Run
from larc.studies.audited_run import REPLAY, replayed_settings
from larc.studies.replay_tables import unit_rows

Array = NDArray[np.float64]
ACTIVE = ("CARRY_1", "CARRY_TENTH", "LATEST_1", "LATEST_TENTH")
RESET, HEDGE = "RESET", "HEDGE4"
# A retained state counts as harmful once it has cost this much half-Brier loss.
HARM = -0.01
# Two passes over one batch at the same factors, with a gradient beside other states and without one
# alone, differ by rounding: by at most 1.4e-6 in what was tried on SmolLM2.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Job:
    """A job of the whole audit, as far as the report needs it."""

    repository: str
    name: str
    commit: str
    asked: int
    arrives: int
    label: int


@dataclass(frozen=True)
class Crossing:
    """When a state had first done harm: after how many batches of feedback, and on which jobs."""

    time: int
    batches: int
    jobs: int


@dataclass(frozen=True, eq=False)
class PrefixResults:
    """Everything the tables and figures of a prefix run are made from.

    Attributes
    ----------
    jobs
        The whole audit, each repository by asking time.
    inside
        Which of the jobs are in the prefix.
    weights
        The whole audit's weights, restricted to the prefix within each repository.
    loss
        Half-Brier losses ``[seeds, jobs of the prefix]`` by path.
    replay
        The run's own losses ``[seeds, jobs]`` by path, on the whole audit.
    updates
        One row per update: what it did to the loss of its own batch, and how far it went.
    """

    seeds: tuple[int, ...]
    jobs: tuple[Job, ...]
    inside: NDArray[np.bool_]
    weights: Array
    loss: dict[str, Array]
    replay: dict[str, Array]
    updates: tuple[dict[str, Any], ...]
    synthetic: bool

    @property
    def repositories(self) -> list[str]:
        """The repositories, in order."""
        return sorted({job.repository for job in self.jobs})

    @property
    def scores(self) -> dict[str, Array]:
        """The weighted loss of each path on the prefix, by seed."""
        return {path: weighted_mean(losses, self.weights) for path, losses in self.loss.items()}

    @property
    def verdict(self) -> Verdict:
        """Whether a tenth of each carried update is better: by 0.01, and for every seed."""
        scores = self.scores
        return brier_success(scores["CARRY_1"], scores["CARRY_TENTH"])

    def whole(self) -> Array:
        """Return the weights of the whole audit."""
        return _weights(self.jobs)

    def made(self, path: str) -> list[dict[str, Any]]:
        """Return the updates of a path."""
        return [row for row in self.updates if row["path"] == path]

    def first(self, path: str, repository: str, seed: int) -> dict[str, Any] | None:
        """Return a path's update on the first batch of feedback, if one arrives in the prefix."""
        for row in self.made(path):
            if (row["repository"], row["seed"], row["batch"]) == (repository, seed, 1):
                return row
        return None

    def arrived(self, repository: str) -> list[Job]:
        """Return the jobs whose labels arrive before the prefix's last question."""
        jobs = [j for j, i in zip(self.jobs, self.inside, strict=True) if i]
        jobs = [job for job in jobs if job.repository == repository]
        cutoff = max(job.asked for job in jobs)
        return [job for job in jobs if job.arrives < cutoff]

    def crossing(self, repository: str, seed: int, *, local: bool) -> Crossing | None:
        """Return when the kept state's gain over reset first fell below -0.01, in the whole audit.

        The gain is of all jobs asked so far, or with ``local`` of those asked at one time.
        """
        chosen = [k for k, job in enumerate(self.jobs) if job.repository == repository]
        number = self.seeds.index(seed)
        gain = (self.replay["P0M1"] - self.replay["P1M1"])[number, chosen]
        jobs = [self.jobs[k] for k in chosen]
        return first_harm(jobs, gain, self.whole()[chosen], local=local)


def first_harm(
    jobs: Sequence[Job], gain: Array, weights: Array, *, local: bool = False
) -> Crossing | None:
    """Return when the weighted mean gain of one repository's jobs first fell below -0.01.

    Examples
    --------
    >>> jobs = [Job("o/r", name, "c", asked, arrives, 0)
    ...         for name, asked, arrives in (("a", 0, 5), ("b", 5, 6), ("c", 6, 9), ("d", 7, 9))]
    >>> first_harm(jobs, np.array([0.3, 0.0, -0.2, -0.2]), np.ones(4))
    Crossing(time=7, batches=2, jobs=4)
    >>> first_harm(jobs, np.array([0.3, 0.0, -0.2, -0.2]), np.ones(4), local=True)
    Crossing(time=6, batches=1, jobs=1)
    """
    asked = np.array([job.asked for job in jobs])
    batches = np.array(sorted({job.arrives for job in jobs}))
    for time in sorted(set(asked.tolist())):
        chosen = asked == time if local else asked <= time
        if float(weighted_mean(gain[chosen], weights[chosen] / weights[chosen].sum())) < HARM:
            # What arrives at the time of a question comes after it.
            return Crossing(time, int((batches < time).sum()), int(chosen.sum()))
    return None


def load_results(run: Run) -> PrefixResults:
    """Read a run's saved predictions and updates, and score them."""
    saved = unit_rows(run, REPLAY, "predictions.parquet")
    seeds = tuple(dict.fromkeys(row["seed"] for row in saved))
    jobs = tuple(
        sorted(
            {Job(**{n: row[n] for n in Job.__dataclass_fields__}) for row in saved},
            key=lambda job: (job.repository, job.asked, job.name),
        )
    )
    events = ("replay repeated", "predictions written")
    units = sorted(unit for event in events for unit in run.recorded_units(event, "predictions"))
    rows = [row for unit in units for row in unit_rows(run, unit, "predictions.parquet")]
    updates = [row for unit in units for row in unit_rows(run, unit, "updates.parquet")]
    early = {(row["repository"], row["name"]) for row in rows}
    inside = np.array([(job.repository, job.name) in early for job in jobs])
    prefix = [job for job, chosen in zip(jobs, inside, strict=True) if chosen]
    replay = _losses(saved, seeds, jobs)
    return PrefixResults(
        seeds,
        jobs,
        inside,
        restrict_weights(_weights(jobs), inside, [job.repository for job in jobs])[inside],
        {**_losses(rows, seeds, prefix), HEDGE: replay[HEDGE][:, inside]},
        replay,
        tuple(updates),
        bool(replayed_settings(run)["synthetic"]),
    )


def label_counts(jobs: Sequence[Job]) -> str:
    """Return how many jobs there are of each label.

    Examples
    --------
    >>> label_counts([Job("o/r", "a", "c", 0, 5, 3), Job("o/r", "b", "c", 0, 5, 3)])
    '2 other'
    """
    counts = [sum(job.label == number for job in jobs) for number in range(len(LABELS))]
    return ", ".join(f"{n} {label}" for n, label in zip(counts, LABELS, strict=True) if n)


def raised(updates: Sequence[dict[str, Any]]) -> int:
    """Count the updates that raised the loss of their own batch.

    Examples
    --------
    >>> raised([{"before": 0.5, "after": 0.6}, {"before": 0.5, "after": 0.5000001}])
    1
    """
    return sum(row["after"] - row["before"] > ROUNDING for row in updates)


def _weights(jobs: Sequence[Job]) -> Array:
    return nested_weights(
        [job.repository for job in jobs],
        [job.commit for job in jobs],
        [job.name for job in jobs],
    )


def _losses(
    rows: Sequence[dict[str, Any]], seeds: Sequence[int], jobs: Sequence[Job]
) -> dict[str, Array]:
    policies = {(r["path"], r["seed"], r["repository"], r["name"]): r["policy"] for r in rows}
    labels = [job.label for job in jobs]
    return {
        path: np.stack(
            [
                half_brier([policies[path, seed, j.repository, j.name] for j in jobs], labels)
                for seed in seeds
            ]
        )
        for path in dict.fromkeys(row["path"] for row in rows)
    }
