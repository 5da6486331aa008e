"""What is kept of a repository goes with its stream."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from larc.service.github.tables import delivery, job, output, repository, run


def erase_repository(connection: Connection, stream: str) -> None:
    """Erase what is kept of a stream's repository; the ids of its deliveries stay, for ever."""
    query = sa.select(repository.c.id).where(repository.c.stream == stream)
    number = connection.execute(query).scalar()
    if number is None:
        return
    for table in (job, run, output):
        connection.execute(sa.delete(table).where(table.c.repository == number))
    connection.execute(sa.delete(repository).where(repository.c.id == number))
    waiting = (delivery.c.repository == number) & (delivery.c.status == "waiting")
    erased = {"status": "ignored", "body": None, "reason": "its repository was erased."}
    connection.execute(sa.update(delivery).where(waiting).values(erased))
