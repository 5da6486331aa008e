"""What a worker reads to do its work, and how what came of it is committed: all of it, or none."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Row

from larc.service.store.database import DONE, by_index, now
from larc.service.store.log import REFUSED
from larc.service.store.schema import answer, batch, event, shard, snapshot, state, stream

#: The most events of one stream that are looked at in one round.
AHEAD = 16
#: The most bytes of a notification of PostgreSQL.
_PAYLOAD = 7000


@dataclass(frozen=True)
class Work:
    """What a stream has waiting.

    Attributes
    ----------
    stream
        Its row.
    events
        The next events, in order.
    labels
        Labels that are known of the questions among them.
    answers
        What was answered to the questions whose labels are among them.
    """

    stream: Row[Any]
    events: tuple[Row[Any], ...]
    labels: Mapping[str, Row[Any]]
    answers: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What came of one event.

    Attributes
    ----------
    seq, kind, key
        The event's.
    status, reason
        Its status from now on, and why, where it was refused.
    code
        The problem's code, where it was refused.
    answer
        To a question; or what else a client that waits is told.
    """

    seq: int
    kind: str
    key: str
    status: str
    reason: str | None = None
    code: str = ""
    answer: Mapping[str, Any] | None = None


@dataclass
class Step:
    """What one round did to one stream, ready to be committed.

    Attributes
    ----------
    stream, shard
        Whose it is.
    before, applied
        The number of the last event in the state before and after.
    outcomes
        Of the events between.
    marks
        Further events whose status changes: ``(kind, key, status)``.
    values
        Columns of the stream's row.
    body
        The state, where it changed.
    snapshots
        Rows to keep: version, label, state, and the spec it is of.
    """

    stream: int
    shard: int
    before: int
    applied: int
    outcomes: list[Outcome] = field(default_factory=list)
    marks: list[tuple[str, str, str]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    snapshots: list[tuple[int, str, bytes, str]] = field(default_factory=list)


def behind(connection: Connection, shards: Collection[int], limit: int = 10_000) -> list[int]:
    """Return streams of some shards that have events waiting."""
    by_index(connection)
    query = (
        sa.select(stream.c.id)
        .where(stream.c.applied_seq < stream.c.last_seq, stream.c.shard.in_(sorted(shards)))
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def load_work(connection: Connection, streams: Collection[int]) -> list[Work]:
    """Return what waits in some streams; one that has nothing, or is gone, is left out."""
    chosen = stream.c.id.in_(sorted(streams))
    rows = connection.execute(
        sa.select(stream).where(chosen, stream.c.applied_seq < stream.c.last_seq)
    ).all()
    waiting = connection.execute(
        sa.select(event)
        .join(stream, stream.c.id == event.c.stream)
        .where(
            chosen,
            event.c.seq > stream.c.applied_seq,
            event.c.seq <= stream.c.applied_seq + AHEAD,
        )
        .order_by(event.c.stream, event.c.seq)
    ).all()
    waiting = [*waiting, *_of_one_second(connection, rows, waiting)]
    known: dict[int, dict[str, Row[Any]]] = {}
    asked = [one for one in waiting if one.kind == "question"]
    if asked:
        labels = sa.select(event).where(event.c.kind == "label", *_whose(event.c.key, event, asked))
        for one in connection.execute(labels):
            known.setdefault(one.stream, {})[one.key] = one
    answers: dict[int, dict[str, Any]] = {}
    labelled = [one for one in waiting if one.kind == "label"]
    if labelled:
        given = sa.select(answer.c.stream, answer.c.question, answer.c.body)
        for one in connection.execute(given.where(*_whose(answer.c.question, answer, labelled))):
            answers.setdefault(one.stream, {})[one.question] = json.loads(one.body)
    by_stream: dict[int, list[Row[Any]]] = {}
    for one in waiting:
        by_stream.setdefault(one.stream, []).append(one)
    return [
        Work(row, tuple(by_stream[row.id]), known.get(row.id, {}), answers.get(row.id, {}))
        for row in rows
        if row.id in by_stream
    ]


def _of_one_second(
    connection: Connection, streams: Sequence[Row[Any]], waiting: Sequence[Row[Any]]
) -> list[Row[Any]]:
    """Return further labels of jobs that ended in the second of those that wait: one batch."""
    more: list[Row[Any]] = []
    for row in streams:
        ahead = [one for one in waiting if one.stream == row.id]
        seconds = {(one.kind, one.occurred_at) for one in ahead}
        if len(ahead) < AHEAD or len(seconds) > 1 or ahead[0].kind != "label":
            continue
        later = sa.select(event).where(
            event.c.stream == row.id,
            event.c.seq > ahead[-1].seq,
            event.c.kind == "label",
            event.c.occurred_at == ahead[0].occurred_at,
        )
        for one in connection.execute(later.order_by(event.c.seq)):
            if one.seq != (more or ahead)[-1].seq + 1:
                break
            more.append(one)
    return more


def _whose(column: Any, table: sa.Table, events: Sequence[Row[Any]]) -> tuple[Any, ...]:
    """Return conditions that leave the rows of some events' streams and keys, and few others."""
    return (
        table.c.stream.in_(sorted({one.stream for one in events})),
        column.in_(sorted({one.key for one in events})),
    )


def load_state(connection: Connection, number: int) -> bytes | None:
    """Return the state of a stream; nothing for one that has not begun."""
    body: bytes | None = connection.execute(
        sa.select(state.c.body).where(state.c.stream == number)
    ).scalar()
    return body


def load_snapshot(connection: Connection, number: int, version: int) -> Row[Any] | None:
    """Return the row of a version of a stream that was kept."""
    return connection.execute(
        sa.select(snapshot).where(snapshot.c.stream == number, snapshot.c.version == version)
    ).one_or_none()


def commit(
    connection: Connection,
    steps: Sequence[Step],
    epochs: Mapping[int, int],
    worker: str,
    versions: str,
) -> list[int]:
    """Write what a round did, and return the streams whose part was refused.

    A part is refused where the shard has another epoch by now (somebody else took it over), and
    where the stream's row is not as the round found it (deleted, or moved on by another owner).
    """
    used = sorted({step.shard for step in steps})
    # Shared, and held until the commit: nobody takes a shard over in between.
    held = connection.execute(
        sa.select(shard.c.id, shard.c.owner, shard.c.epoch)
        .where(shard.c.id.in_(used))
        .order_by(shard.c.id)
        .with_for_update(read=True)
    ).all()
    ours = {row.id for row in held if row.owner == worker and row.epoch == epochs.get(row.id)}
    refused, kept = [], []
    for step in sorted(steps, key=lambda one: one.stream):
        moved = step.shard in ours and connection.execute(
            sa.update(stream)
            .where(stream.c.id == step.stream, stream.c.applied_seq == step.before)
            .values(applied_seq=step.applied, **step.values)
        )
        if moved is False or moved.rowcount != 1:
            refused.append(step.stream)
        else:
            kept.append(step)
    if kept:
        _write(connection, kept, worker, versions)
    return refused


def _write(connection: Connection, steps: Sequence[Step], worker: str, versions: str) -> None:
    time = now(connection)
    outcomes = [(step.stream, outcome) for step in steps for outcome in step.outcomes]
    _executemany(
        connection,
        sa.update(event)
        .where(event.c.stream == sa.bindparam("of"), event.c.seq == sa.bindparam("number"))
        .values(
            status=sa.bindparam("new_status"),
            reason=sa.bindparam("why"),
            code=sa.bindparam("why_code"),
            key=sa.bindparam("new_key"),
        ),
        [
            {
                "of": number,
                "number": one.seq,
                "new_status": one.status,
                "why": one.reason,
                "why_code": one.code or None,
                "new_key": f"{REFUSED}{one.seq}:{one.key}" if one.status == "refused" else one.key,
            }
            for number, one in outcomes
        ],
    )
    _executemany(
        connection,
        sa.update(event)
        .where(
            event.c.stream == sa.bindparam("of"),
            event.c.kind == sa.bindparam("what"),
            event.c.key == sa.bindparam("whose"),
        )
        .values(status=sa.bindparam("new_status")),
        [
            {"of": step.stream, "what": kind, "whose": key, "new_status": status}
            for step in steps
            for kind, key, status in step.marks
        ],
    )
    _executemany(
        connection,
        sa.insert(answer),
        [
            {
                "stream": number,
                "question": one.key,
                "seq": one.seq,
                "version": one.answer["state_version"],
                "body": json.dumps(one.answer, separators=(",", ":")),
                "served_at": time,
                "scored": one.answer["scored"],
                "used": False,
            }
            for number, one in outcomes
            if one.kind == "question" and one.answer is not None
        ],
    )
    _executemany(
        connection,
        sa.update(answer)
        .where(answer.c.stream == sa.bindparam("of"), answer.c.question == sa.bindparam("name"))
        .values(used=True),
        [{"of": n, "name": one.key} for n, one in outcomes if one.kind == "used"],
    )
    _executemany(
        connection,
        _insert(connection, snapshot).on_conflict_do_nothing(),  # a version is kept once
        [
            {
                "stream": step.stream,
                "version": version,
                "seq": step.applied,
                "label": label,
                "body": body,
                "created_at": time,
                "spec": spec,
            }
            for step in steps
            for version, label, body, spec in step.snapshots
        ],
    )
    _executemany(
        connection,
        _upsert_state(connection),
        [
            {"stream": step.stream, "applied_seq": step.applied, "body": step.body}
            for step in steps
            if step.body is not None
        ],
    )
    members = [[number, one.seq] for number, one in outcomes if one.kind in ("question", "label")]
    connection.execute(
        sa.insert(batch).values(
            worker=worker,
            members=json.dumps(members, separators=(",", ":")),
            versions=versions,
            at=time,
        )
    )
    notify(connection, DONE, [f"{number}:{one.seq}" for number, one in outcomes])


def notify(connection: Connection, channel: str, words: Sequence[str]) -> None:
    """Tell the other processes, when this transaction is committed; SQLite has none."""
    if connection.dialect.name != "postgresql":
        return
    size = 0
    lines: list[list[str]] = [[]]
    for word in words:
        if size + len(word) + 1 > _PAYLOAD:
            lines.append([])
            size = 0
        lines[-1].append(word)
        size += len(word) + 1
    for line in filter(None, lines):
        statement = sa.text("select pg_notify(:channel, :payload)")
        connection.execute(statement, {"channel": channel, "payload": " ".join(line)})


def _insert(connection: Connection, table: sa.Table) -> Any:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def _upsert_state(connection: Connection) -> Any:
    insert = _insert(connection, state)
    return insert.on_conflict_do_update(
        index_elements=["stream"],
        set_={"applied_seq": insert.excluded.applied_seq, "body": insert.excluded.body},
    )


def _executemany(connection: Connection, statement: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)
