"""What is shown of repositories, put together from the tables; nothing here changes anything."""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.domains.ci.jobs import LABELS
from larc.service.github.repositories import by_name
from larc.service.github.tables import delivery, job, repository
from larc.service.github.views import (
    EndedJobView,
    FlakyCase,
    FlakyView,
    Quantiles,
    RepositoriesView,
    RepositoryCounts,
    RepositorySummary,
    RepositoryView,
    RunningJobView,
    WhatIf,
)
from larc.service.store.database import now

#: From which probabilities of failure on the ledger cancels.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
#: The most of each list.
SHOWN = 50
#: How many earlier jobs of a name a time rests on, at most: the latest.
_LATEST = 200
#: How many jobs that ended are searched for surprises and for flaky ones: the latest.
_SEARCHED = 5000
_SUCCESS, _FAILURE = 0, 1


def repositories_view(connection: Connection, globs: Sequence[str]) -> RepositoriesView:
    """Return the repositories whose streams match one of the globs, by name."""
    running = sa.func.sum(sa.case((job.c.state == "asked", 1), else_=0))
    ended = sa.func.sum(sa.case((job.c.label.is_not(None), 1), else_=0))
    query = (
        sa.select(repository, running.label("running"), ended.label("ended"))
        .select_from(repository)
        .outerjoin(job, job.c.repository == repository.c.id)
        .group_by(*repository.c)
        .order_by(repository.c.full_name)
    )
    return RepositoriesView(
        repositories=[
            RepositorySummary(
                repository=row.full_name,
                repository_id=row.id,
                stream=row.stream,
                running=row.running or 0,
                ended=row.ended or 0,
                last_event_at=row.last_event_at,
            )
            for row in connection.execute(query)
            if any(fnmatch.fnmatchcase(row.stream, glob) for glob in globs)
        ]
    )


def repository_view(
    connection: Connection, full_name: str, surprise_below: float
) -> RepositoryView | None:
    """Return everything that is shown of a repository, or nothing where it is not followed."""
    row = by_name(connection, full_name)
    if row is None:
        return None
    at = now(connection)
    ended = _ended(connection, row.id)
    recent = [_ended_view(one, surprise_below) for one in ended]
    return RepositoryView(
        repository=row.full_name,
        repository_id=row.id,
        stream=row.stream,
        labels=list(LABELS),
        at=at,
        surprise_below=surprise_below,
        counts=_counts(connection, row.id),
        running=running_jobs(connection, row.id, at),
        surprises=[one for one in recent if one.surprise][:SHOWN],
        recent=recent[:SHOWN],
        flaky=flaky_jobs(ended),
        what_if=what_if(connection, row.id),
        last_event_at=row.last_event_at,
    )


def _counts(connection: Connection, number: int) -> RepositoryCounts:
    mine = job.c.repository == number
    rows = connection.execute(
        sa.select(job.c.state, job.c.status, job.c.reason, sa.func.count().label("jobs"))
        .where(mine)
        .group_by(job.c.state, job.c.status, job.c.reason)
    ).all()
    left_out: dict[str, int] = {}
    for one in rows:
        if one.state == "left out":
            reason = one.reason or "other"
            left_out[reason] = left_out.get(reason, 0) + one.jobs
    predicted = sa.select(sa.func.count()).where(mine, job.c.risk.is_not(None))
    waiting = sa.select(sa.func.count()).where(
        delivery.c.repository == number, delivery.c.status == "waiting"
    )
    return RepositoryCounts(
        jobs=sum(one.jobs for one in rows),
        queued=sum(one.jobs for one in rows if one.status == "queued"),
        running=sum(one.jobs for one in rows if one.state == "asked"),
        ended=sum(one.jobs for one in rows if one.state in ("held", "done")),
        predicted=connection.execute(predicted).scalar_one(),
        left_out=dict(sorted(left_out.items())),
        waiting=connection.execute(waiting).scalar_one(),
    )


# Running -----------------------------------------------------------------------------------------


def running_jobs(connection: Connection, number: int, at: float) -> list[RunningJobView]:
    """Return the jobs that run, by risk times the time left, highest first."""
    query = sa.select(job).where(job.c.repository == number, job.c.state == "asked")
    rows = connection.execute(query).all()
    durations: dict[Any, list[int]] = {}
    views = []
    for row in rows:
        kind = (row.workflow_id, row.name)
        if kind not in durations:
            durations[kind] = _durations(connection, row)
        elapsed = max(at - row.started_at, 0.0)
        remaining = time_left(durations[kind], elapsed)
        order = None if row.risk is None or remaining is None else row.risk * remaining.p50
        views.append(
            RunningJobView(
                job_id=row.id,
                run_id=row.run,
                attempt=row.attempt,
                question=row.question,
                name=row.name,
                workflow=row.workflow,
                path=row.path,
                event=row.event,
                commit=row.commit,
                branch=row.branch,
                url=row.url,
                started_at=row.started_at,
                elapsed_s=elapsed,
                probabilities=_probabilities(row),
                risk=row.risk,
                remaining=remaining,
                order=order,
            )
        )
    # Without a time the risk decides, after all that have one.
    views.sort(key=lambda one: (one.order is None, -(one.order or 0.0), -(one.risk or 0.0)))
    return views


