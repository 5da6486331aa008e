"""Sessions of people: a token is given once, and a cookie stands for it from then on.

A session is a token of its own with the rights of the one it was opened with: 32 random bytes of
which the database has the SHA-256, until it expires, the person leaves or the first token is
revoked. So every process on one database knows it.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Annotated
from urllib.parse import urlsplit

import sqlalchemy as sa
from anyio import to_thread
from fastapi import Depends, Request
from sqlalchemy.engine import Connection

from larc.service.auth import Principal, new_token
from larc.service.http.context import Context, counted
from larc.service.problems import Problem
from larc.service.store import admin
from larc.service.store.database import now
from larc.service.store.schema import token

COOKIE = "larc_session"
#: How long a session lasts, in seconds.
LASTS = 12 * 3600.0


async def open_session(here: Context, text: str) -> tuple[str, float]:
    """Return the cookie of a new session, and how long it lasts; refuse what is no token."""
    who = await to_thread.run_sync(here.door.admit, text)

    def keep(connection: Connection) -> tuple[str, float]:
        row = admin.find_token(connection, who.id)
        if row is None or row.note.startswith(admin.SESSION_OF):
            raise Problem("unauthorized", "there is no such token.")
        lasts = LASTS
        if row.expires_at is not None:
            lasts = min(lasts, row.expires_at - time.time())
        kept, cookie = new_token(
            who.scopes, who.streams, note=admin.SESSION_OF + who.id, expires_in_s=lasts
        )
        # Sessions that ended are no tokens anybody needs to see.
        connection.execute(
            sa.delete(token).where(
                token.c.note.startswith(admin.SESSION_OF, autoescape=True),
                token.c.expires_at < now(connection),
            )
        )
        admin.keep_token(connection, kept, who.id)
        return cookie, lasts

    return await here.write(keep)


async def close_session(here: Context, who: Principal) -> None:
    """Let a cookie be refused from now on."""
    await here.write(lambda c: admin.revoke_token(c, who.id, who.id))
    here.door.forget(who.id)


async def visitor(request: Request) -> Principal:
    """Return who asks for a page, refusing those without a session and those in a hurry."""
    return await counted(request, cookie_of(request))


def cookie_of(request: Request) -> str:
    """Return what a browser sent of its session."""
    return request.cookies.get(COOKIE, "")


Visitor = Annotated[Principal, Depends(visitor)]


def form_key(request: Request) -> str:
    """Return what forms of a session carry, so that no other site can send them.

    It is made from the cookie, which no other site can read.
    """
    return hashlib.sha256(b"larc form\0" + cookie_of(request).encode()).hexdigest()


def check_form(request: Request, given: str) -> None:
    """Refuse a form that did not come from a page of this session."""
    check_origin(request)
    if not hmac.compare_digest(form_key(request).encode(), given.encode()):
        raise Problem("forbidden", "the form is not of this session; load the page again.")


def check_origin(request: Request) -> None:
    """Refuse a form that a browser sends from another site.

    Browsers say where a form comes from; other programs do not, and have no cookie to be misused.
    """
    origin = request.headers.get("origin")
    # Behind a proxy the scheme may be another here than the browser's.
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise Problem("forbidden", "the form comes from another site; load the page again.")
