"""The tables, the same in SQLite and PostgreSQL.

The log (`event`) has one row for everything that was ever asked of a stream, numbered without gaps;
`unique (stream, kind, key)` makes natural keys idempotent for ever. What a stream has learned
(`state`) is committed together with the number of the last event in it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

#: How many shards streams are spread over; a worker owns shards, never single streams.
SHARDS = 64
#: SQLite numbers rows by themselves only where the key is a plain INTEGER.
Number = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

template = Table(
    "template",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("spec", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
)


def partial_index(
    name: str, *columns: Column[Any], where: sa.ColumnElement[bool] | sa.TextClause
) -> None:
    """Index the rows of a table that satisfy a condition, on both databases."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


stream = Table(
    "stream",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("template", String(200), nullable=False),
    Column("spec", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("mode", String(16), nullable=False),
    Column("expiry_s", Float, nullable=True),
    Column("expiry_label", Text, nullable=True),
    Column("shard", Integer, nullable=False),
    Column("last_seq", Number, nullable=False, default=0),
    Column("applied_seq", Number, nullable=False, default=0),
    Column("version", Number, nullable=False, default=0),
    Column("asked", Number, nullable=False, default=0),
    Column("labelled", Number, nullable=False, default=0),
    Column("awaited", Number, nullable=False, default=0),
    Column("summary", Text, nullable=False, default="{}"),
    Column("created_at", Float, nullable=False),
    sqlite_autoincrement=True,  # the number of a stream that was deleted is never given again
)
# Streams with something left to do: what a worker looks for when it starts or takes over.
partial_index(
    "stream_behind",
    stream.c.shard,
    where=stream.c.applied_seq < stream.c.last_seq,
)

event = Table(
    "event",
    metadata,
    Column("stream", Number, ForeignKey("stream.id"), primary_key=True),
    Column("seq", Number, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("key", String(240), nullable=False),
    Column("body", Text, nullable=False),
    Column("body_hash", String(64), nullable=False),
    Column("token", String(32), nullable=False),
    Column("occurred_at", Float, nullable=True),
    Column("received_at", Float, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=True),
    Column("code", String(32), nullable=True),
    Column("expires_at", Float, nullable=True),
    UniqueConstraint("stream", "kind", "key", name="event_once"),
)
# What may expire, by when: of the others, however many there are, none is looked at.
partial_index(
    "event_expiring",
    event.c.expires_at,
    where=sa.text("status = 'awaited' AND expires_at IS NOT NULL"),
)

answer = Table(
    "answer",
    metadata,
    Column("stream", Number, ForeignKey("stream.id"), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("seq", Number, nullable=False),
    Column("version", Number, nullable=False),
    Column("body", Text, nullable=False),
    Column("served_at", Float, nullable=False),
    Column("scored", Boolean, nullable=False),
    Column("used", Boolean, nullable=False, default=False),
)

state = Table(
    "state",
    metadata,
    Column("stream", Number, ForeignKey("stream.id"), primary_key=True),
    Column("applied_seq", Number, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("stream", Number, ForeignKey("stream.id"), primary_key=True),
    Column("version", Number, primary_key=True),
    Column("seq", Number, nullable=False),
    Column("label", String(200), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("spec", Text, nullable=True),
)

offer = Table(
    "offer",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("parent", String(64), nullable=False),
    Column("substrate", String(64), nullable=False),
    Column("until", Float, nullable=False),
    Column("result", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
)

batch = Table(
    "batch",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("worker", String(64), nullable=False),
    Column("members", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("at", Float, nullable=False),
)

shard = Table(
    "shard",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("owner", String(64), nullable=True),
    Column("epoch", Number, nullable=False, default=0),
    Column("lease_until", Float, nullable=False, default=0.0),
)

worker = Table(
    "worker",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("until", Float, nullable=False),
)

token = Table(
    "token",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hash", String(64), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("streams", Text, nullable=False),
    Column("note", String(200), nullable=False, default=""),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=True),
    Column("revoked_at", Float, nullable=True),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("token", String(32), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(200), nullable=False),
    Column("detail", Text, nullable=False),
)

evaluation = Table(
    "evaluation",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("stream", Number, ForeignKey("stream.id"), nullable=False),
    Column("status", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)
