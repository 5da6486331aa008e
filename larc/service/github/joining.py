"""What GitHub says of runs and jobs, put together, whatever order it comes in.

A `workflow_job` says neither what triggered its run nor which file it belongs to; its run does. A
job's status only ever rises: what comes twice or too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.domains.ci.jobs import LeftOut, Observation, Reason, epoch_seconds, job_from_row
from larc.domains.ci.prompter import job_question
from larc.github.payloads import flat_row
from larc.service.github.tables import job, run

#: How far a job is; what GitHub calls otherwise (waiting, requested, pending) is queued.
RANKS = {"queued": 0, "in_progress": 1, "completed": 2}
#: Why a job that ended is none to learn from, beside the reasons of a history's rows.
CHECK_RUN = "check_run"
COPY = "copy_of_an_earlier_attempt"
_RAN = ("runner_id", "runner_name", "steps", "labels")
_LARGEST = 2**63


def question_name(number: int, attempt: int) -> str:
    """Return the id of the question about a job, from the job's id and the attempt.

    A job of a first attempt is called as in the studies.

    Examples
    --------
    >>> question_name(7, 1), question_name(8, 2)
    ('00000000000000000007', '00000000000000000008.2')
    """
    name = job_question(number, Observation("", None, None, None, "", "", 0)).name
    return name if attempt == 1 else f"{name}.{attempt}"


def take_run(connection: Connection, repository: int, payload: Mapping[str, Any]) -> bool:
    """Keep what an event or an answer says of a run; returns whether it is new."""
    number, attempt = _number(payload.get("id")), _number(payload.get("run_attempt")) or 1
    if number is None or find_run(connection, repository, number, attempt, exact=True):
        return False
    connection.execute(
        sa.insert(run).values(
            repository=repository,
            id=number,
            attempt=attempt,
            workflow_id=_number(payload.get("workflow_id")),
            path=_text(payload.get("path")),
            event=_text(payload.get("event")),
            name=_text(payload.get("name")),
            started_at=epoch_seconds(payload.get("run_started_at")),
        )
    )
    return True


def find_run(
    connection: Connection, repository: int, number: int | None, attempt: int, *, exact: bool
) -> Row[Any] | None:
    """Return what is known of an attempt of a run, or else of another attempt.

    Attempts differ in nothing but when they started.
    """
    if number is None:
        return None
    query = sa.select(run).where(run.c.repository == repository, run.c.id == number)
    if exact:
        query = query.where(run.c.attempt == attempt)
    return connection.execute(query.order_by(sa.func.abs(run.c.attempt - attempt))).first()


def take_job(
    connection: Connection, repository: Row[Any], payload: Mapping[str, Any], at: float
) -> Row[Any] | LeftOut:
    """Keep what an event or an answer says of a job; returns it, or why nothing was kept."""
    number, attempt = _number(payload.get("id")), _number(payload.get("run_attempt")) or 1
    name, commit = _text(payload.get("name")), _text(payload.get("head_sha"))
    if number is None or name is None or commit is None or len(commit) > 100:
        return LeftOut(Reason.MISSING_IDENTITY, "the job has no id, name or commit")
    status = payload.get("status")
    status = status if status in RANKS else "queued"
    known = find_job(connection, repository.id, number)
    if known is not None and RANKS[known.status] >= RANKS[status]:
        return LeftOut(Reason.DUPLICATE, f"the job is {known.status} already")
    ended = status == "completed"
    values: dict[str, Any] = {
        "run": _number(payload.get("run_id")),
        "attempt": attempt,
        "name": name,
        "commit": commit,
        "branch": _text(payload.get("head_branch")),
        "workflow": _text(payload.get("workflow_name")),
        "url": _web_address(payload.get("html_url")),
        "status": status,
        "conclusion": (_text(payload.get("conclusion")) or "")[:40] or None if ended else None,
        "started_at": epoch_seconds(payload.get("started_at")),
        "completed_at": epoch_seconds(payload.get("completed_at")) if ended else None,
        "ran": _ran(payload),
        "seen_at": at,
    }
    if ended:
        checked = job_from_row(flat_row({**payload, "id": number}, None, repository.name))
        values["label"] = None if isinstance(checked, LeftOut) else checked.label
        values["reason"] = checked.reason.value if isinstance(checked, LeftOut) else None
    if known is None:
        question = question_name(number, attempt)
        identity = {"repository": repository.id, "id": number, "question": question}
        first = {"state": "waiting", "answered": False}
        connection.execute(sa.insert(job).values({**identity, **first, **values}))
    else:
        if known.state == "asked":
            del values["started_at"]  # as it was when the question was asked
        change(connection, known, **values)
    return find_job(connection, repository.id, number) or LeftOut(Reason.NOT_A_JOB, "")


def find_job(connection: Connection, repository: int, number: int) -> Row[Any] | None:
    """Return a job that was heard of."""
    query = sa.select(job).where(job.c.repository == repository, job.c.id == number)
    return connection.execute(query).one_or_none()


def change(connection: Connection, row: Row[Any], **values: Any) -> None:
    """Change a job's row."""
    connection.execute(
        sa.update(job).where(job.c.repository == row.repository, job.c.id == row.id).values(values)
    )


def is_check_run(row: Row[Any]) -> bool:
    """Whether a job that ended is a check run: it never had a runner, steps or labels.

    Jobs that were cancelled or skipped may have had none either, and are jobs.
    """
    return not row.ran and row.conclusion not in ("cancelled", "skipped")


def why_no_job(connection: Connection, row: Row[Any], of: Row[Any] | None) -> str | None:
    """Return why a job that ended is left out: a check run, a copy, or no ending; else None.

    A re-run repeats the ends of jobs that it does not run again: they ended before their attempt
    began.
    """
    if is_check_run(row):
        return CHECK_RUN
    if row.attempt > 1 and row.completed_at is not None:
        if of is not None and of.attempt == row.attempt and of.started_at is not None:
            if row.completed_at < of.started_at:
                return COPY
        else:
            same = sa.select(job.c.id).where(
                job.c.repository == row.repository,
                job.c.run == row.run,
                job.c.name == row.name,
                job.c.attempt < row.attempt,
                job.c.completed_at == row.completed_at,
            )
            if connection.execute(same).first() is not None:
                return COPY
    reason: str | None = row.reason
    return reason


def _ran(payload: Mapping[str, Any]) -> bool:
    """Whether a job had a runner, steps or labels, or the source does not say."""
    return not any(key in payload for key in _RAN) or any(payload.get(key) for key in _RAN)


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _LARGEST else None


def _text(value: object) -> str | None:
    """Return a text that every database can hold."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd") or None


def _web_address(value: object) -> str | None:
    """Return an address to be shown as a link, never to be asked."""
    text = _text(value)
    return text if text is not None and text.startswith("https://") and len(text) < 1000 else None
