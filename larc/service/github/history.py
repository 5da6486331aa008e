"""A repository's history, told before its stream is asked anything."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection

from larc.domains.ci.jobs import LABELS, Job
from larc.domains.ci.seeding import packed_event
from larc.errors import LarcError
from larc.io.hashes import hash_json
from larc.service.github.joining import question_name
from larc.service.github.repositories import by_name, ensure, provisional
from larc.service.github.tables import job
from larc.service.problems import Problem
from larc.service.protocol import Text
from larc.service.store.database import now
from larc.service.store.log import Command, Taken, take
from larc.service.store.schema import event, stream
from larc.service.templates import Models

Number = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Time = Annotated[int, Field(strict=True, gt=0, le=253_402_300_799)]
Short = Annotated[Text, Field(min_length=1, max_length=1000)]


class HistoryJob(BaseModel):
    """A job that ended: the columns of a job's row, with its label as a number."""

    model_config = ConfigDict(extra="forbid")
    repository: Short
    workflow_id: Number | None = None
    workflow_path: Short | None = None
    workflow_name: Short | None = None
    event: Short | None = None
    job_name: Short
    head_sha: Annotated[Text, Field(min_length=1, max_length=100)]
    started_at: Time
    completed_at: Time
    label: Annotated[int, Field(strict=True, ge=0, lt=len(LABELS))]
    job_id: Number
    run_id: Number | None = None
    run_attempt: Annotated[int, Field(strict=True, ge=1, lt=2**31)] | None = None


class HistoryEvent(BaseModel):
    """Jobs that start in one second, or labels that arrive in one."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["ask", "arrive"]
    jobs: Annotated[list[HistoryJob], Field(min_length=1, max_length=2000)]


class HistoryBody(BaseModel):
    """A part of a history in causal order, all of one repository."""

    model_config = ConfigDict(extra="forbid")
    events: Annotated[list[HistoryEvent], Field(min_length=1, max_length=2000)]


def take_history(
    connection: Connection,
    models: Models,
    full_name: str,
    body: HistoryBody,
    template: str,
    who: str,
) -> Taken:
    """Put a part of a history into a stream's log, once; its jobs are known from then on."""
    known = by_name(connection, full_name)
    at = now(connection)
    if known is not None:
        _check_unasked(connection, known.stream)
    number = provisional(full_name) if known is None else known.id
    try:
        about = ensure(connection, models, number, full_name, template, at)
    except Problem:
        raise
    except LarcError as error:
        raise Problem("invalid", str(error)) from error
    events: list[Any] = []
    for one in body.events:
        jobs = [Job(**{**told.model_dump(), "repository": about.name}) for told in one.jobs]
        events.append(packed_event(one.kind, jobs))
        if one.kind == "arrive":
            _keep(connection, about.id, jobs, at)
    told = {"events": events}
    return take(connection, Command(about.stream, "history", hash_json(told), told, who))


def _check_unasked(connection: Connection, name: str) -> None:
    asked = connection.execute(
        sa.select(event.c.seq)
        .join(stream, stream.c.id == event.c.stream)
        .where(stream.c.name == name, event.c.kind == "question")
        .limit(1)
    ).first()
    if asked is not None:
        raise Problem(
            "too-late",
            f"the stream {name!r} was asked about jobs already, and a history comes before them; "
            "delete the stream first, or go on without.",
        )


def _keep(connection: Connection, number: int, jobs: list[Job], at: float) -> None:
    """Keep the jobs of a history beside those that webhooks bring; they were not predicted."""
    numbers = [one.job_id for one in jobs]
    query = sa.select(job.c.id).where(job.c.repository == number, job.c.id.in_(numbers))
    known = set(connection.execute(query).scalars())
    rows = [
        {
            "repository": number,
            "id": one.job_id,
            "run": one.run_id,
            "attempt": one.run_attempt or 1,
            "name": one.job_name,
            "commit": one.head_sha,
            "workflow": one.workflow_name,
            "workflow_id": one.workflow_id,
            "path": one.workflow_path,
            "event": one.event,
            "status": "completed",
            "conclusion": "neutral" if LABELS[one.label] == "other" else LABELS[one.label],
            "started_at": one.started_at,
            "completed_at": one.completed_at,
            "ran": True,
            "state": "done",
            "seen_at": at,
            "question": question_name(one.job_id, one.run_attempt or 1),
            "answered": True,
            "label": one.label,
        }
        for one in jobs
        if one.job_id not in known
    ]
    if rows:
        connection.execute(sa.insert(job), rows)
