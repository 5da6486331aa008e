"""Streams: made from templates, looked at, changed and erased; their logs and snapshots."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse
from sqlalchemy.engine import Connection

from larc.service.http.context import Context, Here, Who, described, refusals
from larc.service.http.questions import Key, StreamName, Wait, report
from larc.service.identifiers import new_id
from larc.service.problems import Problem
from larc.service.protocol import (
    NAME,
    Acknowledged,
    EvaluationAnswer,
    EvaluationBody,
    EventsAnswer,
    ModeBody,
    RollbackBody,
    SnapshotAnswer,
    SnapshotBody,
    SnapshotsAnswer,
    StreamAnswer,
    StreamBody,
    StreamsAnswer,
    TemplateAnswer,
    TemplateSpec,
)
from larc.service.store import admin
from larc.service.store.log import Command
from larc.service.store.reading import (
    evaluation_row,
    event_answer,
    list_events,
    list_streams,
    snapshots,
    stream_answer,
    stream_row,
)
from larc.service.store.results import load_snapshot
from larc.service.templates import BUILT_IN

router = APIRouter(prefix="/v1", tags=["streams"])
TemplateName = Annotated[str, Path(pattern=NAME, description="The template.")]
Seq = Annotated[int, Query(ge=0, le=2**62)]
Limit = Annotated[int, Query(ge=1, le=1000)]


def _template(here: Context, connection: Connection, name: str) -> dict[str, Any]:
    """Return a template as it is kept with its streams."""
    if name in BUILT_IN:
        return here.engine.models.spec(BUILT_IN[name])
    spec = admin.template_spec(connection, name)
    if spec is None:
        raise Problem("not-found", f"there is no template {name!r}.")
    return spec


def _usable(here: Context, connection: Connection, name: str) -> dict[str, Any]:
    """Return a template that a stream can be made from now."""
    try:
        spec = _template(here, connection, name)
        here.engine.models.checked(json.dumps(spec))
    except Problem as problem:
        raise Problem("invalid", f"the template {name!r}: {problem.detail}") from problem
    return spec


@router.put(
    "/streams/{stream}",
    status_code=201,
    response_model=StreamAnswer,
    responses={
        **described(200, "The stream is there already.", StreamAnswer),
        **refusals("forbidden", "not-found", "other-template"),
    },
)
async def put_stream(
    stream: StreamName, here: Here, who: Who, body: StreamBody | None = None
) -> Response:
    """Make a stream from a template, once."""
    who.check("ask", stream)
    wish = body or StreamBody()

    def make(connection: Connection) -> tuple[Any, bool]:
        try:
            spec = json.loads(stream_row(connection, stream).spec)
        except Problem:
            spec = _usable(here, connection, wish.template)
        expiry = None if wish.expiry is None else wish.expiry.model_dump()
        return admin.make_stream(
            connection,
            stream,
            wish.template,
            spec,
            mode=wish.mode,
            expiry=expiry,
            who=who.id,
        )

    row, new = await here.write(make, order=stream)
    return JSONResponse(stream_answer(row), 201 if new else 200)


@router.get("/streams", response_model=StreamsAnswer, responses=refusals("forbidden"))
async def get_streams(
    here: Here,
    who: Who,
    after: Annotated[str, Query(max_length=200)] = "",
    limit: Limit = 100,
) -> Any:
    """List the streams that are the token's, by name."""
    who.check("read")
    rows = await here.read(lambda c: list_streams(c, who.streams, after, limit))
    return {
        "streams": [stream_answer(row) for row in rows],
        "after": rows[-1].name if len(rows) == limit else None,
    }


@router.get(
    "/streams/{stream}", response_model=StreamAnswer, responses=refusals("forbidden", "not-found")
)
async def get_stream(stream: StreamName, here: Here, who: Who) -> Any:
    """Show a stream: counts, losses by predictor, weights, the bound on regret."""
    who.check("read", stream)
    return stream_answer(await here.read(lambda c: stream_row(c, stream)))


@router.patch(
    "/streams/{stream}",
    response_model=Acknowledged,
    responses=refusals("forbidden", "not-found", "other-body", "late"),
)
async def patch_stream(
    stream: StreamName, body: ModeBody, here: Here, who: Who, key: Key = None
) -> Any:
    """Change the mode: `observe`, `learn` or `frozen`; it takes effect in the order of the log."""
    who.check("admin", stream)
    command = Command(stream, "mode", key or new_id(), body.model_dump(), who.id)
    _, reply = await report(here, who, command, wait=True)
    await here.write(lambda c: admin.note(c, who.id, "mode", stream, mode=body.mode))
    return reply


@router.delete("/streams/{stream}", status_code=204, responses=refusals("forbidden", "not-found"))
async def delete_stream(stream: StreamName, here: Here, who: Who) -> Response:
    """Erase a stream: its log, answers, states and snapshots."""
    who.check("admin", stream)
    await here.write(lambda c: admin.erase_stream(c, stream, who.id), order=stream)
    await to_thread.run_sync(here.engine.database.forget)
    return Response(status_code=204)


@router.get(
    "/streams/{stream}/events",
    response_model=EventsAnswer,
    responses=refusals("forbidden", "not-found"),
)
async def get_events(
    stream: StreamName, here: Here, who: Who, after: Seq = 0, limit: Limit = 1000
) -> Response:
    """Show the log after an event, in order."""
    who.check("read", stream)

    def find(connection: Connection) -> dict[str, Any]:
        row = stream_row(connection, stream)
        events = list_events(connection, row.id, after, limit)
        return {"events": [event_answer(one) for one in events], "last_seq": row.last_seq}

    return JSONResponse(await here.read(find))


