"""Slow states: those the service was started with, those offered since, and a stream's move."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection

from larc.service.http.context import Here, Who, described, refusals
from larc.service.http.questions import Key, StreamName, Wait, report
from larc.service.identifiers import new_id
from larc.service.problems import Problem
from larc.service.protocol import NAME, Acknowledged
from larc.service.store import admin
from larc.service.store.log import Command
from larc.service.store.offers import list_offers
from larc.service.store.reading import stream_row

router = APIRouter(prefix="/v1", tags=["states"])


class StateAnswer(BaseModel):
    """A slow state that streams may have.

    One that is offered was trained on labels received until a time; its result compares it with
    its parent on labels received later.
    """

    name: str
    model: str
    digest: str
    parent: str | None
    until: float | None
    result: dict[str, Any]
    created_at: float | None


class StatesAnswer(BaseModel):
    """All of them: those of the start first, then the offered ones, oldest first."""

    states: list[StateAnswer]


class MoveBody(BaseModel):
    """Give a stream another slow state of its model."""

    model_config = ConfigDict(extra="forbid")
    slow_state: Annotated[str, Field(pattern=NAME)]


@router.get("/states", response_model=StatesAnswer, responses=refusals("forbidden"))
async def get_states(here: Here, who: Who) -> Any:
    """List the slow states that streams may have."""
    who.check("read")
    return {"states": await here.read(lambda c: _states(here, c))}


def _states(here: Here, connection: Connection) -> list[dict[str, Any]]:
    models = here.engine.models
    empty: dict[str, Any] = {"parent": None, "until": None, "result": {}, "created_at": None}
    listed = [
        {"name": one.state, "model": one.model, "digest": one.slow.digest, **empty}
        for one in models.starts
    ]
    names = {one.slow.substrate: one.model for one in models.starts}
    for row in list_offers(connection):
        about = {key: value for key, value in row._mapping.items() if key != "substrate"}
        model = names.get(row.substrate)
        if model is not None:
            listed.append({**about, "model": model, "result": json.loads(row.result)})
    return listed


@router.post(
    "/streams/{stream}/move",
    status_code=202,
    response_model=Acknowledged,
    responses={
        **described(200, "It has taken effect, or was asked for before.", Acknowledged),
        **refusals("forbidden", "not-found", "other-body", "refused", "late"),
    },
)
async def post_move(
    stream: StreamName,
    body: MoveBody,
    here: Here,
    who: Who,
    wait: Wait = None,
    key: Key = None,
) -> Response:
    """Let a stream go on from another slow state, which learns its log anew.

    The state until now is kept as a snapshot: a rollback to it brings its slow state back.
    """
    who.check("admin", stream)

    def find(connection: Connection) -> dict[str, Any]:
        spec = json.loads(stream_row(connection, stream).spec)
        known = here.engine.models.known(spec["slow"], spec["substrate"])
        for one in _states(here, connection):
            if one["name"] == body.slow_state and known and one["model"] == known.model:
                return one
        raise Problem("not-found", f"there is no slow state {body.slow_state!r} of its model.")

    chosen = await here.read(find)
    wish = {"slow_state": body.slow_state, "digest": chosen["digest"]}
    status, reply = await report(
        here, who, Command(stream, "move", key or new_id(), wish, who.id), wait=wait is not None
    )
    await here.write(lambda c: admin.note(c, who.id, "move", stream, slow_state=body.slow_state))
    return JSONResponse(reply, status)
