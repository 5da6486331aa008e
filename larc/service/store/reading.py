"""Questions to the database that change nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.errors import LarcError
from larc.service.problems import Problem
from larc.service.store.database import by_index, now
from larc.service.store.log import REFUSED, Command, as_question, label_of
from larc.service.store.results import Outcome
from larc.service.store.schema import answer, evaluation, event, snapshot, stream

#: The most questions that expire in one look.
_EXPIRING = 200


def stream_row(connection: Connection, name: str) -> Row[Any]:
    """Return a stream's row."""
    row = connection.execute(sa.select(stream).where(stream.c.name == name)).one_or_none()
    if row is None:
        raise Problem("not-found", f"there is no stream {name!r}.")
    return row


def stream_answer(row: Row[Any]) -> dict[str, Any]:
    """Return a stream as it is shown."""
    summary = json.loads(row.summary)
    expiry = None
    if row.expiry_s is not None:
        label = None if row.expiry_label is None else json.loads(row.expiry_label)
        then = "drop" if label is None else "label"
        expiry = {"after_s": row.expiry_s, "then": then, "label": label}
    return {
        "name": row.name,
        "template": row.template,
        "mode": row.mode,
        "expiry": expiry,
        "asked": row.asked,
        "labelled": row.labelled,
        "awaited": row.awaited,
        "state_version": row.version,
        "last_seq": row.last_seq,
        "applied_seq": row.applied_seq,
        "losses": summary.get("losses", {}),
        "risks": summary.get("risks", {}),
        "weights": summary.get("weights", {}),
        "bound": summary.get("bound"),
        "slow": json.loads(row.spec)["slow"],
        "created_at": row.created_at,
    }


def list_streams(
    connection: Connection, globs: Sequence[str], after: str, limit: int
) -> list[Row[Any]]:
    """Return streams that match some globs, in the order of their names."""
    query = (
        sa.select(stream)
        .where(stream.c.name > after, matching(globs, connection.dialect.name))
        .order_by(stream.c.name)
        .limit(limit)
    )
    return list(connection.execute(query).all())


def matching(globs: Sequence[str], dialect: str) -> sa.ColumnElement[bool]:
    """Return the condition of the streams that match some globs, which have ``*`` and ``?``."""
    if "*" in globs:
        return sa.true()
    if dialect == "sqlite":  # its LIKE does not tell A from a
        return sa.or_(sa.false(), *(stream.c.name.op("GLOB")(glob) for glob in globs))
    return sa.or_(sa.false(), *(stream.c.name.like(_like(glob), escape="/") for glob in globs))


def _like(glob: str) -> str:
    for before, after in (("/", "//"), ("%", "/%"), ("_", "/_"), ("*", "%"), ("?", "_")):
        glob = glob.replace(before, after)
    return glob


def list_events(connection: Connection, number: int, after: int, limit: int) -> list[Row[Any]]:
    """Return events of a stream's log, in order, each with the answer that was given."""
    return list(
        connection.execute(
            sa.select(event, answer.c.body.label("answer"))
            .join(
                answer,
                sa.and_(answer.c.stream == event.c.stream, answer.c.seq == event.c.seq),
                isouter=True,
            )
            .where(event.c.stream == number, event.c.seq > after)
            .order_by(event.c.seq)
            .limit(limit)
        ).all()
    )


def event_answer(row: Row[Any]) -> dict[str, Any]:
    """Return an event as it is shown."""
    key = row.key.split(":", 1)[1] if row.key.startswith(REFUSED) else row.key
    return {
        "seq": row.seq,
        "kind": row.kind,
        "key": key,
        "body": json.loads(row.body),
        "status": row.status,
        "reason": row.reason,
        "occurred_at": row.occurred_at,
        "received_at": row.received_at,
        "answer": None if row.answer is None else json.loads(row.answer),
    }


