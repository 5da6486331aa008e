"""The pages: who may see them, and what their forms do. The API's own functions do the work."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from sqlalchemy.engine import Connection

from larc.service.auth import Principal
from larc.service.dashboard.overview import Memory, interval_scale, overview
from larc.service.dashboard.questions import PAGE, list_questions, one_question
from larc.service.dashboard.rendering import STATIC, PageRoute, form, local, page, see
from larc.service.dashboard.sessions import (
    COOKIE,
    Visitor,
    check_form,
    check_origin,
    close_session,
    cookie_of,
    open_session,
)
from larc.service.dashboard.streams import blocks, series, stream_view
from larc.service.http import streams as api
from larc.service.http.context import Context, Here, admitted, context
from larc.service.http.following import following
from larc.service.http.questions import StreamName
from larc.service.identifiers import new_id
from larc.service.problems import Problem
from larc.service.protocol import ModeBody, RollbackBody, SnapshotBody
from larc.service.store.reading import event_answer, list_events, matching, stream_row
from larc.service.store.schema import stream as stream_table

router = APIRouter(route_class=PageRoute, include_in_schema=False)
#: How often the log is looked at while a page is open, in seconds.
_LOOK = 0.25
_FILES = frozenset(path.name for path in STATIC.iterdir())
Version = Annotated[int, Query(ge=0, le=2**62)]


def memory_of(here: Context) -> Memory:
    """Return what the pages of a server remember."""
    kept: Memory = here.__dict__.setdefault("dashboard", Memory())
    return kept


# Coming and going --------------------------------------------------------------------------------


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Send a script, a style or a licence."""
    if name not in _FILES:
        raise Problem("not-found", "there is no such page.")
    return FileResponse(STATIC / name, headers={"Cache-Control": "public, max-age=3600"})


@router.get("/login")
async def get_login(request: Request, next: str = "/") -> Response:
    """Ask for a token."""
    return page(request, "login.html", None, told="", next=local(next))


@router.post("/login")
async def post_login(request: Request, here: Here) -> Response:
    """Open a session."""
    check_origin(request)
    fields = await form(request)
    try:
        cookie, lasts = await open_session(here, fields.get("token", "").strip())
    except Problem as problem:
        if problem.status != 401:
            raise
        told, after = "There is no such token.", local(fields.get("next", "/"))
        return page(request, "login.html", None, 401, told=told, next=after)
    response = see(local(fields.get("next", "/")))
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(lasts),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout")
async def post_logout(request: Request, here: Here, who: Visitor) -> Response:
    """End a session."""
    check_form(request, (await form(request)).get("form_key", ""))
    await close_session(here, who)
    response = see("/login")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


# What is shown -----------------------------------------------------------------------------------


