"""Run by Alembic: brings the tables of an open connection up to date."""

from __future__ import annotations

from alembic import context

from larc.service.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
