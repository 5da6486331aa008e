"""How pages become text: templates that escape everything, and headers that allow little."""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import jinja2
import sqlalchemy as sa
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute

from larc.errors import LarcError
from larc.service.auth import Principal
from larc.service.dashboard.sessions import COOKIE, form_key
from larc.service.problems import CODES, Problem

HERE = Path(__file__).parent
STATIC = HERE / "static"
#: Nothing but this server's own files: no text of a stream can become script or style.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer` a browser would not say where a form comes from either.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FIELDS = 200


@cache
def integrity(name: str) -> str:
    """Return what a page says of a file it loads (subresource integrity)."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as it is shown, or a dash.

    Examples
    --------
    >>> number(-0.12345), number(None), number(1234567, 0)
    ('−0.123', '–', '1,234,567')
    """
    if value is None or not math.isfinite(value):
        return "–"
    shown = f"{value:,.{digits}f}".replace("-", "−")
    return shown.removeprefix("−") if not shown.strip("−0.") else shown


def percent(value: float | None, digits: int = 0) -> str:
    r"""Return a share as it is shown.

    Examples
    --------
    >>> percent(0.256), percent(0.004), percent(0.9996, 1)
    ('26\xa0%', '0\xa0%', '100.0\xa0%')
    """
    return "–" if value is None else f"{100 * value:.{digits}f}\u00a0%"


def duration(seconds: float | None) -> str:
    """Return a length of time in one unit or two.

    Examples
    --------
    >>> [duration(s) for s in (0.0123, 4, 95, 7300, 200_000)]
    ['12 ms', '4.0 s', '1 min 35 s', '2 h 1 min', '2 d 7 h']
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for size, name, small, part in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {name} {rest // small} {part}" if rest // small else f"{whole} {name}"
    return "–"


def moment(at: float | None) -> str:
    """Return a time as it is shown, in UTC.

    Examples
    --------
    >>> moment(0.0)
    '1970-01-01 00:00:00'
    """
    return "–" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def excerpt(text: str, most: int = 90) -> str:
    r"""Return the end of a text on one line: of a prompt, what the model read last.

    Examples
    --------
    >>> excerpt("a\nbc def", 5)
    '… def'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else "…" + line[1 - most :]


def environment() -> jinja2.Environment:
    """Return the templates; whatever is put into them is escaped."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "number": number,
        "percent": percent,
        "duration": duration,
        "moment": moment,
        "excerpt": excerpt,
        "segment": lambda text: quote(text, safe=""),
    }
    templates.globals["integrity"] = integrity
    return templates


TEMPLATES = environment()


def page(
    request: Request, name: str, who: Principal | None, status: int = 200, **view: Any
) -> HTMLResponse:
    """Return a page made from a template."""
    text = TEMPLATES.get_template(name).render(
        who=who, form_key=form_key(request) if who else "", path=request.url.path, **view
    )
    return HTMLResponse(text, status)


def see(address: str) -> RedirectResponse:
    """Return what follows a form: another page, which may be loaded again."""
    return RedirectResponse(address, 303)


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a form."""
    try:
        text = (await request.body()).decode()
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_FIELDS
        )
    except ValueError as error:
        raise Problem("invalid", "the body is no form.") from error
    fields = dict(pairs)
    if any("\0" in value for value in fields.values()):
        raise Problem("invalid", "a text holds the character NUL; leave it out.")
    return fields


class PageRoute(APIRoute):
    """A route for people: refusals are pages, and every answer has the headers above."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                response: Response = await handler(request)
            except Problem as problem:
                response = refused(request, problem)
            except LarcError as error:
                response = refused(request, Problem("refused", str(error)))
            except RequestValidationError:
                response = refused(request, Problem("not-found", "there is no such page."))
            except (sa.exc.DBAPIError, sa.exc.TimeoutError):
                away = "the database does not answer; nothing was lost: try again."
                response = refused(request, Problem("database", away))
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return handled


def refused(request: Request, problem: Problem) -> Response:
    """Return the page of a refusal; whoever has no session is asked for a token."""
    if problem.status == 401:
        if request.method == "GET" and request.url.path not in ("/", "/login"):
            return see("/login?next=" + quote(_address(request), safe=""))
        told = "" if COOKIE not in request.cookies else "The session has ended; log in again."
        return page(request, "login.html", None, 401, told=told, next="/")
    title = CODES[problem.code][1]
    return page(request, "refused.html", None, problem.status, title=title, detail=problem.detail)


def _address(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def local(address: str) -> str:
    """Return an address on this server, whatever was given.

    Examples
    --------
    >>> local("/streams/a?x=1"), local("//evil.example"), local("https://evil.example")
    ('/streams/a?x=1', '/', '/')
    """
    fine = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if fine and address.isprintable() and "\\" not in address else "/"
