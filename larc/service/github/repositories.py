"""Repositories: one stream each, by GitHub's number, whatever they are called by now."""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.errors import LarcError
from larc.service.github.tables import job, repository
from larc.service.store import admin
from larc.service.store.schema import SHARDS, stream
from larc.service.templates import BUILT_IN, Models

#: Who did it, in the audit and in the log.
WHO = "github"
_FULL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,98})/[A-Za-z0-9._-]{1,100}")
_LONGEST = 100


def stream_name(full_name: str) -> str:
    """Return the name of a repository's stream.

    An owner's name has no dot, so that no two repositories have one stream.

    Examples
    --------
    >>> stream_name("pallets/flask")
    'github.pallets.flask'
    """
    name = f"github.{full_name.replace('/', '.')}"
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return name


def checked_name(full_name: object) -> str:
    """Return a repository's name, refusing what GitHub would not call one.

    Examples
    --------
    >>> checked_name("pallets/flask")
    'pallets/flask'
    """
    if not isinstance(full_name, str) or not _FULL_NAME.fullmatch(full_name):
        raise LarcError("this is no name of a repository; give OWNER/NAME.")
    return full_name


def ensure(
    connection: Connection, models: Models, number: int, full_name: str, template: str, at: float
) -> Row[Any]:
    """Return a repository's row; it and its stream are made if they are not there."""
    full_name = checked_name(full_name)
    row = by_number(connection, number) or _adopted(connection, number, full_name)
    if row is None:
        name = stream_name(full_name)
        taken = connection.execute(
            sa.select(repository.c.id).where(repository.c.stream == name)
        ).one_or_none()
        if taken is not None:  # another repository had this name before
            name = f"{name[: _LONGEST - 21]}-{number}"
        connection.execute(
            sa.insert(repository).values(
                id=number,
                name=full_name,
                full_name=full_name,
                stream=name,
                shard=number % SHARDS,
                last_event_at=at,
                reconciled_at=at,
            )
        )
    else:
        name = row.stream
        renamed = {"full_name": full_name} if full_name != row.full_name else {}
        connection.execute(
            sa.update(repository)
            .where(repository.c.id == number)
            .values(last_event_at=at, **renamed)
        )
    known = connection.execute(sa.select(stream.c.id).where(stream.c.name == name)).one_or_none()
    if known is None:
        spec = chosen_template(connection, models, template)
        admin.make_stream(connection, name, template, spec, mode="learn", expiry=None, who=WHO)
    found = by_number(connection, number)
    assert found is not None
    return found


def provisional(full_name: str) -> int:
    """Return a number for a repository whose own is not known yet: below zero, as none is."""
    return -1 - zlib.crc32(full_name.lower().encode())


def _adopted(connection: Connection, number: int, full_name: str) -> Row[Any] | None:
    """Give a repository whose history came before its number the number, and return it."""
    row = by_number(connection, provisional(full_name))
    if row is None or number < 0:
        return None
    own = {"id": number, "shard": number % SHARDS}
    connection.execute(sa.update(repository).where(repository.c.id == row.id).values(own))
    moved = sa.update(job).where(job.c.repository == row.id)
    connection.execute(moved.values(repository=number))
    return by_number(connection, number)


def chosen_template(connection: Connection, models: Models, name: str) -> dict[str, Any]:
    """Return the template that streams of repositories are made from; it must be of jobs."""
    if name in BUILT_IN:
        spec: dict[str, Any] | None = models.spec(BUILT_IN[name])
    else:
        spec = admin.template_spec(connection, name)
    if spec is None or spec.get("domain") != "ci":
        raise LarcError(f"there is no template {name!r} of the domain ci; set github.template.")
    return spec


def by_number(connection: Connection, number: int) -> Row[Any] | None:
    """Return a repository by GitHub's number of it."""
    query = sa.select(repository).where(repository.c.id == number)
    return connection.execute(query).one_or_none()


def by_name(connection: Connection, full_name: str) -> Row[Any] | None:
    """Return a repository by its name now; of several that had it, the one heard of last."""
    query = (
        sa.select(repository)
        .where(sa.func.lower(repository.c.full_name) == full_name.lower())
        .order_by(repository.c.last_event_at.desc())
    )
    return connection.execute(query).first()
