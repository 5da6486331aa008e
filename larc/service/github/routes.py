"""GitHub's routes: deliveries in, repositories out."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from larc.github.webhooks import signed
from larc.service.github.history import HistoryBody, take_history
from larc.service.github.inbox import EVENTS, parsed, put
from larc.service.github.repositories import stream_name
from larc.service.github.settings import GitHubSettings
from larc.service.github.showing import repositories_view, repository_view
from larc.service.github.views import RepositoriesView, RepositoryView
from larc.service.github.worker import GitHubWorker
from larc.service.http.context import Here, Who, described, refusals
from larc.service.problems import Problem
from larc.service.protocol import Acknowledged

router = APIRouter(prefix="/v1/github", tags=["github"])
#: Where deliveries come in: they may be larger than other bodies.
WEBHOOK = "/v1/github/webhook/"
Owner = Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{1,100}$", description="The owner.")]
Repository = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$", description="The name.")]
Hook = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="The hook.")]


class Delivered(BaseModel):
    """What became of a delivery: it waits for its turn, nothing is done about it, or it is old."""

    status: Literal["waiting", "ignored", "duplicate"]


class GitHubPart:
    """GitHub's part of a server: its settings, and the thread that works through the inbox."""

    def __init__(self, settings: GitHubSettings, worker: GitHubWorker) -> None:
        self.settings, self.worker = settings, worker


def part(request: Request) -> GitHubPart | None:
    """Return GitHub's part of the server, if it has one."""
    return getattr(request.app.state, "github", None)


@router.post(
    "/webhook/{hook}",
    status_code=202,
    response_model=Delivered,
    responses={
        **described(200, "The delivery came before.", Delivered),
        **refusals("unsigned", "not-found"),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
)
async def webhook(
    hook: Hook,
    request: Request,
    here: Here,
    delivery: Annotated[str, Header(alias="X-GitHub-Delivery", pattern=r"^[ -~]{1,100}$")],
    event: Annotated[str, Header(alias="X-GitHub-Event", pattern=r"^[a-z_]{1,40}$")],
) -> Response:
    """Take a delivery of GitHub, signed over its bytes; what follows from it comes later."""
    github = part(request)
    body = await request.body()
    given = [value for key, value in request.headers.raw if key == b"x-hub-signature-256"]
    secrets = [] if github is None else github.settings.secrets(hook)
    if github is None or not secrets:
        raise Problem("not-found", "there is no such hook.")
    if len(given) != 1 or not signed(secrets, body, given[0]):
        raise Problem("unsigned", "the signature is missing or wrong.")
    parsed(body)
    new = await here.write(lambda c: put(c, hook, delivery, event, body))
    here.engine.metrics.webhooks.labels(
        event if event in EVENTS else "other", "new" if new else "again"
    ).inc()
    if not new:
        return JSONResponse({"status": "duplicate"}, 200)
    github.worker.wake()
    return JSONResponse({"status": "waiting" if event in EVENTS else "ignored"}, 202)


@router.get("/repositories", response_model=RepositoriesView, responses=refusals("forbidden"))
async def get_repositories(here: Here, who: Who) -> RepositoriesView:
    """List the repositories that are followed and whose streams are the token's."""
    who.check("read")
    return await here.read(lambda c: repositories_view(c, who.streams))


@router.get(
    "/repositories/{owner}/{name}",
    response_model=RepositoryView,
    responses=refusals("forbidden", "not-found"),
)
async def get_repository(
    owner: Owner, name: Repository, request: Request, here: Here, who: Who
) -> RepositoryView:
    """Show a repository: running jobs by risk, surprises, flaky jobs, the what-if ledger."""
    who.check("read")
    github = part(request)
    below = (GitHubSettings() if github is None else github.settings).surprise
    view = await here.read(lambda c: repository_view(c, f"{owner}/{name}", below))
    if view is None or not who.sees(view.stream):
        raise Problem("not-found", f"{owner}/{name} is not followed.")
    return view


@router.post(
    "/repositories/{owner}/{name}/history",
    status_code=202,
    response_model=Acknowledged,
    responses={
        **described(200, "It was told before.", Acknowledged),
        **refusals("forbidden", "too-late", "other-template"),
    },
)
async def post_history(
    owner: Owner, name: Repository, body: HistoryBody, request: Request, here: Here, who: Who
) -> Response:
    """Let a repository's stream know a part of its history, in causal order, before it is asked."""
    full_name = f"{owner}/{name}"
    who.check("admin", stream_name(full_name))
    github = part(request)
    template = (GitHubSettings() if github is None else github.settings).template
    models = here.engine.models
    taken = await here.write(lambda c: take_history(c, models, full_name, body, template, who.id))
    here.engine.wake([taken.stream])
    reply = {"seq": taken.seq, "status": taken.status, "duplicate": not taken.new}
    return JSONResponse(reply, 202 if taken.new else 200)
