"""The first version of the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SHARDS = 64


def upgrade() -> None:
    """Make every table, and the shards."""
    op.create_table(
        "template",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_table(
        "stream",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("template", sa.String(200), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("expiry_s", sa.Float, nullable=True),
        sa.Column("expiry_label", sa.Text, nullable=True),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("last_seq", Number, nullable=False),
        sa.Column("applied_seq", Number, nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.Column("asked", Number, nullable=False),
        sa.Column("labelled", Number, nullable=False),
        sa.Column("awaited", Number, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    behind = sa.text("applied_seq < last_seq")
    op.create_index(
        "stream_behind", "stream", ["shard"], sqlite_where=behind, postgresql_where=behind
    )
    op.create_table(
        "event",
        sa.Column("stream", Number, sa.ForeignKey("stream.id"), primary_key=True),
        sa.Column("seq", Number, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("key", sa.String(240), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("occurred_at", sa.Float, nullable=True),
        sa.Column("received_at", sa.Float, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=True),
        sa.UniqueConstraint("stream", "kind", "key", name="event_once"),
    )
    awaited = sa.text("status = 'awaited'")
    op.create_index(
        "event_awaited", "event", ["received_at"], sqlite_where=awaited, postgresql_where=awaited
    )
    op.create_table(
        "answer",
        sa.Column("stream", Number, sa.ForeignKey("stream.id"), primary_key=True),
        sa.Column("question", sa.String(200), primary_key=True),
        sa.Column("seq", Number, nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("served_at", sa.Float, nullable=False),
        sa.Column("scored", sa.Boolean, nullable=False),
        sa.Column("used", sa.Boolean, nullable=False),
    )
    op.create_table(
        "state",
        sa.Column("stream", Number, sa.ForeignKey("stream.id"), primary_key=True),
        sa.Column("applied_seq", Number, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "snapshot",
        sa.Column("stream", Number, sa.ForeignKey("stream.id"), primary_key=True),
        sa.Column("version", Number, primary_key=True),
        sa.Column("seq", Number, nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_table(
        "batch",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("members", sa.Text, nullable=False),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    shard = op.create_table(
        "shard",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(64), nullable=True),
        sa.Column("epoch", Number, nullable=False),
        sa.Column("lease_until", sa.Float, nullable=False),
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("until", sa.Float, nullable=False),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("streams", sa.Text, nullable=False),
        sa.Column("note", sa.String(200), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=True),
        sa.Column("revoked_at", sa.Float, nullable=True),
    )
    op.create_table(
        "audit",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_table(
        "evaluation",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("stream", Number, sa.ForeignKey("stream.id"), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.bulk_insert(
        shard, [{"id": n, "owner": None, "epoch": 0, "lease_until": 0.0} for n in range(SHARDS)]
    )
