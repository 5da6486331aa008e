"""A CI job: what is known when it starts, how it ended, and which records are left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

#: The four answers, in label order: label 0 is ``success`` and label 3 is ``other``.
LABELS = ("success", "failure", "cancelled", "other")

#: Every conclusion that has a label. A conclusion that is not here has none and is left out.
CONCLUSIONS: Mapping[str, int] = {
    "success": 0,
    "failure": 1,
    "cancelled": 2,
    "timed_out": 3,
    "action_required": 3,
    "neutral": 3,
    "skipped": 3,
    "stale": 3,
}

# Ids outside a signed 64-bit integer cannot be GitHub's, and would not fit a Parquet column.
_LARGEST_ID = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The last second of the year 9999: beyond it no ISO timestamp can be written.
_LATEST = 253_402_300_799


class Reason(StrEnum):
    """Why a record was left out.

    Examples
    --------
    >>> str(Reason.NOT_COMPLETED)
    'not_completed'
    """

    #: The file ends in damage (a truncated or corrupt stream): what is left counts as one row.
    DAMAGED_STREAM = "damaged_stream"
    BLANK_LINE = "blank_line"
    LINE_TOO_LONG = "line_too_long"
    INVALID_UTF8 = "invalid_utf8"
    INVALID_JSON = "invalid_json"
    NOT_AN_OBJECT = "not_an_object"
    #: An object that is neither a job nor an answer of GitHub that holds jobs or runs.
    NOT_A_JOB = "not_a_job"
    INVALID_TYPE = "invalid_type"
    #: Text that no UTF-8 file can hold (a lone surrogate).
    INVALID_TEXT = "invalid_text"
    #: Repository, commit, job name or job id is absent.
    MISSING_IDENTITY = "missing_identity"
    NOT_COMPLETED = "not_completed"
    #: Asked for as a running job: it waits, or has ended.
    NOT_RUNNING = "not_running"
    UNRECOGNIZED_CONCLUSION = "unrecognized_conclusion"
    MISSING_TIMESTAMP = "missing_timestamp"
    INVALID_TIMESTAMP = "invalid_timestamp"
    TIMESTAMP_WITHOUT_ZONE = "timestamp_without_zone"
    COMPLETED_BEFORE_STARTED = "completed_before_started"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class Observation:
    """The seven public fields: everything a predictor may know about a job when it starts.

    A field that the source does not have is ``None``; repository, job name, commit and start are
    always there. ``started_at`` is in UTC epoch seconds.
    """

    repository: str
    workflow_id: int | None
    workflow_path: str | None
    event: str | None
    job_name: str
    commit: str
    started_at: int


class Job(NamedTuple):
    """A completed job: the seven public fields, its times, its label, and its stable identifiers.

    A named tuple and not a frozen dataclass, which takes five times as long to make: a history has
    hundreds of thousands of them.

    Times are whole UTC epoch seconds. A fraction of a second is dropped, which never lets a
    prediction see more: at one second predictions come before feedback.

    Examples
    --------
    >>> job = job_from_row({
    ...     "repository": "o/r", "job_name": "build", "head_sha": "c0ffee", "job_id": 7,
    ...     "conclusion": "skipped",
    ...     "started_at": "2026-01-02T00:00:00Z", "completed_at": "2026-01-02T01:00:09+01:00",
    ... })
    >>> job.label, LABELS[job.label], job.completed_at - job.started_at
    (3, 'other', 9)
    >>> job.observation
    Observation(repository='o/r', workflow_id=None, workflow_path=None, event=None,
                job_name='build', commit='c0ffee', started_at=1767312000)
    """

    repository: str
    workflow_id: int | None
    workflow_path: str | None
    workflow_name: str | None
    event: str | None
    job_name: str
    head_sha: str
    started_at: int
    completed_at: int
    label: int
    job_id: int
    run_id: int | None
    run_attempt: int | None

    @property
    def observation(self) -> Observation:
        """The public part: no completion time, no label, no identifiers of the run."""
        return Observation(
            self.repository,
            self.workflow_id,
            self.workflow_path,
            self.event,
            self.job_name,
            self.head_sha,
            self.started_at,
        )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that is no job of the study: the reason, and what exactly was found."""

    reason: Reason
    detail: str