@router.get("/")
async def get_overview(
    request: Request,
    here: Here,
    who: Visitor,
    after: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show the server and its streams."""
    who.check("read")
    memory = memory_of(here)
    view = await here.read(lambda c: overview(c, here.engine, memory, who, after))
    scale = interval_scale(view.streams)
    return page(request, "overview.html", who, view=view, scale=scale, first=not after)


@router.get("/streams/{stream}")
async def get_stream(
    request: Request, stream: StreamName, here: Here, who: Visitor, before: Version = 0
) -> Response:
    """Show a stream."""
    who.check("read", stream)

    def find(connection: Connection) -> Any:
        row = stream_row(connection, stream)
        return stream_view(connection, row), list_questions(connection, row.id, before)

    view, questions = await here.read(find)
    return page(
        request,
        "stream.html",
        who,
        view=view,
        series=series(view),
        blocks=blocks(view),
        questions=questions,
        older=questions[-1].seq if len(questions) == PAGE else None,
        first=not before,
        key=new_id(),
        may_change="admin" in who.scopes,
    )


@router.get("/streams/{stream}/question")
async def get_question(
    request: Request, stream: StreamName, here: Here, who: Visitor, id: str
) -> Response:
    """Show a question: what each predictor answered, and why the mixture did."""
    who.check("read", stream)
    view = await here.read(lambda c: one_question(c, stream_row(c, stream).id, id))
    return page(request, "question.html", who, stream=stream, view=view)


# What is changed ---------------------------------------------------------------------------------


async def _fields(request: Request) -> dict[str, str]:
    fields = await form(request)
    check_form(request, fields.get("form_key", ""))
    return fields


@router.post("/streams/{stream}/mode")
async def post_mode(request: Request, stream: StreamName, here: Here, who: Visitor) -> Response:
    """Change a stream's mode."""
    fields = await _fields(request)
    who.check("admin", stream)
    try:
        body = ModeBody(mode=fields.get("mode", ""))  # type: ignore[arg-type]
    except ValueError as error:
        raise Problem("invalid", "a mode is observe, learn or frozen.") from error
    await api.patch_stream(stream, body, here, who, fields.get("key"))
    return see(f"/streams/{stream}#control")


@router.post("/streams/{stream}/snapshots")
async def post_snapshot(request: Request, stream: StreamName, here: Here, who: Visitor) -> Response:
    """Keep a stream's state."""
    fields = await _fields(request)
    who.check("admin", stream)
    body = SnapshotBody(label=fields.get("label", "")[:200])
    await api.post_snapshot(stream, here, who, body, fields.get("key"))
    return see(f"/streams/{stream}#control")


@router.get("/streams/{stream}/rollback")
async def get_rollback(
    request: Request, stream: StreamName, here: Here, who: Visitor, version: Version
) -> Response:
    """Ask whether a stream is really to go back."""
    who.check("admin", stream)

    def find(connection: Connection) -> Any:
        row = stream_row(connection, stream)
        return stream_view(connection, row)

    view = await here.read(find)
    kept = next((one for one in view.snapshots if one["version"] == version), None)
    if version and kept is None:
        raise Problem("not-found", "there is no such version.")
    return page(
        request,
        "rollback.html",
        who,
        stream=stream,
        version=version,
        kept=kept,
        view=view,
        key=new_id(),
    )


@router.post("/streams/{stream}/rollback")
async def post_rollback(request: Request, stream: StreamName, here: Here, who: Visitor) -> Response:
    """Go back to a version, once that was confirmed."""
    fields = await _fields(request)
    who.check("admin", stream)
    if fields.get("confirmed") != "yes":
        raise Problem("invalid", "a rollback has to be confirmed; tick the box.")
    try:
        body = RollbackBody(version=int(fields["version"]), replay="replay" in fields)
    except (KeyError, ValueError) as error:
        raise Problem("invalid", "give the version to go back to.") from error
    await api.post_rollback(stream, body, here, who, "applied", fields.get("key"))
    return see(f"/streams/{stream}#control")


@router.post("/streams/{stream}/evaluations")
async def post_evaluation(
    request: Request, stream: StreamName, here: Here, who: Visitor
) -> Response:
    """Replay a stream's log with states kept, reset and sham."""
    await _fields(request)
    who.check("read", stream)
    await api.post_evaluation(stream, here, who)
    return see(f"/streams/{stream}#replays")


# What is taken along -----------------------------------------------------------------------------


@router.get("/streams/{stream}/log.jsonl")
async def get_log(stream: StreamName, here: Here, who: Visitor) -> Response:
    """Download a stream's log: one event a line, with its answer."""
    who.check("read", stream)
    number = (await here.read(lambda c: stream_row(c, stream))).id

    async def lines() -> AsyncIterator[str]:
        after = 0
        while rows := await here.read(_after(number, after)):
            yield "".join(json.dumps(event_answer(row)) + "\n" for row in rows)
            after = rows[-1].seq

    name = {"Content-Disposition": f'attachment; filename="{stream}.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=name)


def _after(number: int, seq: int) -> Callable[[Connection], list[Any]]:
    return lambda connection: list_events(connection, number, seq, 500)


@router.get("/streams/{stream}/snapshots/{version}/file")
async def get_file(
    stream: StreamName, version: Annotated[int, Path(ge=0, le=2**62)], here: Here, who: Visitor
) -> Response:
    """Download a version."""
    response = await api.get_snapshot_file(stream, version, here, who)
    response.headers["Content-Disposition"] = (
        f'attachment; filename="{stream}-{version}.safetensors"'
    )
    return response


# As it happens -----------------------------------------------------------------------------------


@router.get("/changes")
async def get_changes(request: Request, here: Here, who: Visitor) -> Response:
    """Tell an open first page that something took effect."""
    who.check("read")
    mark = sa.select(sa.func.coalesce(sa.func.sum(stream_table.c.applied_seq), 0)).where(
        matching(who.streams, here.engine.database.reader.dialect.name)
    )
    return await _listen(request, who, lambda c: c.execute(mark).scalar())


@router.get("/streams/{stream}/changes")
async def get_stream_changes(
    request: Request, stream: StreamName, here: Here, who: Visitor
) -> Response:
    """Tell an open page that something took effect in its stream."""
    who.check("read", stream)
    row = await here.read(lambda c: stream_row(c, stream))
    mark = sa.select(stream_table.c.applied_seq).where(stream_table.c.id == row.id)
    return await _listen(request, who, lambda c: c.execute(mark).scalar())


async def _listen(request: Request, who: Principal, mark: Callable[[Connection], Any]) -> Response:
    here = context(request)
    if here.listening.get(who.id, 0) >= here.settings.listeners:
        raise Problem("too-many", "too many pages are open already.", retry_after=5.0)
    return StreamingResponse(_changes(request, who, mark), media_type="text/event-stream")


def _changes(
    request: Request, who: Principal, mark: Callable[[Connection], Any]
) -> AsyncIterator[str]:
    here, last = context(request), None

    async def look() -> list[str] | None:
        nonlocal last
        if not await _lasts(request):
            return None
        current = await here.read(mark)
        if current == last:
            return []
        # The first tells a page that was loaded a moment ago what it may have missed.
        last = current
        return [f"event: change\ndata: {int(current or 0)}\n\n"]

    return following(here, who.id, look, _LOOK)


async def _lasts(request: Request) -> bool:
    """Whether the session that a page was opened in goes on."""
    try:
        await admitted(request, cookie_of(request))
    except Problem:
        return False
    return True
