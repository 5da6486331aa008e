"""Health, metrics, tokens, the audit, and logs as they grow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse
from sqlalchemy.engine import Connection, Row

from larc.service.auth import new_token
from larc.service.http.context import Context, Here, Who, described, refusals
from larc.service.http.following import following
from larc.service.http.questions import StreamName
from larc.service.problems import Problem
from larc.service.protocol import TokenAnswer, TokenBody, TokensAnswer
from larc.service.store import admin
from larc.service.store.reading import event_answer, list_events, stream_row
from larc.service.store.schema import stream as stream_table

router = APIRouter(tags=["operations"])
#: How often a log is looked at while somebody listens, in seconds.
_LOOK = 0.2


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process lives."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    responses={**described(503, "Not now."), **refusals()},
)
async def readyz(here: Here, who: Who) -> Response:
    """Say whether requests can be served: the database answers, and the engine works."""
    problems = []
    try:
        await here.read(lambda connection: connection.execute(sa.text("select 1")))
    except sa.exc.SQLAlchemyError:
        problems.append("the database does not answer")
    if not here.engine.healthy:
        problems.append("the engine does not work")
    status = {"ready": not problems, "problems": problems, "worker": here.engine.worker}
    shards = len(here.engine.leases.current())
    return JSONResponse({**status, "shards": shards}, 503 if problems else 200)


@router.get(
    "/metrics",
    responses={
        200: {"description": "Prometheus's text format.", "content": {"text/plain": {}}},
        **refusals(),
    },
    response_class=Response,
)
async def metrics(here: Here, who: Who) -> Response:
    """Show what was counted."""
    here.engine.metrics.waiting.set(here.engine.waiting)
    return Response(here.engine.metrics.text(), media_type="text/plain; version=0.0.4")


# Tokens ------------------------------------------------------------------------------------------


def _shown(row: Any, text: str | None = None) -> dict[str, Any]:
    return {
        "id": row["id"],
        "scopes": json.loads(row["scopes"]),
        "streams": json.loads(row["streams"]),
        "note": row["note"],
        "created_at": row["created_at"],
        "expires_at": row["expires_at"],
        "revoked": row["revoked_at"] is not None,
        "token": text,
    }


@router.post(
    "/v1/tokens",
    status_code=201,
    response_model=TokenAnswer,
    responses=refusals("forbidden"),
)
async def post_token(body: TokenBody, here: Here, who: Who) -> Response:
    """Make a token; it is shown this once."""
    who.check_operator()
    row, text = new_token(body.scopes, body.streams, note=body.note, expires_in_s=body.expires_in_s)
    await here.write(lambda c: admin.keep_token(c, row, who.id))
    return JSONResponse(_shown(row, text), 201)


@router.get("/v1/tokens", response_model=TokensAnswer, responses=refusals("forbidden"))
async def get_tokens(here: Here, who: Who) -> Any:
    """List tokens, without their secrets."""
    who.check_operator()
    rows = await here.read(admin.list_tokens)
    return {"tokens": [_shown(row._mapping) for row in rows]}


@router.delete("/v1/tokens/{token}", status_code=204, responses=refusals("forbidden", "not-found"))
async def delete_token(
    token: Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")], here: Here, who: Who
) -> Response:
    """Revoke a token: from now on it is refused, in other processes within a second."""
    who.check_operator()
    await here.write(lambda c: admin.revoke_token(c, token, who.id))
    here.door.forget(token)
    return Response(status_code=204)


@router.get("/v1/audit", responses=refusals("forbidden"))
async def get_audit(
    here: Here,
    who: Who,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> dict[str, Any]:
    """Show who did what, in order."""
    who.check_operator()
    return {"entries": await here.read(lambda c: admin.audited(c, after, limit))}


# Logs as they grow -------------------------------------------------------------------------------


@router.get(
    "/v1/streams/{stream}/events/stream",
    responses={
        200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}},
        **refusals("forbidden", "not-found"),
    },
    response_class=Response,
)
async def listen(
    stream: StreamName,
    here: Here,
    who: Who,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,18}$")] = None,
) -> Response:
    """Send the log as it takes effect; each event's id is its seq, to go on from after a break."""
    who.check("read", stream)
    number = (await here.read(lambda c: stream_row(c, stream))).id
    if here.listening.get(who.id, 0) >= here.settings.listeners:
        raise Problem("too-many", "the token listens too often already.", retry_after=5.0)
    first = int(last_event_id) if last_event_id else after
    return StreamingResponse(_events(here, who.id, number, first), media_type="text/event-stream")


def _events(here: Context, token: str, number: int, after: int) -> AsyncIterator[str]:
    whose = stream_table.c.id == number

    def applied(connection: Connection) -> list[Row[Any]]:
        # By the stream's mark and not by the event's status: an early label has one at once, and
        # what came before it may not have taken effect yet.
        mark = connection.execute(sa.select(stream_table.c.applied_seq).where(whose)).scalar() or 0
        return [row for row in list_events(connection, number, after, 100) if row.seq <= mark]

    async def look() -> list[str]:
        nonlocal after
        rows = await here.read(applied)
        after = rows[-1].seq if rows else after
        return [
            f"id: {row.seq}\nevent: {row.kind}\ndata: "
            f"{json.dumps(event_answer(row), separators=(',', ':'))}\n\n"
            for row in rows
        ]

    return following(here, token, look, _LOOK)