def _durations(connection: Connection, row: Row[Any]) -> list[int]:
    """Return how long the latest jobs of a job's kind ran, as far as they had a runner."""
    same = [job.c.repository == row.repository, job.c.name == row.name]
    same.append(
        job.c.workflow_id.is_(None)
        if row.workflow_id is None
        else job.c.workflow_id == row.workflow_id
    )
    query = (
        sa.select(job.c.completed_at - job.c.started_at)
        .where(*same, job.c.label.in_([_SUCCESS, _FAILURE]), job.c.ran.is_(True))
        .order_by(job.c.completed_at.desc())
        .limit(_LATEST)
    )
    return [seconds for seconds in connection.execute(query).scalars() if seconds >= 0]


def time_left(durations: Sequence[float], elapsed: float) -> Quantiles | None:
    """Return the time that a job still needs, from those that ran for longer than it has by now.

    Examples
    --------
    >>> time_left([60, 80, 100], elapsed=70)
    Quantiles(p10=10.0, p50=10.0, p90=30.0, count=2)
    >>> time_left([60], elapsed=70) is None
    True
    """
    left = sorted(one - elapsed for one in durations if one > elapsed)
    if not left:
        return None
    p10, p50, p90 = (_quantile(left, share) for share in (0.1, 0.5, 0.9))
    return Quantiles(p10=p10, p50=p50, p90=p90, count=len(left))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least so large a share does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


# Ended -------------------------------------------------------------------------------------------


def _ended(connection: Connection, number: int) -> list[Row[Any]]:
    query = (
        sa.select(job)
        .where(job.c.repository == number, job.c.state.in_(["held", "done"]))
        .order_by(job.c.completed_at.desc(), job.c.id.desc())
        .limit(_SEARCHED)
    )
    return list(connection.execute(query))


def _ended_view(row: Row[Any], surprise_below: float) -> EndedJobView:
    probabilities = _probabilities(row)
    probability = None if probabilities is None else probabilities[row.label]
    return EndedJobView(
        job_id=row.id,
        question=row.question,
        name=row.name,
        commit=row.commit,
        url=row.url,
        started_at=row.started_at,
        completed_at=row.completed_at,
        conclusion=row.conclusion,
        label=row.label,
        probabilities=probabilities,
        probability=probability,
        surprise=probability is not None and probability < surprise_below,
    )


def _probabilities(row: Row[Any]) -> list[float] | None:
    return None if row.probabilities is None else json.loads(row.probabilities)


def flaky_jobs(ended: Sequence[Row[Any]]) -> list[FlakyView]:
    """Return jobs that ended in success and in failure on one commit, most commits first."""
    kinds: dict[Any, dict[str, list[Row[Any]]]] = {}
    for row in ended:
        if row.label in (_SUCCESS, _FAILURE):
            commits = kinds.setdefault((row.workflow_id, row.name), {})
            commits.setdefault(row.commit, []).append(row)
    views = []
    for (_, name), commits in kinds.items():
        cases = []
        for commit, rows in commits.items():
            good = [row for row in rows if row.label == _SUCCESS]
            bad = [row for row in rows if row.label == _FAILURE]
            if good and bad:
                last = max(rows[0].completed_at, rows[-1].completed_at)
                cases.append(
                    FlakyCase(commit=commit, succeeded=good[0].id, failed=bad[0].id, at=last)
                )
        if cases:
            first = next(iter(commits.values()))[0]
            views.append(
                FlakyView(
                    name=name,
                    workflow=first.workflow,
                    commits=len(cases),
                    repeated=sum(len(rows) > 1 for rows in commits.values()),
                    cases=cases[:5],
                )
            )
    views.sort(key=lambda one: (-one.commits, one.name))
    return views[:SHOWN]


def what_if(connection: Connection, number: int) -> list[WhatIf]:
    """Return the ledger: what cancelling from each probability on would have saved and lost."""
    seconds = job.c.completed_at - job.c.started_at
    ledger = []
    for threshold in THRESHOLDS:
        rows = connection.execute(
            sa.select(
                job.c.label, sa.func.count().label("jobs"), sa.func.sum(seconds).label("seconds")
            )
            .where(job.c.repository == number, job.c.risk >= threshold)
            .where(job.c.label.is_not(None), job.c.state.in_(["held", "done"]))
            .group_by(job.c.label)
        ).all()
        counts = {row.label: (row.jobs, float(row.seconds)) for row in rows}
        saved, lost = counts.get(_FAILURE, (0, 0.0)), counts.get(_SUCCESS, (0, 0.0))
        total = sum(count for count, _ in counts.values())
        ledger.append(
            WhatIf(
                at=threshold,
                cancelled=total,
                saved=saved[0],
                saved_s=saved[1],
                lost=lost[0],
                lost_s=lost[1],
                other=total - saved[0] - lost[0],
            )
        )
    return ledger
