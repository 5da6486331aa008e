"""What every route works with: the engine, who asks, and how refusals are documented."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.engine import Connection

from larc.service.auth import Buckets, Doorkeeper, Principal
from larc.service.engine import Engine
from larc.service.problems import CODES, Problem
from larc.service.protocol import ProblemAnswer
from larc.service.store.log import Command, Taken
from larc.service.store.results import Outcome

T = TypeVar("T")
_BEARER = HTTPBearer(auto_error=False, description="larc_ID_SECRET")


@dataclass(frozen=True)
class HttpSettings:
    """How requests are treated.

    Attributes
    ----------
    wait_s
        How long a request waits for its event to take effect.
    rate
        The most requests a second of one token; 0 for no limit.
    listeners
        The most event streams that one token may have open.
    body_s, header_s
        How long the body of a request and what is before it may take to arrive.
    """

    wait_s: float = 60.0
    rate: float = 0.0
    listeners: int = 16
    body_s: float = 30.0
    header_s: float = 10.0


@dataclass
class Context:
    """One server."""

    engine: Engine
    settings: HttpSettings
    door: Doorkeeper
    buckets: Buckets
    listening: dict[str, int] = field(default_factory=dict)
    closing: bool = False

    def close(self) -> None:
        """End what would never end by itself: whoever listens comes back to another process."""
        self.closing = True

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Ask the database something."""

        def reading() -> T:
            with self.engine.database.reading() as connection:
                return work(connection)

        return await to_thread.run_sync(reading)

    async def write(self, work: Callable[[Connection], T], order: str = "") -> T:
        """Change something in the database, in a transaction that others may share."""
        return await asyncio.wrap_future(self.engine.writer.submit(work, order=order))

    async def take(self, command: Command) -> Taken:
        """Put a command into the log."""
        if len(self.engine.waiters.open()) >= self.engine.settings.queue:
            raise Problem("busy", "too much is waiting; try again.", retry_after=1.0)
        taken = await asyncio.wrap_future(self.engine.submit(command))
        self.engine.metrics.taken.labels(command.kind, "new" if taken.new else "again").inc()
        return taken

    async def outcome(self, taken: Taken) -> Outcome:
        """Wait until an event has taken effect; a refusal is raised."""
        future = self.engine.waiters.wait(taken.stream, taken.seq)
        try:
            outcome = await asyncio.wait_for(asyncio.wrap_future(future), self.settings.wait_s)
        except TimeoutError:
            raise Problem(
                "late", "it was taken in and will take effect; ask again for it.", retry_after=1.0
            ) from None
        finally:
            self.engine.waiters.forget(taken.stream, taken.seq, future)
        if outcome.status == "refused":
            raise Problem(outcome.code or "refused", outcome.reason or "it was refused.")
        return outcome


def context(request: Request) -> Context:
    """Return the server a request came to."""
    here: Context = request.app.state.context
    return here


async def principal(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Principal:
    """Return who asks, or refuse."""
    if credentials is None:
        raise Problem("unauthorized", "give the header `Authorization: Bearer TOKEN`.")
    return await counted(request, credentials.credentials)


async def admitted(request: Request, text: str) -> Principal:
    """Return whose token a text is, or refuse it."""
    door = context(request).door
    who = door.known(text)
    return await to_thread.run_sync(door.admit, text) if who is None else who


async def counted(request: Request, text: str) -> Principal:
    """Return whose token a text is, refusing those who ask too often."""
    who = await admitted(request, text)
    request.scope["larc.token"] = who.id
    wait = context(request).buckets.wait(who.id)
    if wait:
        raise Problem("too-many", "the token asks too often.", retry_after=wait)
    return who


Here = Annotated[Context, Depends(context)]
Who = Annotated[Principal, Depends(principal)]

#: What any route may refuse.
ALWAYS = ("bad-json", "unauthorized", "too-large", "invalid", "too-many", "database")


def refusals(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's refusals."""
    listed: dict[int | str, dict[str, Any]] = {}
    for code in (*ALWAYS, *codes):
        status, title = CODES[code]
        entry = listed.setdefault(
            status,
            {
                "description": "",
                "model": ProblemAnswer,
                "content": {"application/problem+json": {}},
            },
        )
        described = f"{entry['description']}; " if entry["description"] else ""
        entry["description"] = f"{described}{title} (`{code}`)"
    return listed


def described(status: int, text: str, model: Any = None) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of one more answer of a route."""
    entry: dict[str, Any] = {"description": text}
    if model is not None:
        entry["model"] = model
    return {status: entry}