def outcomes_of(
    connection: Connection, keys: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Outcome]:
    """Return what came of events, for those that have taken effect."""
    by_stream: dict[int, list[int]] = {}
    for number, seq in keys[:1000]:
        by_stream.setdefault(number, []).append(seq)
    outcomes: dict[tuple[int, int], Outcome] = {}
    for number, numbers in by_stream.items():
        rows = connection.execute(
            sa.select(event, answer.c.body.label("answer"), stream.c.version)
            .join(stream, stream.c.id == event.c.stream)
            .join(
                answer,
                sa.and_(answer.c.stream == event.c.stream, answer.c.seq == event.c.seq),
                isouter=True,
            )
            .where(
                event.c.stream == number,
                event.c.seq.in_(numbers),
                event.c.seq <= stream.c.applied_seq,
            )
        )
        for row in rows:
            about = {"state_version": row.version}
            if row.answer is not None:
                about = json.loads(row.answer)
            key, code = event_answer(row)["key"], row.code or ""
            outcomes[number, row.seq] = Outcome(
                row.seq, row.kind, key, row.status, row.reason, code, about
            )
    return outcomes


def expired(connection: Connection, shards: Collection[int]) -> list[Command]:
    """Return what is to be said of questions that have waited too long for their labels."""
    rows = connection.execute(
        sa.select(event.c.key, event.c.body, stream.c.name, stream.c.expiry_label)
        .join(stream, stream.c.id == event.c.stream)
        .where(
            sa.text("event.status = 'awaited' AND event.expires_at IS NOT NULL"),
            event.c.expires_at < now(connection),
            stream.c.shard.in_(sorted(shards)),
        )
        .order_by(event.c.expires_at)
        .limit(_EXPIRING)
    )
    commands = []
    for row in rows:
        label = None if row.expiry_label is None else {"label": json.loads(row.expiry_label)}
        # A default that is none of this question's candidates is none for it.
        if label is None or not _fits(label, row):
            commands.append(Command(row.name, "expiry", row.key, {}, "expiry"))
        else:
            commands.append(Command(row.name, "label", row.key, label, "expiry"))
    return commands


def _fits(label: dict[str, Any], row: Any) -> bool:
    try:
        label_of(label, as_question(row.key, json.loads(row.body)))
    except LarcError:
        return False
    return True


def history(connection: Connection, number: int, after: int, upto: int) -> Iterator[Row[Any]]:
    """Yield events that took effect, in order, a few at a time."""
    while after < upto:
        rows = connection.execute(
            sa.select(event)
            .where(event.c.stream == number, event.c.seq > after, event.c.seq <= upto)
            .order_by(event.c.seq)
            .limit(200)
        ).all()
        if not rows:
            return
        yield from rows
        after = rows[-1].seq


def snapshots(connection: Connection, number: int) -> list[dict[str, Any]]:
    """Return the versions of a stream that were kept."""
    columns = (snapshot.c.version, snapshot.c.seq, snapshot.c.label, snapshot.c.created_at)
    rows = connection.execute(
        sa.select(*columns).where(snapshot.c.stream == number).order_by(snapshot.c.version)
    )
    return [dict(row._mapping) for row in rows]


def evaluation_row(connection: Connection, number: int, name: str) -> dict[str, Any]:
    """Return an evaluation of a stream."""
    row = connection.execute(
        sa.select(evaluation).where(evaluation.c.id == name, evaluation.c.stream == number)
    ).one_or_none()
    if row is None:
        raise Problem("not-found", f"there is no evaluation {name!r}.")
    result = {} if row.status == "running" else json.loads(row.body)
    return {"id": row.id, "status": row.status, "result": result}


def any_running(connection: Connection) -> bool:
    """Whether an evaluation runs, or ended with its process."""
    query = sa.select(evaluation.c.id).where(evaluation.c.status == "running").limit(1)
    return connection.execute(query).first() is not None


def waiting_events(connection: Connection, shards: Collection[int]) -> int:
    """Return how many events of some shards' streams wait to take effect."""
    by_index(connection)
    query = sa.select(sa.func.coalesce(sa.func.sum(stream.c.last_seq - stream.c.applied_seq), 0))
    behind = stream.c.applied_seq < stream.c.last_seq
    return int(
        connection.execute(query.where(behind, stream.c.shard.in_(sorted(shards)))).scalar_one()
    )