def label_of(conclusion: str) -> int | None:
    """Return the label of a conclusion, or ``None`` where it has none.

    Examples
    --------
    >>> label_of("cancelled"), label_of("timed_out"), label_of("startup_failure")
    (2, 3, None)
    """
    return CONCLUSIONS.get(conclusion)


def job_from_row(row: Mapping[str, object], texts: dict[str, str] | None = None) -> Job | LeftOut:
    """Return the job that a flat row holds, or why it is left out.

    Parameters
    ----------
    row
        Keys as in :class:`Job`, with ``conclusion`` instead of ``label`` and, if there is one, a
        ``status``. Timestamps are ISO 8601 with a zone, or integer epoch seconds. Other keys are
        ignored.
    texts
        Strings that were seen before. Pass one dictionary for many rows: each distinct string is
        then checked once and kept once.

    Examples
    --------
    >>> job_from_row({"repository": "o/r", "job_name": "b", "head_sha": "c", "job_id": True})
    LeftOut(reason=<Reason.INVALID_TYPE: 'invalid_type'>, detail='job_id is bool, not an integer')
    """
    texts = {} if texts is None else texts
    get = row.get
    try:
        (
            repository,
            workflow_id,
            workflow_path,
            workflow_name,
            event,
            job_name,
            head_sha,
            job_id,
            run_id,
            run_attempt,
        ) = _fields(row, texts)
        label = _label(
            _text("conclusion", get("conclusion"), texts), _text("status", get("status"), texts)
        )
        started_at = _seconds("started_at", get("started_at"))
        completed_at = _seconds("completed_at", get("completed_at"))
    except _Refusal as refusal:
        return refusal.left_out
    if completed_at < started_at:
        return LeftOut(
            Reason.COMPLETED_BEFORE_STARTED,
            f"completed {started_at - completed_at} s before it started",
        )
    return Job(
        repository,
        workflow_id,
        workflow_path,
        workflow_name,
        event,
        job_name,
        head_sha,
        started_at,
        completed_at,
        label,
        job_id,
        run_id,
        run_attempt,
    )


def epoch_seconds(value: object) -> int | None:
    """Return a timestamp as whole epoch seconds, or ``None`` where it is none.

    Examples
    --------
    >>> epoch_seconds("2026-01-02T00:00:00.9Z"), epoch_seconds("0001-01-01T00:00:00Z")
    (1767312000, None)
    """
    try:
        return _seconds("a time", value)
    except _Refusal:
        return None


class RunningJob(NamedTuple):
    """A job that has started and has not ended: what is known of it, and its identifier."""

    job_id: int
    observation: Observation


def running_job_from_row(row: Mapping[str, object]) -> RunningJob | LeftOut:
    """Return the job that a flat row holds if it runs, or why it is left out.

    Parameters
    ----------
    row
        As for `job_from_row`, with the status ``in_progress`` and no conclusion.

    Examples
    --------
    >>> row = {"repository": "o/r", "job_name": "build", "head_sha": "c0ffee", "job_id": 7,
    ...        "status": "in_progress", "started_at": "2026-01-02T00:00:00Z"}
    >>> running_job_from_row(row).observation.started_at
    1767312000
    >>> running_job_from_row({**row, "status": "queued"})
    LeftOut(reason=<Reason.NOT_RUNNING: 'not_running'>, detail="status is 'queued'")
    """
    texts: dict[str, str] = {}
    try:
        repository, workflow_id, workflow_path, _, event, name, commit, job_id, _, _ = _fields(
            row, texts
        )
        status = _text("status", row.get("status"), texts)
        if status != "in_progress":
            raise _Refusal(Reason.NOT_RUNNING, f"status is {(status or '')[:40]!r}")
        conclusion = _text("conclusion", row.get("conclusion"), texts)
        if conclusion is not None:
            raise _Refusal(Reason.NOT_RUNNING, f"conclusion is {conclusion[:40]!r}")
        started_at = _seconds("started_at", row.get("started_at"))
    except _Refusal as refusal:
        return refusal.left_out
    return RunningJob(
        job_id,
        Observation(repository, workflow_id, workflow_path, event, name, commit, started_at),
    )


