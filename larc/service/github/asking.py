"""Jobs become questions when they start, and labels when they end, in the order of their times.

A label does not enter the log before its question is answered, however far the model is behind; so
a history that is played in at any speed is predicted as it would have been.

Everything here runs in one transaction with the delivery it comes from, so that a crash leaves
either both or none. Labels of one second wait for each other (`flush`): the study of CI jobs learns
them as one batch, after the jobs that start in that second were predicted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.domains.ci.jobs import LABELS, LeftOut, Observation
from larc.domains.ci.prompts import ci_prompt
from larc.errors import LarcError
from larc.service.github.inbox import finish
from larc.service.github.joining import (
    change,
    find_run,
    is_check_run,
    take_job,
    take_run,
    why_no_job,
)
from larc.service.github.outbox import mark
from larc.service.github.repositories import WHO, ensure
from larc.service.github.settings import GitHubSettings
from larc.service.github.tables import job, repository
from larc.service.store.log import Command, take
from larc.service.store.schema import event, stream
from larc.service.templates import Models


class NotYet(Exception):
    """A label has to wait: the question it belongs to is not answered yet."""


@dataclass
class Desk:
    """One transaction's work: who works, when, and which streams got something to do."""

    connection: Connection
    models: Models
    settings: GitHubSettings
    at: float
    streams: set[int] = field(default_factory=set)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Undo what the block did if it has to wait; the wait itself goes on to the caller."""
        before = set(self.streams)
        try:
            with self.connection.begin_nested():
                yield
        except NotYet:
            self.streams = before
            raise

    def take(self, command: Command) -> str | None:
        """Put a command into the log; returns why it was refused, if it was."""
        try:
            taken = take(self.connection, command)
        except LarcError as error:
            return str(error)
        self.streams.add(taken.stream)
        return None


def receive(desk: Desk, row: Row[Any]) -> None:
    """Let a delivery take effect."""
    document = json.loads(row.body)
    try:
        about = ensure(
            desk.connection,
            desk.models,
            row.repository,
            document["repository"]["full_name"],
            desk.settings.template,
            row.received_at,
        )
    except LarcError as error:
        finish(desk.connection, row.seq, str(error))
        return
    payload = document.get(row.event)
    if not isinstance(payload, dict):
        finish(desk.connection, row.seq, f"there is no {row.event} in it.")
    elif row.event == "workflow_run":
        hear_run(desk, about, payload)
        finish(desk.connection, row.seq)
    else:
        reason = hear_job(desk, about, payload)
        finish(desk.connection, row.seq, reason)


def hear_run(desk: Desk, about: Row[Any], payload: Mapping[str, Any]) -> None:
    """Keep what is said of a run, and go on with the jobs that waited for it."""
    if take_run(desk.connection, about.id, payload):
        waiting = sa.select(job).where(
            job.c.repository == about.id, job.c.run == payload["id"], job.c.state == "joining"
        )
        for row in desk.connection.execute(waiting.order_by(job.c.started_at, job.c.id)).all():
            go_on(desk, about, row)


def hear_job(desk: Desk, about: Row[Any], payload: Mapping[str, Any]) -> str | None:
    """Keep what is said of a job, and do what follows; returns why nothing does, if so."""
    row = take_job(desk.connection, about, payload, desk.at)
    if isinstance(row, LeftOut):
        return f"{row.reason.value}: {row.detail}"
    if desk.settings.output != "none":
        mark(desk.connection, about.id, row.commit)
    go_on(desk, about, row)
    return None


def go_on(desk: Desk, about: Row[Any], row: Row[Any], *, patient: bool = True) -> None:
    """Ask about a job that runs, hold the label of one that ended, leave out what is none.

    Parameters
    ----------
    desk, about, row
        The work, the repository and the job.
    patient
        Wait for the run's event if it has not come.
    """
    if row.status == "queued" or row.state not in ("waiting", "joining", "asked"):
        return
    if row.state == "asked":
        if row.status == "completed":
            _hold(desk, about, row)
        return
    of = find_run(desk.connection, about.id, row.run, row.attempt, exact=patient)
    ended = row.status == "completed"
    if of is None and patient and not (ended and is_check_run(row)):
        change(desk.connection, row, state="joining")
        return
    reason = why_no_job(desk.connection, row, of) if ended else None
    if reason is not None:
        change(desk.connection, row, state="left out", reason=reason, answered=True)
        return
    if row.started_at is None:
        change(desk.connection, row, state="left out", reason="missing_timestamp", answered=True)
        return
    if of is not None:
        joined = {"workflow_id": of.workflow_id, "path": of.path, "event": of.event}
        change(desk.connection, row, **joined, workflow=row.workflow or of.name)
    if row.status == "in_progress":
        flush(desk, about, before=row.started_at)
        reason = _ask(desk, about, row, of)
        change(desk.connection, row, state="left out" if reason else "asked", reason=reason)
        return
    # It ended before anybody asked: learned, and nobody is judged by it.
    flush(desk, about, before=row.completed_at)
    desk.take(_label(about, row))
    reason = _ask(desk, about, row, of)
    change(desk.connection, row, state="left out" if reason else "done", reason=reason)


def _ask(desk: Desk, about: Row[Any], row: Row[Any], of: Row[Any] | None) -> str | None:
    seen = Observation(
        about.name,
        None if of is None else of.workflow_id,
        None if of is None else of.path,
        None if of is None else of.event,
        row.name,
        row.commit,
        row.started_at,
    )
    body = {
        "prompt": ci_prompt(seen),
        "candidates": list(LABELS),
        "context": str(seen.workflow_path or seen.workflow_id or "")[:200],
        "job": list(astuple(seen)),
    }
    command = Command(about.stream, "question", row.question, body, WHO, float(row.started_at))
    refused = desk.take(command)
    return None if refused is None else "refused"


def _hold(desk: Desk, about: Row[Any], row: Row[Any]) -> None:
    """Keep the label of a job that was asked about until its second is over."""
    if row.label is None:  # an ending without a label, such as startup_failure
        desk.take(Command(about.stream, "drop", row.question, {}, WHO))
        change(desk.connection, row, state="left out")
        return
    flush(desk, about, before=row.completed_at)
    change(desk.connection, row, state="held")


def flush(desk: Desk, about: Row[Any], before: int | None = None) -> None:
    """Send the labels of seconds that are over: something later was seen, or enough time passed."""
    over = job.c.seen_at <= desk.at - desk.settings.settle_s
    if before is not None:
        over = over | (job.c.completed_at < before)
    held = (
        sa.select(job)
        .where(job.c.repository == about.id, job.c.state == "held", over)
        .order_by(job.c.completed_at, job.c.question)
    )
    rows = desk.connection.execute(held).all()
    _check_answered(desk, about, [row.question for row in rows])
    for row in rows:
        refused = desk.take(_label(about, row))
        change(desk.connection, row, state="done", reason="refused" if refused else None)


def _check_answered(desk: Desk, about: Row[Any], questions: Sequence[str]) -> None:
    """Wait where the model is behind: an answer that was made before its label came counts."""
    if not questions:
        return
    behind = (
        sa.select(event.c.seq)
        .join(stream, stream.c.id == event.c.stream)
        .where(stream.c.name == about.stream, event.c.kind == "question")
        .where(event.c.key.in_(questions), event.c.status == "accepted")
        .limit(1)
    )
    if desk.connection.execute(behind).first() is not None:
        raise NotYet


def _label(about: Row[Any], row: Row[Any]) -> Command:
    body = {"label": row.label}
    return Command(about.stream, "label", row.question, body, WHO, float(row.completed_at))


def look_after(desk: Desk, number: int) -> None:
    """Go on with jobs of a repository whose waiting is over, and send labels that were held."""
    about = desk.connection.execute(sa.select(repository).where(repository.c.id == number)).one()
    flush(desk, about)
    tired = sa.select(job).where(
        job.c.repository == number,
        job.c.state == "joining",
        job.c.seen_at <= desk.at - patience(desk.settings),
    )
    for row in desk.connection.execute(tired.order_by(job.c.started_at, job.c.id)).all():
        go_on(desk, about, row, patient=False)


def patience(settings: GitHubSettings) -> float:
    """Return how long a job waits for its run; longer where GitHub can be asked meanwhile."""
    return settings.join_wait_s + (60.0 if settings.asks else 0.0)
