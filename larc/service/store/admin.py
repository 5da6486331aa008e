"""Streams, templates and tokens: made, changed and erased, with an audit of who did it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.io.hashes import hash_json
from larc.service.github.erasing import erase_repository
from larc.service.problems import Problem
from larc.service.store.database import now
from larc.service.store.log import locked_stream
from larc.service.store.schema import (
    SHARDS,
    answer,
    audit,
    evaluation,
    event,
    snapshot,
    state,
    stream,
    template,
    token,
)

#: How the note of a session's token begins; the token it was opened with follows.
SESSION_OF = "session of "


def note(connection: Connection, who: str, action: str, target: str, **detail: Any) -> None:
    """Write down who did what; never a prompt, never a secret."""
    connection.execute(
        sa.insert(audit).values(
            at=now(connection),
            token=who,
            action=action,
            target=target,
            detail=json.dumps(detail, sort_keys=True),
        )
    )


def audited(connection: Connection, after: int, limit: int) -> list[dict[str, Any]]:
    """Return who did what, in order."""
    rows = connection.execute(
        sa.select(audit).where(audit.c.id > after).order_by(audit.c.id).limit(limit)
    )
    return [{**row._mapping, "detail": json.loads(row.detail)} for row in rows]


# Streams -----------------------------------------------------------------------------------------


def make_stream(
    connection: Connection,
    name: str,
    chosen: str,
    spec: Mapping[str, Any],
    *,
    mode: str,
    expiry: Mapping[str, Any] | None,
    who: str,
) -> tuple[Row[Any], bool]:
    """Make a stream, or return the one there is; refuse another template under its name."""
    known = connection.execute(sa.select(stream).where(stream.c.name == name)).one_or_none()
    if known is not None:
        if known.template != chosen:
            raise Problem(
                "other-template",
                f"stream {name!r} was made from the template {known.template!r}; a template stays.",
            )
        return known, False
    label = None if expiry is None or expiry["then"] == "drop" else json.dumps(expiry["label"])
    connection.execute(
        sa.insert(stream).values(
            name=name,
            template=chosen,
            spec=json.dumps(spec, sort_keys=True),
            digest=hash_json(spec),
            mode=mode,
            expiry_s=None if expiry is None else expiry["after_s"],
            expiry_label=label,
            shard=zlib.crc32(name.encode()) % SHARDS,
            last_seq=0,
            applied_seq=0,
            version=0,
            asked=0,
            labelled=0,
            awaited=0,
            summary="{}",
            created_at=now(connection),
        )
    )
    note(connection, who, "make stream", name, template=chosen, mode=mode)
    return locked_stream(connection, name), True


def erase_stream(connection: Connection, name: str, who: str) -> int:
    """Erase a stream with its log, answers, states and evaluations; returns its number."""
    row = locked_stream(connection, name)
    for table in (event, answer, state, snapshot, evaluation):
        connection.execute(sa.delete(table).where(table.c.stream == row.id))
    erase_repository(connection, name)
    connection.execute(sa.delete(stream).where(stream.c.id == row.id))
    note(connection, who, "erase stream", name, events=row.last_seq)
    return int(row.id)


# Templates ---------------------------------------------------------------------------------------


def keep_template(connection: Connection, name: str, spec: Mapping[str, Any], who: str) -> bool:
    """Keep a template; whether it is new. It never changes under its name."""
    known = connection.execute(sa.select(template).where(template.c.name == name)).one_or_none()
    if known is not None:
        if known.digest != hash_json(spec):
            raise Problem("other-template", f"the template {name!r} is another one already.")
        return False
    connection.execute(
        sa.insert(template).values(
            name=name,
            spec=json.dumps(spec, sort_keys=True),
            digest=hash_json(spec),
            created_at=now(connection),
        )
    )
    note(connection, who, "make template", name)
    return True


def template_spec(connection: Connection, name: str) -> dict[str, Any] | None:
    """Return a template that was kept."""
    text = connection.execute(sa.select(template.c.spec).where(template.c.name == name)).scalar()
    return None if text is None else dict(json.loads(text))


# Tokens ------------------------------------------------------------------------------------------


def keep_token(connection: Connection, row: Mapping[str, Any], who: str) -> None:
    """Keep a token's hash and what it may do."""
    connection.execute(sa.insert(token).values(**row))
    detail = {"scopes": json.loads(row["scopes"]), "streams": json.loads(row["streams"])}
    note(connection, who, "make token", row["id"], **detail)


def find_token(connection: Connection, name: str) -> Row[Any] | None:
    """Return a token's row, by the public part of it."""
    return connection.execute(sa.select(token).where(token.c.id == name)).one_or_none()


def list_tokens(connection: Connection) -> list[Row[Any]]:
    """Return all tokens."""
    return list(connection.execute(sa.select(token).order_by(token.c.created_at)).all())


def revoke_token(connection: Connection, name: str, who: str) -> None:
    """Let a token be refused from now on, and with it every session opened with it."""
    changed = connection.execute(
        sa.update(token)
        .where(
            sa.or_(token.c.id == name, token.c.note == SESSION_OF + name),
            token.c.revoked_at.is_(None),
        )
        .values(revoked_at=now(connection))
    )
    if changed.rowcount == 0 and find_token(connection, name) is None:
        raise Problem("not-found", f"there is no token {name!r}.")
    note(connection, who, "revoke token", name)
