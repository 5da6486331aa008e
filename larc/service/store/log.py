"""The log's intake: everything that is asked of a stream becomes an event with a number, once.

All functions here run inside one transaction that several requests share, and lock the stream's
row first; so the numbers of a stream have no gaps, whoever takes its events in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.domains.ci.jobs import Observation
from larc.errors import LarcError
from larc.io.hashes import hash_json
from larc.service.problems import Problem
from larc.service.store.database import now
from larc.service.store.schema import answer, event, stream
from larc.stream.question import Question, resolved

#: In front of the key of an event that was refused: its natural key is free again.
REFUSED = "\x1f"


@dataclass(frozen=True)
class Command:
    """What a request asks of a stream: the kind of event, its natural key, its body."""

    stream: str
    kind: str
    key: str
    body: Mapping[str, Any]
    token: str = ""
    occurred_at: float | None = None


@dataclass(frozen=True)
class Taken:
    """What came of a command.

    Attributes
    ----------
    stream
        The number of the stream.
    seq
        The event's number in it.
    new
        Whether the event was made now; otherwise it was there before.
    status
        The event's status.
    shard
        The stream's.
    answer
        The answer to a question, where there is one already.
    """

    stream: int
    seq: int
    new: bool
    status: str
    shard: int
    reason: str | None = None
    answer: dict[str, Any] | None = None


def take(connection: Connection, command: Command) -> Taken:
    """Put a command into the log, or return the event that it was before; refuse contradictions."""
    row = locked_stream(connection, command.stream)
    before = connection.execute(
        sa.select(event).where(
            event.c.stream == row.id, event.c.kind == command.kind, event.c.key == command.key
        )
    ).one_or_none()
    if before is not None:
        return _again(connection, command, row.shard, before)
    status = "accepted"
    if command.kind in _CHECKS:
        status = _CHECKS[command.kind](connection, row, command)
    seq, time = row.last_seq + 1, now(connection)
    expires = command.kind == "question" and row.expiry_s is not None
    connection.execute(
        sa.insert(event).values(
            stream=row.id,
            seq=seq,
            kind=command.kind,
            key=command.key,
            body=json.dumps(command.body, separators=(",", ":")),
            body_hash=hash_json(command.body),
            token=command.token,
            occurred_at=command.occurred_at,
            received_at=time,
            expires_at=time + row.expiry_s if expires else None,
            status=status,
        )
    )
    connection.execute(sa.update(stream).where(stream.c.id == row.id).values(last_seq=seq))
    return Taken(row.id, seq, True, status, row.shard)


def locked_stream(connection: Connection, name: str) -> Row[Any]:
    """Return a stream's row, kept from other writers until the transaction ends."""
    # SQLite has one writer at a time, and leaves FOR UPDATE out.
    query = sa.select(stream).where(stream.c.name == name).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None:
        raise Problem("not-found", f"there is no stream {name!r}.")
    return row


def _again(connection: Connection, command: Command, shard: int, before: Row[Any]) -> Taken:
    """Return what a command was before, refusing one that says something else."""
    if command.kind == "label":
        asked = _question(connection, before.stream, command.key)
        if not _same_label(json.loads(before.body), command.body, asked):
            raise Problem("other-label", f"{command.key!r} has another label already.")
    elif before.body_hash != hash_json(command.body):
        raise Problem("other-body", f"{command.key!r} was given before, with another body.")
    reply = None
    if command.kind == "question":
        reply = connection.execute(
            sa.select(answer.c.body).where(
                answer.c.stream == before.stream, answer.c.question == command.key
            )
        ).scalar()
    given = None if reply is None else json.loads(reply)
    return Taken(before.stream, before.seq, False, before.status, shard, before.reason, given)


def _question(connection: Connection, number: int, name: str) -> Any:
    return connection.execute(
        sa.select(event.c.seq, event.c.body, event.c.status).where(
            event.c.stream == number, event.c.kind == "question", event.c.key == name
        )
    ).one_or_none()


def label_of(body: Mapping[str, Any], question: Question) -> int | tuple[float, ...]:
    """Return what a label's body says about a question: an index or losses."""
    given = body["losses"] if "losses" in body else body["label"]
    return resolved(question.name, question.candidates, given)


def as_question(name: str, body: Mapping[str, Any]) -> Question:
    """Return the question that an event's body holds; with the job, if it is about one."""
    job = body.get("job")
    source = None if job is None else Observation(*job)
    return Question(name, tuple(body["candidates"]), body["prompt"], source)


def _same_label(first: Any, second: Mapping[str, Any], asked: Row[Any] | None) -> bool:
    """Whether two bodies say the same: a text and its index do, once the candidates are known."""
    if asked is None:
        return hash_json(first) == hash_json(second)
    question = as_question("a question", json.loads(asked.body))
    try:
        return label_of(first, question) == label_of(second, question)
    except LarcError:
        return False


# What each kind needs, and the status it begins with ---------------------------------------------


def _check_label(connection: Connection, row: Row[Any], command: Command) -> str:
    asked = _question(connection, row.id, command.key)
    if asked is None:
        return "early"
    _check_awaited(asked, command.key)
    try:
        label_of(command.body, as_question(command.key, json.loads(asked.body)))
    except LarcError as error:
        raise Problem("invalid", str(error)) from error
    return "accepted"


def _check_known(connection: Connection, row: Row[Any], command: Command) -> str:
    asked = _question(connection, row.id, command.body["question"])
    if asked is None:
        raise Problem("not-found", f"there is no question {command.body['question']!r}.")
    return "accepted"


def _check_drop(connection: Connection, row: Row[Any], command: Command) -> str:
    asked = _question(connection, row.id, command.key)
    if asked is None:
        raise Problem("not-found", f"there is no question {command.key!r}.")
    _check_awaited(asked, command.key)
    labelled = connection.execute(
        sa.select(event.c.seq).where(
            event.c.stream == row.id, event.c.kind == "label", event.c.key == command.key
        )
    ).one_or_none()
    if labelled is not None:
        raise Problem("other-label", f"{command.key!r} has a label; it cannot be dropped.")
    dropped = sa.update(event).where(event.c.stream == row.id, event.c.seq == asked.seq)
    # Said at once, so that no label is taken in between; an unanswered question is answered first.
    if asked.status == "awaited":
        connection.execute(dropped.values(status=_ENDS[command.kind]))
    return "accepted"


def _check_correction(connection: Connection, row: Row[Any], command: Command) -> str:
    name = command.body["question"]
    asked = _question(connection, row.id, name)
    if asked is None:
        raise Problem("not-found", f"there is no question {name!r}.")
    labelled = connection.execute(
        sa.select(event.c.seq).where(
            event.c.stream == row.id, event.c.kind == "label", event.c.key == name
        )
    ).one_or_none()
    if labelled is None:
        raise Problem("not-labelled", f"{name!r} has no label yet; send one.")
    try:
        label_of(command.body, as_question(name, json.loads(asked.body)))
    except LarcError as error:
        raise Problem("invalid", str(error)) from error
    return "accepted"


def _check_awaited(asked: Row[Any], name: str) -> None:
    if asked.status in ("dropped", "expired"):
        raise Problem(asked.status, f"{name!r} is {asked.status}: no label is taken any more.")


_ENDS = {"drop": "dropped", "expiry": "expired"}
_CHECKS = {
    "label": _check_label,
    "drop": _check_drop,
    "expiry": _check_drop,
    "used": _check_known,
    "correction": _check_correction,
}
