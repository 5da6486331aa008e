"""HEDGE4 and its experts alone, over whole histories: no model is needed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from larc.ci.accounting import Accounting
from larc.ci.experts import EXPERTS, Arrival, Forecast, Hedge4, HedgeSettings, half_brier
from larc.ci.jobs import Job
from larc.stream.queue import Ask, order_events, split_streams

#: Everything that is scored.
PREDICTORS = ("hedge4", *EXPERTS)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A job, and what was said about it when it started."""

    job: Job
    forecast: Forecast


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
        """Return the report as JSON text, the same bytes for the same jobs."""
        report = {
            "rows": self.accounting.rows(),
            "half_brier": self.half_brier,
            "repositories": self.repositories,
        }
        return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def replay(jobs: Iterable[Job], settings: HedgeSettings | None = None) -> Iterator[Prediction]:
    """Yield a prediction for every job, made from the labels that had arrived when it started.

    Every repository has a HEDGE4 of its own, which starts knowing nothing.

    Examples
    --------
    >>> first = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    >>> early = first._replace(started_at=20, completed_at=30, job_id=2)
    >>> late = first._replace(started_at=21, completed_at=31, job_id=3)
    >>> for said in replay([late, early, first]):
    ...     print(said.job.job_id, [round(p, 2) for p in said.forecast.experts[1]])
    1 [0.25, 0.25, 0.25, 0.25]
    2 [0.25, 0.25, 0.25, 0.25]
    3 [0.1, 0.7, 0.1, 0.1]
    """
    for stream in split_streams(jobs, stream=lambda job: job.repository).values():
        hedge = Hedge4(settings)
        pending: dict[int, Forecast] = {}
        for event in order_events(
            stream,
            asked=lambda job: job.started_at,
            arrives=lambda job: job.completed_at,
            identifier=lambda job: job.job_id,
        ):
            if isinstance(event, Ask):
                for job in event.items:
                    forecast = pending[job.job_id] = hedge.predict(job.observation)
                    yield Prediction(job, forecast)
            else:
                hedge.update(
                    [
                        Arrival(job.observation, pending.pop(job.job_id), job.label)
                        for job in event.items
                    ]
                )


def baseline(jobs: Iterable[Job], accounting: Accounting | None = None) -> BaselineReport:
    """Score HEDGE4 and its experts over whole histories, each prediction before its label.

    Parameters
    ----------
    jobs
        Jobs of one repository or several, in any order.
    accounting
        What :func:`larc.ci.readers.read_jobs` gave with them. Without it the jobs are the rows.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    >>> report = baseline([job, job._replace(started_at=21, completed_at=31, job_id=2)])
    >>> report.half_brier["prior"]
    {'commit': 0.3075, 'job': 0.3075}
    """
    losses: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    count = 0
    for prediction in replay(jobs):
        job, forecast = prediction.job, prediction.forecast
        said = (forecast.mixture, *forecast.experts)
        row = tuple(half_brier(probabilities, job.label) for probabilities in said)
        losses.setdefault(job.repository, {}).setdefault(job.head_sha, []).append(row)
        count += 1
    repositories: dict[str, dict[str, object]] = {
        repository: {
            "jobs": sum(len(rows) for rows in commits.values()),
            "commits": len(commits),
            "half_brier": _scores([commits]),
        }
        for repository, commits in losses.items()
    }
    return BaselineReport(
        accounting or Accounting(count, count, {}),
        _scores(list(losses.values())),
        repositories,
    )


def _scores(
    repositories: Sequence[Mapping[str, Sequence[tuple[float, ...]]]],
) -> dict[str, dict[str, float | None]]:
    scores: dict[str, dict[str, float | None]] = {}
    for index, predictor in enumerate(PREDICTORS):
        grouped = [
            [[row[index] for row in rows] for rows in commits.values()] for commits in repositories
        ]
        scores[predictor] = {
            "commit": _mean(
                [_mean([_mean(rows) for rows in commits]) for commits in grouped],
            ),
            "job": _mean([loss for commits in grouped for rows in commits for loss in rows]),
        }
    return scores


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    # An exact sum: the mean does not depend on the order of the jobs.
    return math.fsum(known) / len(known) if known else None
