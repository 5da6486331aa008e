"""When a question expires, and why an event was refused, as columns of the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns, and an index of what may expire in place of one of all that is awaited."""
    op.add_column("event", sa.Column("code", sa.String(32), nullable=True))
    op.add_column("event", sa.Column("expires_at", sa.Float, nullable=True))
    op.execute(
        "update event set expires_at = received_at + (select expiry_s from stream where "
        "stream.id = event.stream) where kind = 'question'"
    )
    op.drop_index("event_awaited", "event")
    expiring = sa.text("status = 'awaited' AND expires_at IS NOT NULL")
    op.create_index(
        "event_expiring", "event", ["expires_at"], sqlite_where=expiring, postgresql_where=expiring
    )
