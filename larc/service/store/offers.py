"""Slow states that are offered to streams: trained on their logs, judged on what came later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.problems import Problem
from larc.service.store.admin import note
from larc.service.store.database import Database, now
from larc.service.store.schema import offer
from larc.state import SlowState


def keep_offer(
    connection: Connection,
    name: str,
    slow: SlowState,
    parent: str,
    until: float,
    result: Mapping[str, Any],
) -> None:
    """Offer a slow state; no stream starts from it before somebody says so."""
    check_unused(connection, name)
    same = sa.select(offer.c.name).where(offer.c.digest == slow.digest)
    known = connection.execute(same).scalar()
    if known is not None:
        raise Problem("other-body", f"the same slow state is offered already, as {known!r}.")
    connection.execute(
        sa.insert(offer).values(
            name=name,
            digest=slow.digest,
            parent=parent,
            substrate=slow.substrate,
            until=until,
            result=json.dumps(result, sort_keys=True),
            body=slow.to_bytes(),
            created_at=now(connection),
        )
    )
    note(connection, "larc serve retrain", "offer", name, until=until)


def check_unused(connection: Connection, name: str) -> None:
    """Refuse the name of a state that is offered already: it means one thing."""
    if connection.execute(sa.select(offer.c.name).where(offer.c.name == name)).scalar():
        raise Problem("other-body", f"a slow state {name!r} is offered already; name it otherwise.")


def list_offers(connection: Connection) -> list[Row[Any]]:
    """Return what is offered, oldest first, without the states themselves."""
    columns = [column for column in offer.c if column.name != "body"]
    return list(connection.execute(sa.select(*columns).order_by(offer.c.created_at)).all())


def offer_named(connection: Connection, name: str) -> Row[Any] | None:
    """Return an offer by its name, without the state itself."""
    columns = [offer.c.name, offer.c.digest, offer.c.substrate]
    return connection.execute(sa.select(*columns).where(offer.c.name == name)).one_or_none()


def offered(database: Database, digest: str) -> tuple[str, SlowState] | None:
    """Return the slow state of a digest with its name, if it is offered."""
    with database.reading() as connection:
        query = sa.select(offer.c.name, offer.c.body).where(offer.c.digest == digest)
        row = connection.execute(query).one_or_none()
    return None if row is None else (row.name, SlowState.from_bytes(row.body, row.name))
