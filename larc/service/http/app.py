"""The application: routes, refusals as problems, and what is around them."""

from __future__ import annotations

import logging
import math
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from larc.errors import LarcError
from larc.service.auth import Buckets, Doorkeeper
from larc.service.dashboard import playground, repositories, routes
from larc.service.engine import Engine
from larc.service.github import routes as github
from larc.service.github.inbox import MOST_BYTES
from larc.service.http import openai, operations, questions, states, streams
from larc.service.http.context import Context, HttpSettings
from larc.service.http.guard import Guard
from larc.service.problems import CODES, Problem
from larc.service.protocol import BODY_BYTES

LOG = logging.getLogger("larc.service")
_PROBLEM = "application/problem+json"
_BY_STATUS = {401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "method-not-allowed"}


def make_app(
    engine: Engine,
    settings: HttpSettings | None = None,
    following: github.GitHubPart | None = None,
) -> Guard:
    """Return the ASGI application of an engine that runs."""
    chosen = settings or HttpSettings()
    app = FastAPI(
        title="LARC",
        version="1",
        description="Ask now, label later, learn exactly once.",
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    context = Context(engine, chosen, Doorkeeper(engine.database), Buckets(chosen.rate))
    app.state.context = context
    app.state.github = following
    parts = (questions, streams, states, operations, openai, github)
    for one in parts:
        app.include_router(one.router)
    app.add_exception_handler(Problem, _refused)
    app.add_exception_handler(LarcError, _refused_by_library)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _missing)
    app.add_exception_handler(sa.exc.DBAPIError, _unavailable)
    app.add_exception_handler(sa.exc.TimeoutError, _unavailable)
    app.add_exception_handler(Exception, _broken)
    # The pages of the dashboard.
    for router in (routes.router, playground.router, repositories.router):
        app.include_router(router)
    routes.memory_of(context).rates(engine.metrics)  # from now on
    limits = {"": BODY_BYTES, github.WEBHOOK: MOST_BYTES}
    return Guard(app, engine.metrics, context.close, limits=limits, body_s=chosen.body_s)


def _answer(request: Request, problem: Problem) -> JSONResponse:
    headers = {}
    if problem.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
    if request.url.path in openai.PATHS:
        return JSONResponse(openai.as_error(problem), problem.status, headers)
    return JSONResponse(problem.body(), problem.status, headers, media_type=_PROBLEM)


async def _refused(request: Request, error: Any) -> JSONResponse:
    return _answer(request, error)


async def _refused_by_library(request: Request, error: Any) -> JSONResponse:
    return _answer(request, Problem("refused", str(error)))


async def _invalid(request: Request, error: Any) -> JSONResponse:
    """Say what is wrong with a request, and where; never what it held."""
    problems = error.errors()
    if any(one["type"] == "json_invalid" for one in problems):
        return _answer(request, Problem("bad-json", "the body is no JSON."))
    told = "; ".join(
        f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in problems[:5]
    )
    return _answer(request, Problem("invalid", told.encode("utf-8", "replace").decode()))


async def _missing(request: Request, error: Any) -> JSONResponse:
    if error.status_code == 400:  # a body that cannot be read, nested too deeply for example
        return _answer(request, Problem("bad-json", "the body is no JSON."))
    code = _BY_STATUS.get(error.status_code)
    if code is None:
        return JSONResponse({"detail": str(error.detail)}, error.status_code)
    response = _answer(request, Problem(code, CODES[code][1].lower() + "."))
    response.headers.update(error.headers or {})
    return response


async def _unavailable(request: Request, error: Any) -> JSONResponse:
    told = "the database does not answer; nothing was lost: try again."
    return _answer(request, Problem("database", told, retry_after=1.0))


async def _broken(request: Request, error: Exception) -> JSONResponse:
    LOG.error("a request broke", exc_info=error)
    return JSONResponse({"title": "The service broke", "status": 500}, 500, media_type=_PROBLEM)
