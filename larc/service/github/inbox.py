"""The inbox: a delivery is written down once for ever, and answered before anything is done."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.github.tables import delivery
from larc.service.problems import Problem
from larc.service.store.database import now
from larc.service.store.schema import SHARDS

#: The events that something is done about.
EVENTS = ("workflow_job", "workflow_run")
#: The most bytes of a delivery; GitHub sends none that is larger.
MOST_BYTES = 25 * 2**20


def parsed(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object that a delivery holds.

    Examples
    --------
    >>> parsed(b'{"zen": "Keep it logically awesome."}')
    {'zen': 'Keep it logically awesome.'}
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(
            "bad-json", "the delivery is no JSON; set the webhook's content type to it."
        ) from None
    if not isinstance(document, dict):
        raise Problem("invalid", "the delivery is no JSON object.")
    return document


def put(connection: Connection, hook: str, name: str, event: str, body: bytes) -> bool:
    """Write a delivery down; returns whether it is new. Only what matters later is kept."""
    document = parsed(body)
    known = connection.execute(sa.select(delivery.c.seq).where(delivery.c.id == name))
    if known.one_or_none() is not None:
        return False
    about = document.get("repository")
    about = about if isinstance(about, dict) else {}
    number = about.get("id")
    number = number if type(number) is int and 0 <= number < 2**63 else None
    wanted = event in EVENTS and number is not None
    kept = {key: document.get(key) for key in ("action", "repository", *EVENTS)}
    kept["repository"] = {"id": number, "full_name": about.get("full_name")}
    connection.execute(
        sa.insert(delivery).values(
            id=name,
            hook=hook,
            event=event,
            repository=number,
            shard=(number or 0) % SHARDS,
            # Escapes keep whatever JSON can say in a column of any database.
            body=json.dumps(kept) if wanted else None,
            received_at=now(connection),
            status="waiting" if wanted else "ignored",
        )
    )
    return True


def waiting(
    connection: Connection, shards: Collection[int], limit: int, but: Collection[int] = ()
) -> list[Row[Any]]:
    """Return deliveries that nothing was done about, in the order in which they came.

    Those ``but`` of some repositories.
    """
    query = sa.select(delivery).where(
        delivery.c.status == "waiting",
        delivery.c.shard.in_(sorted(shards)),
        delivery.c.repository.not_in(sorted(but)),
    )
    return list(connection.execute(query.order_by(delivery.c.seq).limit(limit)))


def finish(connection: Connection, seq: int, reason: str | None = None) -> None:
    """Say that a delivery took effect, or why it did not; its body is not needed any more."""
    status = "done" if reason is None else "refused"
    connection.execute(
        sa.update(delivery)
        .where(delivery.c.seq == seq)
        .values(status=status, reason=reason, body=None)
    )
