"""Who owns which shard: leases that run out, and an epoch that a stale owner does not have."""

from __future__ import annotations

import math
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from larc.service.store.database import now
from larc.service.store.schema import SHARDS, shard, worker


def claim(connection: Connection, me: str, seconds: float, *, all_of_them: bool) -> dict[int, int]:
    """Renew what is mine, take my fair part of what nobody has, give up what is beyond it.

    Returns the epoch of every shard that is mine now. A shard that is taken over gets a new
    epoch, and nothing its last owner still computes is committed.

    Parameters
    ----------
    connection
        A transaction that writes.
    me
        The worker's name.
    seconds
        How long a lease lasts.
    all_of_them
        Take every shard, whoever had it: for a database that one process has to itself.
    """
    time = now(connection)
    updated = connection.execute(
        sa.update(worker).where(worker.c.id == me).values(until=time + seconds)
    )
    if updated.rowcount == 0:
        connection.execute(sa.insert(worker).values(id=me, until=time + seconds))
    connection.execute(sa.delete(worker).where(worker.c.until < time - 100 * seconds))
    alive = connection.execute(
        sa.select(sa.func.count()).select_from(worker).where(worker.c.until >= time)
    ).scalar_one()
    fair = SHARDS if all_of_them else math.ceil(SHARDS / max(alive, 1))
    # Locked in one order, so that two workers never wait for each other.
    rows = connection.execute(sa.select(shard).order_by(shard.c.id).with_for_update()).all()
    mine = [row for row in rows if row.owner == me and row.lease_until >= time]
    keep = mine[:fair]
    release(connection, me, [row.id for row in mine[fair:]])
    if keep:
        connection.execute(
            sa.update(shard)
            .where(shard.c.id.in_([row.id for row in keep]))
            .values(lease_until=time + seconds)
        )
    owned = {row.id: row.epoch for row in keep}
    for row in rows:
        free = row.owner is None or row.lease_until < time or all_of_them
        if row.id in owned or not free or row in mine[fair:] or len(owned) >= fair:
            continue
        connection.execute(
            sa.update(shard)
            .where(shard.c.id == row.id)
            .values(owner=me, epoch=row.epoch + 1, lease_until=time + seconds)
        )
        owned[row.id] = row.epoch + 1
    return owned


def release(connection: Connection, me: str, shards: Collection[int]) -> None:
    """Give shards up, so that others can take them at once."""
    if shards:
        connection.execute(
            sa.update(shard)
            .where(shard.c.id.in_(sorted(shards)), shard.c.owner == me)
            .values(owner=None, lease_until=0.0)
        )


def leave(connection: Connection, me: str) -> None:
    """Give everything up: the worker stops."""
    connection.execute(
        sa.update(shard).where(shard.c.owner == me).values(owner=None, lease_until=0.0)
    )
    connection.execute(sa.delete(worker).where(worker.c.id == me))
