"""Slow states trained on the service's own logs, and the state that a snapshot belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of offers; every snapshot so far is of the state its stream has now."""
    op.create_table(
        "offer",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("parent", sa.String(64), nullable=False),
        sa.Column("substrate", sa.String(64), nullable=False),
        sa.Column("until", sa.Float, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.add_column("snapshot", sa.Column("spec", sa.Text, nullable=True))
    op.execute(
        "update snapshot set spec = (select spec from stream where stream.id = snapshot.stream)"
    )
