"""What GitHub's webhooks bring: deliveries, repositories, runs, jobs, and what is shown there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables of GitHub's part."""
    op.create_table(
        "github_repository",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("full_name", sa.String(200), nullable=False),
        sa.Column("stream", sa.String(200), nullable=False, unique=True),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("last_event_at", sa.Float, nullable=True),
        sa.Column("reconciled_at", sa.Float, nullable=False),
    )
    op.create_index("github_repository_named", "github_repository", ["full_name"])
    op.create_table(
        "github_delivery",
        sa.Column("seq", Number, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(100), nullable=False, unique=True),
        sa.Column("hook", sa.String(100), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("repository", sa.BigInteger, nullable=True),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=True),
        sa.Column("received_at", sa.Float, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=True),
        sqlite_autoincrement=True,
    )
    _partial("github_delivery_waiting", "github_delivery", ["shard", "seq"], "status = 'waiting'")
    op.create_table(
        "github_run",
        sa.Column("repository", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("workflow_id", sa.BigInteger, nullable=True),
        sa.Column("path", sa.Text, nullable=True),
        sa.Column("event", sa.Text, nullable=True),
        sa.Column("name", sa.Text, nullable=True),
        sa.Column("started_at", sa.BigInteger, nullable=True),
    )
    _jobs()
    op.create_table(
        "github_output",
        sa.Column("repository", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("commit", sa.String(100), primary_key=True),
        sa.Column("check_run", sa.BigInteger, nullable=True),
        sa.Column("changed", Number, nullable=False),
        sa.Column("shown", Number, nullable=False),
        sa.Column("sent", sa.String(64), nullable=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Float, nullable=False),
    )
    _partial("github_output_due", "github_output", ["next_at"], "changed > shown")


def _jobs() -> None:
    op.create_table(
        "github_job",
        sa.Column("repository", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("run", sa.BigInteger, nullable=True),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("commit", sa.String(100), nullable=False),
        sa.Column("branch", sa.Text, nullable=True),
        sa.Column("workflow", sa.Text, nullable=True),
        sa.Column("workflow_id", sa.BigInteger, nullable=True),
        sa.Column("path", sa.Text, nullable=True),
        sa.Column("event", sa.Text, nullable=True),
        sa.Column("url", sa.Text, nullable=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("conclusion", sa.String(40), nullable=True),
        sa.Column("started_at", sa.BigInteger, nullable=True),
        sa.Column("completed_at", sa.BigInteger, nullable=True),
        sa.Column("ran", sa.Boolean, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(60), nullable=True),
        sa.Column("seen_at", sa.Float, nullable=False),
        sa.Column("question", sa.String(200), nullable=False),
        sa.Column("answered", sa.Boolean, nullable=False),
        sa.Column("probabilities", sa.Text, nullable=True),
        sa.Column("risk", sa.Float, nullable=True),
        sa.Column("label", sa.Integer, nullable=True),
    )
    op.create_index("github_job_state", "github_job", ["repository", "state"])
    op.create_index("github_job_commit", "github_job", ["repository", "commit"])
    op.create_index("github_job_run", "github_job", ["repository", "run"])
    _partial("github_job_open", "github_job", ["state"], "state IN ('joining', 'held')")
    _partial("github_job_unanswered", "github_job", ["repository"], "NOT answered")


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
