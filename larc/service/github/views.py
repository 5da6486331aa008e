"""What is shown of a repository: the JSON that programs and the dashboard read.

``GET /v1/github/repositories`` answers `RepositoriesView`, and ``GET
/v1/github/repositories/{owner}/{name}`` answers `RepositoryView`; both take a token with the scope
``read``. Times are UTC epoch seconds, durations seconds, probabilities in the order of ``labels``
(success, failure, cancelled, other).
"""

from __future__ import annotations

from pydantic import BaseModel


class Quantiles(BaseModel):
    """Quantiles of a time in seconds, from earlier jobs of the same workflow and name.

    ``count`` says how many jobs they rest on; it is at least one.
    """

    p10: float
    p50: float
    p90: float
    count: int


class RunningJobView(BaseModel):
    """A job that runs now, with what was predicted when it started.

    Attributes
    ----------
    job_id, run_id, attempt, question
        Whose it is; ``question`` is the id of the stream's question.
    name, workflow, path, event, commit, branch, url
        What GitHub says of it; None where it says nothing.
    started_at, elapsed_s
        When it started, and how long ago that was by the server's clock.
    probabilities
        Of the four labels; None while the prediction is being made.
    risk
        The probability of failure; None with the probabilities.
    remaining
        The time left, given that it has run for so long; None without such a history, or where
        it has run for longer than any job before it.
    order
        Risk times the median of the time left, in seconds: the list is sorted by it, highest
        first; None, and last, where either is unknown.
    """

    job_id: int
    run_id: int | None
    attempt: int
    question: str
    name: str
    workflow: str | None
    path: str | None
    event: str | None
    commit: str
    branch: str | None
    url: str | None
    started_at: int
    elapsed_s: float
    probabilities: list[float] | None
    risk: float | None
    remaining: Quantiles | None
    order: float | None


class EndedJobView(BaseModel):
    """A job that has ended: its label (an index), the probability that it had, the duration."""

    job_id: int
    question: str
    name: str
    commit: str
    url: str | None
    started_at: int
    completed_at: int
    conclusion: str
    label: int
    probabilities: list[float] | None
    probability: float | None
    surprise: bool


class FlakyCase(BaseModel):
    """A commit whose job ended in success and in failure: the ids of two such jobs."""

    commit: str
    succeeded: int
    failed: int
    at: int


class FlakyView(BaseModel):
    """A job that has ended in both ways on one commit.

    ``commits`` counts the commits with both ends, of ``repeated`` commits on which it has ended
    more than once; ``cases`` are the latest of them.
    """

    name: str
    workflow: str | None
    commits: int
    repeated: int
    cases: list[FlakyCase]


class WhatIf(BaseModel):
    """What cancelling every job at its start would have done, from one probability of failure on.

    Attributes
    ----------
    at
        The probability of failure from which on a job would have been cancelled.
    cancelled
        How many jobs that is.
    saved, saved_s
        Those of them that failed, and how long they ran in all: what would have been saved.
    lost, lost_s
        Those of them that succeeded: good jobs that would have been cancelled.
    other
        Those that ended otherwise; they count neither way.
    """

    at: float
    cancelled: int
    saved: int
    saved_s: float
    lost: int
    lost_s: float
    other: int


class RepositoryCounts(BaseModel):
    """Jobs by what became of them; ``left_out`` by reason, ``waiting`` are deliveries."""

    jobs: int
    queued: int
    running: int
    ended: int
    predicted: int
    left_out: dict[str, int]
    waiting: int


class RepositoryView(BaseModel):
    """A repository that is followed.

    Attributes
    ----------
    repository, repository_id, stream
        Its name now, GitHub's number of it, and the stream that learns from it
        (``/v1/streams/{stream}`` has its losses, weights and bound).
    labels
        The four labels.
    at
        When this was put together, by the server's clock.
    surprise_below
        A label with less probability than this is a surprise.
    counts
        Of jobs and deliveries.
    running
        By risk times time left, highest first.
    surprises, recent
        The latest jobs with a surprising end, and the latest that ended at all; newest first.
    flaky
        Most commits first.
    what_if
        The ledger, by rising probability; over all jobs that were predicted and have ended.
    last_event_at
        When the last delivery about it came; None before the first.
    """

    repository: str
    repository_id: int
    stream: str
    labels: list[str]
    at: float
    surprise_below: float
    counts: RepositoryCounts
    running: list[RunningJobView]
    surprises: list[EndedJobView]
    recent: list[EndedJobView]
    flaky: list[FlakyView]
    what_if: list[WhatIf]
    last_event_at: float | None


class RepositorySummary(BaseModel):
    """One repository of the list."""

    repository: str
    repository_id: int
    stream: str
    running: int
    ended: int
    last_event_at: float | None


class RepositoriesView(BaseModel):
    """The repositories that the token may read, by name."""

    repositories: list[RepositorySummary]