def _fields(
    row: Mapping[str, object], texts: dict[str, str]
) -> tuple[
    str,
    int | None,
    str | None,
    str | None,
    str | None,
    str,
    str,
    int,
    int | None,
    int | None,
]:
    """Return what a job says of itself, running or not."""
    get = row.get
    repository = _identity("repository", _text("repository", get("repository"), texts))
    job_name = _identity("job_name", _text("job_name", get("job_name"), texts))
    head_sha = _identity("head_sha", _text("head_sha", get("head_sha"), texts))
    job_id = _integer("job_id", get("job_id"))
    if job_id is None:
        raise _Refusal(Reason.MISSING_IDENTITY, "job_id is missing")
    return (
        repository,
        _integer("workflow_id", get("workflow_id")),
        _text("workflow_path", get("workflow_path"), texts),
        _text("workflow_name", get("workflow_name"), texts),
        _text("event", get("event"), texts),
        job_name,
        head_sha,
        job_id,
        _integer("run_id", get("run_id")),
        _integer("run_attempt", get("run_attempt")),
    )


class _Refusal(Exception):
    """Carries the reason out of the checks below; never leaves this module."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.left_out = LeftOut(reason, detail)


def _text(name: str, value: object, texts: dict[str, str]) -> str | None:
    if value is None:
        return None
    if type(value) is not str:
        raise _Refusal(Reason.INVALID_TYPE, f"{name} is {type(value).__name__}, not text")
    known = texts.get(value)
    if known is None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refusal(Reason.INVALID_TEXT, f"{name} is not valid Unicode text") from None
        known = texts[value] = value
    # An empty text is what some exporters write for an absent one.
    return known or None


def _identity(name: str, value: str | None) -> str:
    if value is None:
        raise _Refusal(Reason.MISSING_IDENTITY, f"{name} is missing")
    return value


def _integer(name: str, value: object) -> int | None:
    if value is None:
        return None
    # ``type`` and not ``isinstance``: True is an int in Python and no id anywhere else.
    if type(value) is not int:
        raise _Refusal(Reason.INVALID_TYPE, f"{name} is {type(value).__name__}, not an integer")
    if not 0 <= value <= _LARGEST_ID:
        raise _Refusal(Reason.INVALID_TYPE, f"{name} is outside 0..2^63-1")
    return value


def _label(conclusion: str | None, status: str | None) -> int:
    if status is not None and status != "completed":
        raise _Refusal(Reason.NOT_COMPLETED, f"status is {status[:40]!r}")
    if conclusion is None:
        raise _Refusal(Reason.NOT_COMPLETED, "there is no conclusion")
    label = CONCLUSIONS.get(conclusion)
    if label is None:
        raise _Refusal(Reason.UNRECOGNIZED_CONCLUSION, f"conclusion is {conclusion[:40]!r}")
    return label


def _seconds(name: str, value: object) -> int:
    if type(value) is str and value:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise _Refusal(
                Reason.INVALID_TIMESTAMP, f"{name} is {value[:40]!r}, not an ISO 8601 timestamp"
            ) from None
        if moment.tzinfo is None:
            raise _Refusal(Reason.TIMESTAMP_WITHOUT_ZONE, f"{name} is {value[:40]!r}")
        since = moment - _EPOCH
        seconds = since.days * 86_400 + since.seconds
    elif value is None or value == "":
        raise _Refusal(Reason.MISSING_TIMESTAMP, f"{name} is missing")
    elif type(value) is int:
        seconds = value
    else:
        raise _Refusal(Reason.INVALID_TYPE, f"{name} is {type(value).__name__}, not a timestamp")
    # The zero time of GitHub's own services (year 1) and of Unix both stand for "never".
    if not 0 < seconds <= _LATEST:
        raise _Refusal(Reason.INVALID_TIMESTAMP, f"{name} is outside the years 1970..9999")
    return seconds
