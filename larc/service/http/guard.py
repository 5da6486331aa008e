"""Before and after every request: size and time of bodies, counts, and one line in the log."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from larc.service.metrics import Metrics
from larc.service.problems import Problem

LOG = logging.getLogger("larc.service.requests")
#: Routes that nobody counts by their names, since there may be any number.
_UNKNOWN = "unknown"


class Guard:
    """An ASGI application around another.

    Parameters
    ----------
    app
        The other.
    metrics
        What is counted.
    close
        Called when the server is about to end.
    limits
        The most bytes of a body, by how its path begins; the longest beginning rules.
    body_s
        How long a body may take to arrive.
    """

    def __init__(
        self,
        app: Any,
        metrics: Metrics,
        close: Callable[[], None],
        *,
        limits: Mapping[str, int],
        body_s: float,
    ) -> None:
        self.app, self.metrics, self.close = app, metrics, close
        self.limits, self.body_s = limits, body_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sending(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            messages = await self._body(scope, receive)
            await self.app(scope, _replayed(messages, receive), sending)
        except Problem as problem:
            await refuse(problem, sending)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", _UNKNOWN)
            self.metrics.requests.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            about = {
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 1),
                "token": scope.get("larc.token", ""),
            }
            LOG.info(json.dumps(about))

    async def _body(self, scope: Any, receive: Any) -> list[Any]:
        """Return the whole body, which must not be too long nor take too long."""
        beginnings = [one for one in self.limits if scope["path"].startswith(one)]
        most = self.limits[max(beginnings, key=len)]
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > most):
                raise Problem("too-large", f"a body may have {most} bytes.")
        messages, size = [], 0
        try:
            async with asyncio.timeout(self.body_s):
                while True:
                    message = await receive()
                    messages.append(message)
                    size += len(message.get("body", b""))
                    if size > most:
                        raise Problem("too-large", f"a body may have {most} bytes.")
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return messages
        except TimeoutError:
            raise Problem("too-slow", "the body took too long to arrive.") from None


def _replayed(messages: list[Any], receive: Any) -> Any:
    left = iter(messages)

    async def again() -> Any:
        for message in left:
            return message
        return await receive()

    return again


async def refuse(problem: Problem, send: Any) -> None:
    """Answer with a problem."""
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(problem.body()).encode()})
