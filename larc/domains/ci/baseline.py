"""HEDGE4 and its experts alone, over whole histories: no model is needed.

On two public histories their scores are not blind to how one expert was made:
:data:`larc.domains.ci.experts.CHOICE`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from larc.domains.ci.accounting import Accounting
from larc.domains.ci.experts import EXPERTS, HedgeSettings, half_brier
from larc.domains.ci.hedge_replay import HedgeReplay, Prediction
from larc.domains.ci.jobs import Job
from larc.evaluation import nested_mean
from larc.stream.queue import split_streams

#: Everything that is scored.
PREDICTORS = ("hedge4", *EXPERTS)


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """The mean half-Brier loss of every predictor, and the rows it rests on.

    Parameters
    ----------
    accounting
        What became of the rows.
    half_brier
        By predictor, then by weights. Under ``commit`` the jobs of a commit weigh equally, as do
        the commits of a repository, and the repositories; under ``job`` all jobs do. A loss is
        ``None`` where there is no job.
    repositories
        Jobs and commits of each repository, and its own losses.
    """

    accounting: Accounting
    half_brier: Mapping[str, Mapping[str, float | None]]
    repositories: Mapping[str, Mapping[str, object]]

    def to_json(self) -> str:
        """Return the report as JSON text on one line, the same bytes for the same jobs."""
        facts = {
            "rows": self.accounting.rows(),
            "half_brier": self.half_brier,
            "repositories": self.repositories,
        }
        return json.dumps(facts, allow_nan=False)


def replay(jobs: Iterable[Job], settings: HedgeSettings | None = None) -> Iterator[Prediction]:
    """Yield a prediction for every job, made from the labels that had arrived when it started.

    Every repository has a HEDGE4 of its own, which starts knowing nothing.

    Examples
    --------
    >>> first = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    >>> early = first._replace(started_at=20, completed_at=30, job_id=2)
    >>> late = first._replace(started_at=21, completed_at=31, job_id=3)
    >>> for prediction in replay([late, early, first]):
    ...     print(prediction.job.job_id, [round(p, 2) for p in prediction.forecast.experts[1]])
    1 [0.25, 0.25, 0.25, 0.25]
    2 [0.25, 0.25, 0.25, 0.25]
    3 [0.1, 0.7, 0.1, 0.1]
    """
    for stream in split_streams(jobs, stream=lambda job: job.repository).values():
        yield from HedgeReplay(settings).follow(stream)


def baseline(jobs: Iterable[Job], accounting: Accounting | None = None) -> BaselineReport:
    """Score HEDGE4 and its experts over whole histories, each prediction before its label.

    Parameters
    ----------
    jobs
        Jobs of one repository or several, in any order.
    accounting
        What `larc.domains.ci.read_jobs` gave with them. Without it the jobs are the rows.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    >>> report = baseline([job, job._replace(started_at=21, completed_at=31, job_id=2)])
    >>> report.half_brier["prior"]
    {'commit': 0.3075, 'job': 0.3075}
    """
    by_repository: dict[str, tuple[list[str], list[list[float]]]] = {}
    for prediction in replay(jobs):
        job, forecast = prediction.job, prediction.forecast
        commits, losses = by_repository.setdefault(job.repository, ([], []))
        commits.append(job.head_sha)
        losses.append([half_brier(p, job.label) for p in (forecast.mixture, *forecast.experts)])
    repositories: dict[str, dict[str, object]] = {
        repository: {
            "jobs": len(losses),
            "commits": len(set(commits)),
            "half_brier": _scores([repository] * len(losses), commits, losses),
        }
        for repository, (commits, losses) in by_repository.items()
    }
    names = [repository for repository, (commits, _) in by_repository.items() for _ in commits]
    commits = [commit for shas, _ in by_repository.values() for commit in shas]
    rows = [row for _, losses in by_repository.values() for row in losses]
    return BaselineReport(
        accounting or Accounting(len(rows), len(rows), {}),
        _scores(names, commits, rows),
        repositories,
    )


def _scores(
    repositories: Sequence[str], commits: Sequence[str], losses: Sequence[Sequence[float]]
) -> dict[str, dict[str, float | None]]:
    if not losses:
        return {predictor: {"commit": None, "job": None} for predictor in PREDICTORS}
    by_commit = nested_mean(losses, repositories, commits).tolist()
    by_job = nested_mean(losses).tolist()
    return {
        predictor: {"commit": commit, "job": job}
        for predictor, commit, job in zip(PREDICTORS, by_commit, by_job, strict=True)
    }
