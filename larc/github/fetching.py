"""Fetch the jobs of a repository from GitHub, whole and resumable."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from larc.checks import checked_path
from larc.errors import LarcError
from larc.github.client import LONGEST_WAIT, PUBLIC, GitHub, checked_base
from larc.github.history import History
from larc.github.partial import Partial
from larc.github.payloads import flat_row
from larc.io.times import iso_time

if TYPE_CHECKING:
    import httpx

_REPOSITORY = re.compile(r"(?!\.{1,2}/)[\w.-]+/(?!\.{1,2}$)[\w.-]+", re.ASCII)
# What the record of a finished file counts, as in a report.
_COUNTS = ("runs", "jobs", "unfinished_runs", "unfinished_jobs", "gone_runs", "miscounted")


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a fetch is: windows listed while ``stage`` is "runs", then runs read ("jobs").

    ``total`` may still grow while runs are listed. ``note`` is a sentence about a wait, or empty.
    """

    stage: str
    done: int
    total: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a fetch brought.

    Parameters
    ----------
    out, repository, since, until
        The file, and what it holds: the jobs of all runs created in this time, both ends included.
    runs, jobs
        Runs found, and jobs written.
    unfinished_runs, unfinished_jobs
        Those of them that had not ended when they were read. Readers leave such jobs out.
    gone_runs
        Runs that were listed, and deleted before their jobs could be read.
    miscounted
        Listings that hold another number of entries than they say, however often they are read.
    requests, unchanged
        Questions asked this time, and how many were answered by what was known before.
    already
        The file was there already, and nothing was done.

    Examples
    --------
    >>> print(FetchReport(Path("a.jsonl"), "o/r", "2026-01-01T00:00:00Z", "2026-01-01T23:59:59Z",
    ...                   runs=2, jobs=5, unfinished_jobs=1))
    a.jsonl: 5 jobs of 2 runs of o/r, created from 2026-01-01T00:00:00Z to 2026-01-01T23:59:59Z;
    1 job unfinished.
    """

    out: Path
    repository: str
    since: str
    until: str
    runs: int = 0
    jobs: int = 0
    unfinished_runs: int = 0
    unfinished_jobs: int = 0
    gone_runs: int = 0
    miscounted: int = 0
    requests: int = 0
    unchanged: int = 0
    already: bool = False

    def __str__(self) -> str:
        notes = [
            f"{_count(number, what)} {state}"
            for number, what, state in (
                (self.unfinished_jobs, "job", "unfinished"),
                (self.gone_runs, "run", "deleted meanwhile"),
                (self.miscounted, "listing", "miscounted by the server"),
            )
            if number
        ]
        if self.already:
            notes.append("fetched before, nothing was done")
        return (
            f"{self.out}: {_count(self.jobs, 'job')} of {_count(self.runs, 'run')} of "
            f"{self.repository}, created from {self.since} to {self.until}"
            f"{''.join(f'; {note}' for note in notes)}."
        )


def fetch_jobs(
    repository: str,
    *,
    since: str | date,
    until: str | date,
    out: str | os.PathLike[str],
    token: str | None = None,
    base_url: str = PUBLIC,
    on_progress: Callable[[FetchProgress], object] | None = None,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.time,
    longest_wait: float = LONGEST_WAIT,
    transport: httpx.BaseTransport | None = None,
) -> FetchReport:
    """Write the jobs of all workflow runs created in a time, a line each, sorted by start and id.

    What `larc.domains.ci.read_jobs` reads is what is written: every attempt of every job,
    and jobs that have not ended as they are. The file appears when it is whole. Until then each
    listing of runs and each run's jobs are kept in ``OUT.partial/``, and the same call goes on
    from there, after whatever stopped it; what could have changed since is asked for again, at no
    cost where it has not. Afterwards ``OUT.fetched`` says what the file is: the same call then does
    nothing, and another one is refused.

    Parameters
    ----------
    repository
        ``OWNER/REPO``.
    since, until
        The first and the last day or second in which a run was created: a date, which is a whole
        day in UTC, or a time with its zone.
    out
        The file; gzip if its name ends in ``.gz``.
    token
        Sent to the server of ``base_url`` alone, and written nowhere.
    base_url
        ``https://HOST/api/v3`` for GitHub Enterprise.
    on_progress
        Told of every listing and every run, and of every wait.
    sleep, clock, longest_wait, transport
        As for :class:`larc.github.client.GitHub`.

    Raises
    ------
    LarcError
        Where something is refused, by the server or beforehand, or the server keeps failing. What
        was read is kept.

    Examples
    --------
    >>> import httpx, tempfile
    >>> def answer(request):
    ...     if request.url.path.endswith("/jobs"):
    ...         job = {"id": 7, "run_id": 3, "name": "build", "head_sha": "c0ffee",
    ...                "status": "completed", "conclusion": "success",
    ...                "started_at": "2026-01-02T00:00:00Z",
    ...                "completed_at": "2026-01-02T00:00:09Z"}
    ...         return httpx.Response(200, json={"total_count": 1, "jobs": [job]})
    ...     run = {"id": 3, "event": "push", "created_at": "2026-01-02T00:00:00Z"}
    ...     return httpx.Response(200, json={"total_count": 1, "workflow_runs": [run]})
    >>> out = Path(tempfile.mkdtemp()) / "jobs.jsonl.gz"
    >>> report = fetch_jobs("o/r", since="2026-01-01", until="2026-01-31", out=out,
    ...                     transport=httpx.MockTransport(answer))
    >>> report.runs, report.jobs, report.requests
    (1, 1, 2)
    >>> from larc.domains.ci import read_jobs
    >>> [(job.repository, job.event, job.job_name) for job in read_jobs(out)[0]]
    [('o/r', 'push', 'build')]
    """
    if not _REPOSITORY.fullmatch(repository):
        raise LarcError(f"{repository!r} is no repository; give it as OWNER/REPO.")
    first, last = _second("since", since), _second("until", until, end=True)
    if last < first:
        raise LarcError(f"until {until} is before since {since}; nothing lies between.")
    out = checked_path(out, "--out")
    if not next(above for above in out.absolute().parents if above.exists()).is_dir():
        raise LarcError(f"{out} is below a file and could not be written; choose another file.")
    wanted = {
        "repository": repository,
        "since": iso_time(first),
        "until": iso_time(last),
        "base_url": checked_base(base_url, token),
    }
    with Partial(out, wanted) as partial:
        if (record := partial.finished()) is not None:
            counts = {name: record[name] for name in _COUNTS}
            return FetchReport(out, *_place(wanted), **counts, already=True)
        progress = _Progress(on_progress)
        with GitHub(
            repository,
            base_url,
            token,
            sleep=sleep,
            clock=clock,
            say=progress.say,
            longest_wait=longest_wait,
            transport=transport,
        ) as github:
            history = History(
                github, partial, tell=progress.tell, say=progress.say, sleep=sleep, clock=clock
            )
            runs = history.runs(first, last)
            rows = [flat_row(job, run, repository) for job, run in history.jobs(runs)]
        counts = {
            "runs": len(runs),
            "jobs": len(rows),
            "unfinished_runs": _unfinished(runs),
            "unfinished_jobs": _unfinished(rows),
            "gone_runs": history.gone,
            "miscounted": history.miscounted,
        }
        partial.finish(_lines(rows, packed=out.name.endswith(".gz")), counts)
    return FetchReport(
        out, *_place(wanted), **counts, requests=github.requests, unchanged=github.unchanged
    )


class _Progress:
    """Remembers how far the work is, so that a wait can be told together with it."""

    def __init__(self, on_progress: Callable[[FetchProgress], object] | None) -> None:
        self._on_progress = on_progress
        self._now = FetchProgress("runs", 0, 1)

    def tell(self, stage: str, done: int, total: int) -> None:
        self._now = FetchProgress(stage, done, total)
        if self._on_progress is not None:
            self._on_progress(self._now)

    def say(self, sentence: str) -> None:
        if self._on_progress is not None:
            self._on_progress(replace(self._now, note=sentence))


def _place(wanted: Mapping[str, str]) -> tuple[str, str, str]:
    return wanted["repository"], wanted["since"], wanted["until"]


def _unfinished(items: Iterable[Mapping[str, object]]) -> int:
    return sum(item["status"] != "completed" for item in items)


def _lines(rows: Iterable[Mapping[str, object]], packed: bool) -> bytes:
    # GitHub's timestamps sort as text; a job that has not started has none, and comes first.
    ordered = sorted(rows, key=lambda row: (str(row["started_at"] or ""), row["job_id"]))
    text = "".join(json.dumps(row) + "\n" for row in ordered).encode()
    # Without a time in its header: the same rows are the same bytes.
    return gzip.compress(text, mtime=0) if packed else text


def _second(name: str, value: str | date, end: bool = False) -> int:
    """Return the first second of a day or moment in UTC epoch seconds, or the last one."""
    try:
        moment = value if isinstance(value, date) else date.fromisoformat(value)
    except ValueError:
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise LarcError(
                f"{name} {value!r} is no time; give 2026-01-31 or 2026-01-31T12:00:00Z."
            ) from None
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
        moment += timedelta(days=1, seconds=-1) if end else timedelta()
    if moment.tzinfo is None:
        raise LarcError(f"{name} {value} has no time zone; add one, such as Z for UTC.")
    if moment.year < 1971:
        raise LarcError(f"{name} {value} is before the first workflow run.")
    return int(moment.timestamp())


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
