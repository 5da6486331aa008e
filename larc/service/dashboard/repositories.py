"""The pages of repositories: what runs now, what surprised, and what cancelling would have done."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from sqlalchemy.engine import Connection

from larc.service.dashboard.history import points, roles
from larc.service.dashboard.rendering import PageRoute, page
from larc.service.dashboard.sessions import Visitor
from larc.service.dashboard.streams import Gain, gain
from larc.service.github import routes as api
from larc.service.http.context import Here
from larc.service.problems import Problem
from larc.service.store.reading import stream_row

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Part = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


@router.get("/repositories")
async def get_repositories(request: Request, here: Here, who: Visitor) -> Response:
    """List the repositories that are followed."""
    who.check("read")
    view = await api.get_repositories(here, who)
    return page(request, "repositories.html", who, repositories=view.repositories)


@router.get("/repositories/{owner}/{name}")
async def get_repository(
    request: Request, owner: Part, name: Part, here: Here, who: Visitor
) -> Response:
    """Show a repository."""
    who.check("read")
    view = await api.get_repository(owner, name, request, here, who)
    pays = await here.read(lambda c: _gain(c, view.stream))
    return page(request, "repository.html", who, view=view, gain=pays or Gain(0, None), begun=pays)


def _gain(connection: Connection, stream: str) -> Gain | None:
    """Return whether learning pays, or None where no job has been asked about yet."""
    try:
        row = stream_row(connection, stream)
    except Problem:
        return None
    return gain(points(connection, row.id), roles(json.loads(row.spec)))
