"""The runs of a repository that were created in a time, and the jobs of those runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from larc.errors import LarcError
from larc.github.client import GitHub, NotFound
from larc.github.listings import Listing, State, entries, read_listing
from larc.github.partial import Partial
from larc.github.replies import Item, Page, Trim
from larc.io.times import iso_time

#: No question about runs is answered with more results than this, whatever number it counts.
MOST_RESULTS = 1000
#: Runs of the last minutes may not be listed yet: a window is final once it is this old.
SETTLED_AFTER = 600

_DAY = 86_400
# What a row, and the question whether anything has changed, need of an answer: about a hundredth.
_RUN_KEYS = (
    *("id", "name", "path", "workflow_id", "event"),
    *("status", "run_attempt", "created_at", "updated_at"),
)
_JOB_KEYS = (
    *("id", "run_id", "run_attempt", "name", "workflow_name", "head_sha"),
    *("status", "conclusion", "started_at", "completed_at"),
)


def halves(first: int, last: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the two parts of a window of seconds: at a midnight, within a day at its middle.

    Examples
    --------
    >>> [[iso_time(second) for second in half] for half in halves(1767225600, 1767484799)]
    [['2026-01-01T00:00:00Z', '2026-01-01T23:59:59Z'],
     ['2026-01-02T00:00:00Z', '2026-01-03T23:59:59Z']]
    >>> halves(0, 3)
    ((0, 1), (2, 3))
    """
    middle = (first + last + 1) // 2
    midnight = middle - middle % _DAY
    start = midnight if midnight > first else middle
    return (first, start - 1), (start, last)


