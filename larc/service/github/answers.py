"""What was answered about jobs, written beside them once it is known."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from larc.service.github.outbox import mark
from larc.service.github.tables import job, repository
from larc.service.store.schema import answer, stream

#: The label whose probability is the risk.
FAILURE = 1
#: The most answers of one look.
_MOST = 500


def unanswered() -> sa.Select[tuple[int, int, str, str, bool]]:
    """Return the query for answers that are there and not yet with their jobs."""
    return (
        sa.select(job.c.repository, job.c.id, job.c.commit, answer.c.body, answer.c.scored)
        .select_from(job)
        .join(repository, repository.c.id == job.c.repository)
        .join(stream, stream.c.name == repository.c.stream)
        .join(answer, sa.and_(answer.c.stream == stream.c.id, answer.c.question == job.c.question))
        .where(job.c.answered.is_(False))
        .limit(_MOST)
    )


def write_answers(connection: Connection, *, shown: bool) -> int:
    """Write answers to their jobs; returns how many.

    With ``shown``, what GitHub shows of their commits is to change. Where the label was known
    first, nothing is written: it was no prediction.
    """
    rows = connection.execute(unanswered()).all()
    for row in rows:
        values: dict[str, object] = {"answered": True}
        if row.scored:
            probabilities = json.loads(row.body)["probabilities"]
            values["probabilities"] = json.dumps(probabilities)
            values["risk"] = probabilities[FAILURE]
        connection.execute(
            sa.update(job)
            .where(job.c.repository == row.repository, job.c.id == row.id)
            .values(values)
        )
        if shown:
            mark(connection, row.repository, row.commit)
    return len(rows)
