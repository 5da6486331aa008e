"""Which part of a CI run's audit the prefix intervention replays."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from larc.domains.ci.jobs import Job
from larc.errors import LarcError
from larc.studies.audited_run import AuditedRun, audited
from larc.studies.prefix.settings import PrefixSettings


@dataclass(frozen=True)
class Prefix:
    """A run, and for each repository the time at which the last job of the prefix is asked."""

    about: AuditedRun
    cutoffs: dict[str, int]


def prefix_of(settings: PrefixSettings) -> Prefix:
    """Open the run and find where its prefix ends."""
    about = audited(settings)
    cutoffs = find_cutoffs(about.split.audit, settings.prefix)
    if not any(job.completed_at < cutoffs[job.repository] for job in about.split.audit):
        raise LarcError(
            f"no label arrives within the prefix of {settings.prefix}, so no path learns anything "
            "there; give a longer --prefix."
        )
    return Prefix(about, cutoffs)


def find_cutoffs(jobs: Iterable[Job], text: str) -> dict[str, int]:
    """Return when the last job of each repository's prefix starts.

    What starts at one time is asked together, so a job that starts at that time is in the prefix
    too, beyond the number or the share.

    Examples
    --------
    >>> from larc.domains.ci.synthetic import synthetic_jobs
    >>> jobs = synthetic_jobs(40, seed=1)
    >>> cutoffs = find_cutoffs(jobs, "25%")
    >>> [sum(job.repository == one and job.started_at <= cutoffs[one] for job in jobs)
    ...  for one in sorted(cutoffs)]
    [5, 5]
    >>> find_cutoffs(jobs, "some")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 'some' is no prefix; write a share up to 100%, or a number of jobs.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    amount = float(match[1]) if match else 0.0
    if not match or not amount or (match[2] and amount > 100) or not (match[2] or amount % 1 == 0):
        raise LarcError(f"{text!r} is no prefix; write a share up to 100%, or a number of jobs.")
    starts: dict[str, list[int]] = {}
    for job in jobs:
        starts.setdefault(job.repository, []).append(job.started_at)
    cutoffs = {}
    for repository, times in sorted(starts.items()):
        number = math.ceil(len(times) * amount / 100) if match[2] else min(int(amount), len(times))
        cutoffs[repository] = sorted(times)[number - 1]
    return cutoffs