class History:
    """Reads the runs of a repository and their jobs, and keeps each listing once it is read.

    Parameters
    ----------
    github
        Whom to ask.
    partial
        Where listings are kept. One that cannot change any more is not asked for again; any other
        is, under the tag of its last answer.
    tell
        Told the stage, how much of it is done, and of how much.
    say
        Told what is waited for.
    sleep, clock
        How to wait, and what time it is in epoch seconds.

    Examples
    --------
    >>> import httpx, tempfile
    >>> from pathlib import Path
    >>> answer = {"total_count": 1, "workflow_runs": [{"id": 3, "event": "push"}]}
    >>> network = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    >>> out = Path(tempfile.mkdtemp()) / "jobs.jsonl"
    >>> with Partial(out, {}) as partial, GitHub("o/r", transport=network) as github:
    ...     [(run["id"], run["event"]) for run in History(github, partial).runs(0, 9)]
    [(3, 'push')]
    """

    def __init__(
        self,
        github: GitHub,
        partial: Partial,
        *,
        tell: Callable[[str, int, int], object] = lambda stage, done, total: None,
        say: Callable[[str], object] = lambda sentence: None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._github, self._partial = github, partial
        self._tell, self._say, self._sleep, self._clock = tell, say, sleep, clock
        #: Runs that were deleted before their jobs were read, and listings that miscount.
        self.gone = self.miscounted = 0

    def runs(self, first: int, last: int) -> list[Item]:
        """Return the runs created from one second to another, in the order of their ids."""
        by_id: dict[int, Item] = {}
        pending, done = [(first, last)], 0
        while pending:
            self._tell("runs", done, done + len(pending))
            window = pending.pop()
            runs = self._window(*window)
            if runs is None:
                pending += reversed(halves(*window))
            else:
                by_id |= runs
                done += 1
        self._tell("runs", done, done)
        return [run for _, run in sorted(by_id.items()) if _created_within(run, first, last)]

    def jobs(self, runs: Sequence[Item]) -> list[tuple[Item, Item]]:
        """Return the jobs of runs, each with its run; a job that comes twice, as it came last."""
        by_id: dict[int, tuple[Item, Item]] = {}
        for done, run in enumerate(runs):
            self._tell("jobs", done, len(runs))
            by_id |= {number: (job, run) for number, job in self._jobs_of(run).items()}
        self._tell("jobs", len(runs), len(runs))
        return list(by_id.values())

    def _window(self, first: int, last: int) -> dict[int, Item] | None:
        """Return the runs of a window, or ``None`` where it has to be split."""
        now = self._clock()
        # Nothing is created in the future; a clock that is wrong by hours must not hide anything.
        if first > now + _DAY:
            return {}
        unit = f"runs-{first}-{last}"
        known = self._partial.load(unit) or {}
        if known.get("split"):
            return None
        if known.get("final"):
            return entries(_pages(known))
        created = f"{iso_time(first)}..{iso_time(last)}"
        listing = self._read(
            "actions/runs",
            # Without its pull requests a run is shorter, and changes less often.
            {"created": created, "exclude_pull_requests": "true"},
            "workflow_runs",
            _trim_run,
            _pages(known),
            most=MOST_RESULTS if first < last else MOST_RESULTS + 1,
        )
        runs, state = entries(listing.pages), listing.state
        if state is State.TOO_LONG:
            if not all(_created_within(run, first, last) for run in runs.values()):
                raise LarcError(
                    f"{self._github.base_url} lists runs from outside the time that was asked for; "
                    "it may be too old to know the filter."
                )
            if first == last:
                raise LarcError(
                    f"{self._github.repository} has more than {MOST_RESULTS} runs created in the "
                    f"one second {iso_time(first)}, and no more can be listed; leave it out."
                )
        # What does not settle is split too: a listing of one page cannot move while it is read.
        several = sum(bool(page.items) for page in listing.pages) > 1 and first < last
        if state is State.TOO_LONG or (state is not State.SETTLED and several):
            self._partial.save(unit, {"split": True})
            return None
        self._check(state, f"the runs created in {created}")
        final = state is State.SETTLED and last + SETTLED_AFTER < now
        self._partial.save(unit, {"pages": _as_json(listing.pages), "final": final})
        return runs

    def _jobs_of(self, run: Item) -> dict[int, Item]:
        unit = f"jobs-{run['id']}"
        known = self._partial.load(unit) or {}
        # The run is kept beside its jobs: one that was started again since has other jobs.
        if known.get("final") and known.get("run") == run:
            self.gone += known.get("gone", False)
            return entries(_pages(known))
        try:
            listing = self._read(
                f"actions/runs/{run['id']}/jobs",
                {"filter": "all"},
                "jobs",
                _trim_job,
                _pages(known),
            )
        except NotFound:
            # Deleted since it was listed. Or nothing of the repository answers any more, which this
            # question finds out: then it is no run that is missing.
            self._github.page("actions/runs", {"per_page": 1}, "workflow_runs", _trim_run)
            self._partial.save(unit, {"run": run, "pages": [], "final": True, "gone": True})
            self.gone += 1
            return {}
        self._check(listing.state, f"the jobs of run {run['id']}")
        jobs = entries(listing.pages)
        ended = all(item["status"] == "completed" for item in (run, *jobs.values()))
        final = ended and listing.state is State.SETTLED
        pages = _as_json(listing.pages)
        self._partial.save(unit, {"run": run, "pages": pages, "final": final})
        return jobs

    def _read(
        self,
        path: str,
        parameters: Mapping[str, str | int],
        name: str,
        trim: Trim,
        known: Sequence[Page],
        most: int | None = None,
    ) -> Listing:
        def again(turn: int) -> None:
            pause = 2.0 ** (turn - 1)
            self._say(f"{path} changed while it was read; reading it again in {pause:.0f} s")
            self._sleep(pause)

        return read_listing(
            self._github, path, parameters, name, trim, known, most=most, again=again
        )

    def _check(self, state: State, what: str) -> None:
        if state is State.SHIFTING:
            raise LarcError(
                f"{what} kept changing while they were read; what was read is kept: run the same "
                "command again later."
            )
        self.miscounted += state is State.MISCOUNTED


def _trim_run(run: Mapping[str, Any]) -> Item:
    repository = run.get("repository")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    return {**{key: run.get(key) for key in _RUN_KEYS}, "repository": {"full_name": name}}


def _trim_job(job: Mapping[str, Any]) -> Item:
    return {key: job.get(key) for key in _JOB_KEYS}


def _created_within(run: Item, first: int, last: int) -> bool:
    """Whether a run was created in a window; one that does not say when is taken at its word."""
    try:
        return first <= datetime.fromisoformat(run["created_at"]).timestamp() < last + 1
    except (TypeError, ValueError):
        return True


def _pages(document: Mapping[str, Any]) -> list[Page]:
    return [Page.from_json(page) for page in document.get("pages", ())]


def _as_json(pages: Sequence[Page]) -> list[dict[str, object]]:
    return [page.to_json() for page in pages]
