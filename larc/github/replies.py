"""What an answer of GitHub means: a page of a listing, a limit to wait out, or a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# Longer than anybody waits, and short enough to be a date.
_FOREVER = 1e9

Item = dict[str, Any]
Trim = Callable[[Mapping[str, Any]], Item]


class Failed(Exception):
    """An answer that may be better the next time; the server may have said when."""

    def __init__(self, reason: str, host: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.host, self.seconds = host, seconds


class Limited(Exception):
    """Too many questions: wait, for so many seconds if the server said it."""

    def __init__(self, seconds: float | None, host: str) -> None:
        super().__init__()
        self.seconds, self.host = seconds, host


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing: how many the whole listing counts, and the entries of this page.

    ``etag`` lets the page be asked for again at no cost while it is unchanged; ``more`` is
    whether the server names a next page.

    Examples
    --------
    >>> page = Page(1, [{"id": 7}], '"abc"', more=False)
    >>> Page.from_json(page.to_json()) == page
    True
    """

    total: int
    items: list[Item]
    etag: str | None
    more: bool

    def to_json(self) -> dict[str, object]:
        """Return the page in a form that JSON can hold."""
        return {"total": self.total, "items": self.items, "etag": self.etag, "more": self.more}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Page:
        """Return the page that :meth:`to_json` wrote."""
        return Page(document["total"], document["items"], document["etag"], document["more"])


def page_of(response: httpx.Response, name: str, trim: Trim) -> Page:
    """Return the page that an answer holds, or raise :class:`Failed`.

    Examples
    --------
    >>> import httpx
    >>> request = httpx.Request("GET", "https://api.example.org/")
    >>> answer = httpx.Response(200, json={"total_count": 1, "jobs": [{"id": 7}]}, request=request)
    >>> page_of(answer, "jobs", dict)
    Page(total=1, items=[{'id': 7}], etag=None, more=False)
    >>> page_of(httpx.Response(200, text='{"total_co', request=request), "jobs", dict)
    Traceback (most recent call last):
    ...
    larc.github.replies.Failed: an answer that is no whole JSON
    """
    host = response.url.host
    try:
        document = response.json()
    except (ValueError, RecursionError):
        raise Failed("an answer that is no whole JSON", host) from None
    total = document.get("total_count") if isinstance(document, dict) else None
    items = document.get(name) if isinstance(document, dict) else None
    if (
        type(total) is not int
        or not isinstance(items, list)
        or not all(isinstance(item, dict) and type(item.get("id")) is int for item in items)
    ):
        raise Failed(f"an answer that is no listing of {name}", host)
    trimmed = [trim(item) for item in items]
    return Page(total, trimmed, response.headers.get("etag"), "next" in response.links)


def limit_of(response: httpx.Response, clock: Callable[[], float]) -> Limited | None:
    """Return the limit that an answer of 403 or 429 tells of, if it does.

    Examples
    --------
    >>> import httpx
    >>> request = httpx.Request("GET", "https://api.example.org/")
    >>> headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1030"}
    >>> limit_of(httpx.Response(403, headers=headers, request=request), lambda: 1000.0).seconds
    31.0
    >>> limit_of(httpx.Response(403, request=request), lambda: 1000.0) is None
    True
    """
    host = response.url.host
    if (seconds := retry_after(response, clock)) is not None:
        return Limited(seconds, host)
    reset = response.headers.get("x-ratelimit-reset", "")
    if response.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        # One second more: the limit is lifted some time within the second that is named.
        left = max(float(reset) - _time(response, clock), 0.0) + 1.0
        return Limited(min(left, _FOREVER), host)
    if response.status_code == 429 or "rate limit" in message_of(response).lower():
        return Limited(None, host)
    return None


def retry_after(response: httpx.Response, clock: Callable[[], float]) -> float | None:
    """Return the seconds after which an answer wants the question again, if it says so."""
    value = response.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return min(float(value), _FOREVER)
    try:
        return max(parsedate_to_datetime(value).timestamp() - _time(response, clock), 0.0)
    except (ValueError, TypeError):
        return None


def message_of(response: httpx.Response) -> str:
    """Return what GitHub says about an error, on one line."""
    try:
        message = response.json()["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return " ".join(message.split()) if isinstance(message, str) else ""


def _time(response: httpx.Response, clock: Callable[[], float]) -> float:
    # By the server's clock where it shows one: it is the one the limit is kept by.
    try:
        return parsedate_to_datetime(response.headers.get("date", "")).timestamp()
    except (ValueError, TypeError):
        return clock()
