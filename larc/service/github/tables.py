"""The tables of GitHub's part: what was delivered, runs and jobs as far as known, what is shown."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    String,
    Table,
    Text,
)

from larc.service.store.schema import Number, metadata, partial_index

repository = Table(
    "github_repository",
    metadata,
    # GitHub's number: a repository may be renamed.
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    # The name when it was first heard of, which predictors go on to see, and its name now.
    Column("name", String(200), nullable=False),
    Column("full_name", String(200), nullable=False),
    Column("stream", String(200), nullable=False, unique=True),
    Column("shard", Integer, nullable=False),
    Column("last_event_at", Float, nullable=True),
    Column("reconciled_at", Float, nullable=False, default=0.0),
)
Index("github_repository_named", repository.c.full_name)

delivery = Table(
    "github_delivery",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("id", String(100), nullable=False, unique=True),
    Column("hook", String(100), nullable=False),
    Column("event", String(40), nullable=False),
    Column("repository", BigInteger, nullable=True),
    Column("shard", Integer, nullable=False),
    # Kept until it took effect.
    Column("body", Text, nullable=True),
    Column("received_at", Float, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=True),
    sqlite_autoincrement=True,
)
partial_index(
    "github_delivery_waiting",
    delivery.c.shard,
    delivery.c.seq,
    where=sa.text("status = 'waiting'"),
)

run = Table(
    "github_run",
    metadata,
    Column("repository", BigInteger, primary_key=True, autoincrement=False),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("workflow_id", BigInteger, nullable=True),
    Column("path", Text, nullable=True),
    Column("event", Text, nullable=True),
    Column("name", Text, nullable=True),
    Column("started_at", BigInteger, nullable=True),
)

job = Table(
    "github_job",
    metadata,
    Column("repository", BigInteger, primary_key=True, autoincrement=False),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("run", BigInteger, nullable=True),
    Column("attempt", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("commit", String(100), nullable=False),
    Column("branch", Text, nullable=True),
    Column("workflow", Text, nullable=True),
    Column("workflow_id", BigInteger, nullable=True),
    Column("path", Text, nullable=True),
    Column("event", Text, nullable=True),
    Column("url", Text, nullable=True),
    # What GitHub says: queued, in_progress or completed, and how it ended.
    Column("status", String(16), nullable=False),
    Column("conclusion", String(40), nullable=True),
    Column("started_at", BigInteger, nullable=True),
    Column("completed_at", BigInteger, nullable=True),
    # Whether it ever had a runner, steps or labels: a check run that looks like a job has none.
    Column("ran", Boolean, nullable=False),
    # What was done about it: waiting, joining, asked, held, done or left out, and why.
    Column("state", String(16), nullable=False),
    Column("reason", String(60), nullable=True),
    Column("seen_at", Float, nullable=False),
    Column("question", String(200), nullable=False),
    # What was answered, once that is known; nothing where the label was known before.
    Column("answered", Boolean, nullable=False, default=False),
    Column("probabilities", Text, nullable=True),
    Column("risk", Float, nullable=True),
    Column("label", Integer, nullable=True),
)
Index("github_job_state", job.c.repository, job.c.state)
Index("github_job_commit", job.c.repository, job.c.commit)
Index("github_job_run", job.c.repository, job.c.run)
partial_index(
    "github_job_open",
    job.c.state,
    where=sa.text("state IN ('joining', 'held')"),
)
partial_index(
    "github_job_unanswered",
    job.c.repository,
    where=sa.text("NOT answered"),
)

output = Table(
    "github_output",
    metadata,
    Column("repository", BigInteger, primary_key=True, autoincrement=False),
    Column("commit", String(100), primary_key=True),
    # GitHub's number of the check run, once there is one.
    Column("check_run", BigInteger, nullable=True),
    # How often it changed, how often up to what was shown last, and the hash of that.
    Column("changed", Number, nullable=False),
    Column("shown", Number, nullable=False),
    Column("sent", String(64), nullable=True),
    Column("failures", Integer, nullable=False),
    Column("next_at", Float, nullable=False),
)
partial_index(
    "github_output_due",
    output.c.next_at,
    where=sa.text("changed > shown"),
)