# Snapshots ---------------------------------------------------------------------------------------


@router.post(
    "/streams/{stream}/snapshots",
    status_code=201,
    response_model=SnapshotAnswer,
    responses=refusals("forbidden", "not-found", "other-body", "late"),
)
async def post_snapshot(
    stream: StreamName, here: Here, who: Who, body: SnapshotBody | None = None, key: Key = None
) -> Response:
    """Keep the state as it is after every event before this one. A version is kept once."""
    who.check("admin", stream)
    wish = (body or SnapshotBody()).model_dump()
    taken = await here.take(Command(stream, "snapshot", key or new_id(), wish, who.id))
    await here.outcome(taken)

    def find(connection: Connection) -> Any:
        kept = snapshots(connection, taken.stream)
        # The last that was kept by then: an unchanged state is not kept twice.
        return next(one for one in reversed(kept) if one["version"] <= taken.seq)

    return JSONResponse(await here.read(find), 201)


@router.get(
    "/streams/{stream}/snapshots",
    response_model=SnapshotsAnswer,
    responses=refusals("forbidden", "not-found"),
)
async def get_snapshots(stream: StreamName, here: Here, who: Who) -> Any:
    """List the versions that were kept."""
    who.check("read", stream)
    return {"snapshots": await here.read(lambda c: snapshots(c, stream_row(c, stream).id))}


@router.get(
    "/streams/{stream}/snapshots/{version}/file",
    responses={
        200: {"description": "A safetensors file.", "content": {"application/octet-stream": {}}},
        **refusals("forbidden", "not-found"),
    },
    response_class=Response,
)
async def get_snapshot_file(
    stream: StreamName, version: Annotated[int, Path(ge=0, le=2**62)], here: Here, who: Who
) -> Response:
    """Download a version as the file that `larc.Controller.restore` reads."""
    who.check("admin", stream)
    kept = await here.read(lambda c: load_snapshot(c, stream_row(c, stream).id, version))
    if kept is None:
        raise Problem("not-found", f"there is no snapshot of version {version}.")
    return Response(kept.body, media_type="application/octet-stream")


@router.post(
    "/streams/{stream}/rollback",
    status_code=202,
    response_model=Acknowledged,
    responses={
        **described(200, "It has taken effect, or was asked for before.", Acknowledged),
        **refusals("forbidden", "not-found", "other-body", "refused", "late"),
    },
)
async def post_rollback(
    stream: StreamName,
    body: RollbackBody,
    here: Here,
    who: Who,
    wait: Wait = None,
    key: Key = None,
) -> Response:
    """Go back to a version that was kept (0: the beginning); the log stays.

    With `replay`, labels that arrived since are learned again.
    """
    who.check("admin", stream)
    command = Command(stream, "rollback", key or new_id(), body.model_dump(), who.id)
    status, reply = await report(here, who, command, wait=wait is not None)
    await here.write(lambda c: admin.note(c, who.id, "rollback", stream, version=body.version))
    return JSONResponse(reply, status)


# Evaluations -------------------------------------------------------------------------------------


@router.post(
    "/streams/{stream}/evaluations",
    status_code=202,
    response_model=EvaluationAnswer,
    responses=refusals("forbidden", "not-found"),
)
async def post_evaluation(
    stream: StreamName, here: Here, who: Who, body: EvaluationBody | None = None
) -> Response:
    """Replay the log from the beginning with states kept, reset and sham; ask for it by its id."""
    who.check("read", stream)
    wish = body or EvaluationBody()
    name = await asyncio.wrap_future(here.engine.evaluate(stream, wish))
    return JSONResponse({"id": name, "status": "running", "result": {}}, 202)


@router.get(
    "/streams/{stream}/evaluations/{evaluation}",
    response_model=EvaluationAnswer,
    responses=refusals("forbidden", "not-found"),
)
async def get_evaluation(
    stream: StreamName,
    evaluation: Annotated[str, Path(pattern=r"^[0-9a-f-]{36}$")],
    here: Here,
    who: Who,
) -> Any:
    """Show what came of an evaluation."""
    who.check("read", stream)
    return await here.read(lambda c: evaluation_row(c, stream_row(c, stream).id, evaluation))


# Templates ---------------------------------------------------------------------------------------


@router.put(
    "/templates/{template}",
    status_code=201,
    response_model=TemplateAnswer,
    responses={
        **described(200, "The template is there already.", TemplateAnswer),
        **refusals("forbidden", "other-template"),
    },
)
async def put_template(
    template: TemplateName, body: TemplateSpec, here: Here, who: Who
) -> Response:
    """Keep a template; it never changes under its name."""
    who.check_operator()
    if template in BUILT_IN:
        raise Problem("other-template", f"the template {template!r} is built in.")
    spec = here.engine.models.spec(body)  # refuses what no stream could be made from
    new = await here.write(lambda c: admin.keep_template(c, template, spec, who.id))
    return JSONResponse(_template_answer(template, spec), 201 if new else 200)


@router.get(
    "/templates/{template}",
    response_model=TemplateAnswer,
    responses=refusals("forbidden", "not-found"),
)
async def get_template(template: TemplateName, here: Here, who: Who) -> Any:
    """Show a template."""
    who.check("read")
    return _template_answer(template, await here.read(lambda c: _template(here, c, template)))


def _template_answer(name: str, kept: dict[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in kept.items() if key in TemplateSpec.model_fields}
    spec = TemplateSpec(**known).model_dump()
    return {"name": name, "spec": spec, "slow": kept["slow"], "substrate": kept["substrate"]}
