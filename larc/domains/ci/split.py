"""Training and audit windows of job histories, with no commit in both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from larc.domains.ci.jobs import Job
from larc.errors import LarcError, reason

#: Queues that are declared here; any other name is a file.
DECLARED = ("standard", "larger")


@dataclass(frozen=True)
class Window:
    """Jobs that start in a time window, at most a number of them; times are epoch seconds."""

    since: int | None = None
    until: int | None = None
    jobs: int | None = None

    def select(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the window's jobs in the order they start."""
        inside = [
            job
            for job in sorted(jobs, key=lambda job: (job.started_at, job.job_id))
            if (self.since is None or job.started_at >= self.since)
            and (self.until is None or job.started_at < self.until)
        ]
        return inside[: self.jobs]


@dataclass(frozen=True)
class Split:
    """What a study trains on and what it is audited on, and what was left out.

    Attributes
    ----------
    shared_commits, shared_jobs
        Commits that would be in both, and their jobs.
    late_jobs
        Training jobs whose labels arrive after the audit of their repository has begun.
    """

    training: tuple[Job, ...]
    audit: tuple[Job, ...]
    shared_commits: int
    shared_jobs: int
    late_jobs: int = 0


def parse_window(text: str) -> Window:
    """Return the window that a text names: dates ``A..B``, a number of jobs, or both.

    Examples
    --------
    >>> parse_window("400")
    Window(since=None, until=None, jobs=400)
    >>> parse_window("2025-09-06..,250").jobs
    250
    >>> parse_window("soon")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 'soon' is no window; write A..B with dates, a number of jobs, or both.
    """
    since = until = jobs = None
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part.isdigit():
            jobs = int(part)
        elif re.fullmatch(r"[\d-]*\.\.[\d-]*", part):
            first, last = part.split("..")
            since = _seconds(first) if first else None
            until = _seconds(last) if last else None
        else:
            raise LarcError(
                f"{text!r} is no window; write A..B with dates, a number of jobs, or both."
            )
    return Window(since, until, jobs)


def load_queue(name: str) -> dict[str, tuple[Window, Window]]:
    """Return a queue's training and audit windows by repository: of a declared one, or of a file.

    Examples
    --------
    >>> sorted(load_queue("standard"))
    ['apache/ozone', 'bitcoin/bitcoin']
    >>> load_queue("larger")["bitcoin/bitcoin"][1].jobs
    2500
    """
    try:
        if name in DECLARED:
            file = files("larc.domains.ci").joinpath(f"{name}_queue.yaml")
            text = file.read_text(encoding="utf-8")
        else:
            text = Path(name).read_text(encoding="utf-8")
        declared: Any = yaml.safe_load(text)
        return {
            repository: (_window(windows["train"]), _window(windows["audit"]))
            for repository, windows in declared.items()
        }
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise LarcError(f"the queue {name} could not be read ({reason(error)}).") from error
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise LarcError(
            f"the queue {name} needs a train and an audit window for each repository "
            f"({reason(error)})."
        ) from error


def split_jobs(
    jobs: Iterable[Job], windows: Mapping[str, tuple[Window, Window]] | tuple[Window, Window]
) -> Split:
    """Divide jobs into training and audit.

    Left out are every commit that would be in both, and training jobs that were not finished when
    the first audit job of their repository started: what they became was not known then.

    Parameters
    ----------
    jobs
        Jobs of any number of repositories.
    windows
        Windows by repository, or one pair for all of them. An audit window that only counts jobs
        begins where training ends.
    """
    by_repository: dict[str, list[Job]] = {}
    for job in jobs:
        by_repository.setdefault(job.repository, []).append(job)
    training: list[Job] = []
    audit: list[Job] = []
    for repository in sorted(by_repository):
        if isinstance(windows, Mapping) and repository not in windows:
            continue
        train, test = windows[repository] if isinstance(windows, Mapping) else windows
        history = by_repository[repository]
        learned = train.select(history)
        rest = history
        if test.since is None and learned:
            latest = (learned[-1].started_at, learned[-1].job_id)
            rest = [job for job in history if (job.started_at, job.job_id) > latest]
        training += learned
        audit += test.select(rest)
    both = {_commit(job) for job in training} & {_commit(job) for job in audit}
    apart, tested = (
        tuple(job for job in side if _commit(job) not in both) for side in (training, audit)
    )
    dropped = len(training) + len(audit) - len(apart) - len(tested)
    begins: dict[str, int] = {}
    for job in tested:
        begins[job.repository] = min(job.started_at, begins.get(job.repository, job.started_at))
    known = tuple(
        job for job in apart if job.completed_at <= begins.get(job.repository, job.completed_at)
    )
    if not known or not tested:
        raise LarcError(
            f"the windows hold {len(known)} training and {len(tested)} audit jobs of the "
            f"repositories {', '.join(sorted(by_repository)) or '(none)'}; both need some."
        )
    return Split(known, tested, len(both), dropped, len(apart) - len(known))


def _commit(job: Job) -> tuple[str, str]:
    return (job.repository, job.head_sha)


def _window(facts: Mapping[str, Any]) -> Window:
    unknown = set(facts) - {"since", "until", "jobs"}
    if unknown:
        raise ValueError(f"a window has no {', '.join(sorted(unknown))}")
    times: Sequence[int | None] = [
        _seconds(str(facts[name])) if facts.get(name) is not None else None
        for name in ("since", "until")
    ]
    return Window(times[0], times[1], facts.get("jobs"))


def _seconds(text: str) -> int:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise LarcError(f"{text!r} is no date; write it as 2025-09-06.") from error
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
