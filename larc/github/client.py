"""A client of GitHub's REST API: it pages, waits when told to, retries, and guards its token."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from larc.errors import LarcError
from larc.github.replies import (
    Failed,
    Limited,
    Page,
    Trim,
    limit_of,
    message_of,
    page_of,
    retry_after,
)
from larc.io.times import iso_time

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

#: Where the public GitHub answers. An Enterprise server answers at ``https://HOST/api/v3``.
PUBLIC = "https://api.github.com"
#: How often one question is asked before failing answers are believed.
ATTEMPTS = 7
#: How often one question may run into a rate limit.
LIMIT_WAITS = 6
#: The longest single wait, in seconds. The hourly limit is lifted within the hour.
LONGEST_WAIT = 3900.0

_LONGEST_BACKOFF = 60.0
# What GitHub asks for where a limit comes without a time.
_UNTOLD_WAIT = 60.0
_REDIRECTS = 5
_LOCAL = ("localhost", "127.0.0.1", "::1")


class NotFound(LarcError):
    """What was asked for does not exist, or the token may not see it."""


class GitHub:
    """Asks one repository's questions of one server, each until it has a sound answer.

    Rate limits are waited out, for as long as the server says. Answers of 5xx, broken connections
    and answers that are no whole JSON are asked for again, after pauses that double. Both are
    bounded. The token is sent to the server of ``base_url`` and to no other, whatever it redirects
    to, and stands in no message.

    Parameters
    ----------
    repository
        ``OWNER/REPO``.
    base_url
        The root of the REST API.
    token
        Without one, only public repositories answer, and rarely.
    sleep, clock
        How to wait, and what time it is in epoch seconds.
    say
        Told of every wait, one sentence at a time.
    longest_wait
        A rate limit that lasts longer, in seconds, is refused instead of waited out.
    transport
        Takes the place of the network.

    Examples
    --------
    >>> import httpx
    >>> answer = {"total_count": 1, "workflow_runs": [{"id": 3, "name": "CI"}]}
    >>> network = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    >>> with GitHub("o/r", transport=network) as github:
    ...     page = github.page("actions/runs", {"page": 1}, "workflow_runs", dict)
    >>> page.total, page.items, github.requests
    (1, [{'id': 3, 'name': 'CI'}], 1)
    """

    def __init__(
        self,
        repository: str,
        base_url: str = PUBLIC,
        token: str | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], object] = lambda sentence: None,
        longest_wait: float = LONGEST_WAIT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        httpx = _httpx()
        self.repository = repository
        self.base_url = checked_base(base_url, token)
        #: Questions that were asked, and how many of them the server answered with "unchanged".
        self.requests = self.unchanged = 0
        self._token = _checked_token(token)
        self._sleep, self._clock, self._say = sleep, clock, say
        self._longest_wait = longest_wait
        headers = {
            "Accept": "application/vnd.github+json",
            "User-Agent": "larc",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        # A renamed repository answers with a redirect. httpx drops the Authorization header where
        # one leads to another scheme, host or port; a test holds it to that.
        self._client = httpx.Client(
            headers=headers,
            follow_redirects=True,
            max_redirects=_REDIRECTS,
            timeout=30.0,
            transport=transport,
        )

    def __enter__(self) -> GitHub:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def page(
        self,
        path: str,
        parameters: Mapping[str, str | int],
        name: str,
        trim: Trim,
        known: Page | None = None,
    ) -> Page:
        """Return one page of a listing.

        Parameters
        ----------
        path
            Below the repository's address.
        parameters
            The query, page number included.
        name
            The key of the entries in the answer.
        trim
            Gives what is kept of an entry.
        known
            What this very question was answered before: returned again if nothing has changed.

        Raises
        ------
        NotFound
            Where the server says 404 or 410.
        LarcError
            Where the server refuses, keeps failing, or limits for longer than may be waited.
        """
        return self._patiently(lambda: self._ask(path, parameters, name, trim, known))

    def document(self, path: str) -> dict[str, Any]:
        """Return one object of the repository, such as a run or a job.

        Raises
        ------
        NotFound
            Where the server says 404 or 410.
        LarcError
            Where the server refuses, keeps failing, or limits for longer than may be waited.

        Examples
        --------
        >>> import httpx
        >>> network = httpx.MockTransport(lambda request: httpx.Response(200, json={"id": 3}))
        >>> with GitHub("o/r", transport=network) as github:
        ...     github.document("actions/runs/3")
        {'id': 3}
        """
        return self._patiently(lambda: self._object("GET", path, None))

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make or change an object, and return it; nothing is sent twice.

        Parameters
        ----------
        method, path
            ``POST`` or ``PATCH``, below the repository's address.
        body
            What it is to be.

        Examples
        --------
        >>> import httpx
        >>> network = httpx.MockTransport(lambda request: httpx.Response(201, json={"id": 3}))
        >>> with GitHub("o/r", transport=network) as github:
        ...     github.send("POST", "check-runs", {"name": "LARC"})
        {'id': 3}
        """
        try:
            return self._object(method, path, body)
        except Limited as limit:
            raise LarcError(f"{limit.host} limits the rate; try again later.") from None
        except Failed as failure:
            raise LarcError(f"{failure.host} failed with {failure}; try again later.") from None

    def _object(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        response = self._answered(method, path, {}, {}, body)
        if response.status_code not in (200, 201):
            raise self._unanswered(response)
        try:
            document = response.json()
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise Failed("an answer that is no whole JSON", response.url.host)
        return document

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask until there is a sound answer, or none is to be had."""
        failures = limits = 0
        while True:
            try:
                return ask()
            except Limited as limit:
                limits += 1
                self._wait_out(limit, limits)
            except Failed as failure:
                failures += 1
                if failures == ATTEMPTS:
                    raise LarcError(
                        f"{failure.host} failed {ATTEMPTS} times in a row, last with {failure}; "
                        "what was read is kept: run the same command again later."
                    ) from None
                pause = min(2.0 ** (failures - 1), _LONGEST_BACKOFF)
                pause = max(pause, min(failure.seconds or 0.0, self._longest_wait))
                self._say(f"{failure.host} failed with {failure}; trying again in {pause:.0f} s")
                self._sleep(pause)

    def _ask(
        self,
        path: str,
        parameters: Mapping[str, str | int],
        name: str,
        trim: Trim,
        known: Page | None,
    ) -> Page:
        headers = {} if known is None or known.etag is None else {"If-None-Match": known.etag}
        response = self._answered("GET", path, parameters, headers, None)
        if response.status_code == 304 and known is not None:
            self.unchanged += 1
            return known
        if response.status_code == 200:
            return page_of(response, name, trim)
        raise self._unanswered(response)

    def _answered(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str | int],
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
    ) -> httpx.Response:
        """Return the answer to one request, whatever it says."""
        library = _httpx()
        address = library.URL(f"{self.base_url}/repos/{self.repository}/{path}")
        self.requests += 1
        try:
            response: httpx.Response = self._client.request(
                method, address, params=dict(parameters), headers=headers, json=body
            )
            return response
        except (library.TooManyRedirects, library.UnsupportedProtocol) as error:
            reason = self._clean(str(error))
            raise LarcError(f"{address.host} redirects badly: {reason}") from None
        except library.RequestError as error:
            reason = self._clean(str(error)) or type(error).__name__
            raise Failed(reason, address.host) from None

    def _unanswered(self, response: httpx.Response) -> Exception:
        """Return what an answer other than a good one means."""
        status, host = response.status_code, response.url.host
        if status in (403, 429) and (limit := limit_of(response, self._clock)) is not None:
            return limit
        if status >= 500 or status in (304, 408):
            return Failed(f"HTTP {status}", host, retry_after(response, self._clock))
        return self._refusal(response)

    def _wait_out(self, limit: Limited, limits: int) -> None:
        seconds = limit.seconds
        if seconds is None:
            seconds = min(_UNTOLD_WAIT * 2.0 ** (limits - 1), self._longest_wait)
        until = iso_time(math.ceil(self._clock() + seconds))
        if seconds > self._longest_wait or limits > LIMIT_WAITS:
            raise LarcError(
                f"{limit.host} limits the rate until {until}; what was read is kept: run the same "
                "command again then, or with a token that has a higher limit."
            ) from None
        self._say(f"{limit.host} limits the rate; waiting {seconds:.0f} s, until {until}")
        self._sleep(seconds)

    def _refusal(self, response: httpx.Response) -> LarcError:
        status, host = response.status_code, response.url.host
        # Cleaned before it is cut: half a token is still too much of it.
        message = self._clean(message_of(response))[:200]
        if status == 401 and self._token is None:
            return LarcError(f"{host} asks for a token (401); put one into GITHUB_TOKEN.")
        if status == 401:
            return LarcError(
                f"{host} does not accept the token (401); check GITHUB_TOKEN: it may have expired "
                "or belong to another server."
            )
        if status in (404, 410):
            hint = "" if self.base_url == PUBLIC else ", the base URL (https://HOST/api/v3)"
            return NotFound(
                f"{self.repository} was not found at {host} ({status}); check its name{hint} and, "
                "if it is private, that the token may read it."
            )
        if status == 403:
            return LarcError(
                f"{host} does not let the workflow runs of {self.repository} be read (403"
                f"{message and ': '}{message}); use a token that may read them."
            )
        return LarcError(f"{host} refused (HTTP {status}{message and ': '}{message}).")

    def _clean(self, text: str) -> str:
        """Return a foreign text without the token, should the server have repeated it."""
        return text if self._token is None else text.replace(self._token, "***")


def checked_base(base_url: str, token: str | None) -> str:
    """Return the address of an API without its last slash, or say why it cannot be used.

    Examples
    --------
    >>> checked_base("https://github.example.org/api/v3/", token="secret")
    'https://github.example.org/api/v3'
    >>> checked_base("http://github.example.org/api/v3", token="secret")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: a token would be readable on its way to http://github.example.org; ...
    """
    httpx = _httpx()
    try:
        url = httpx.URL(base_url.strip())
    except (httpx.InvalidURL, TypeError):
        raise LarcError("the base URL is no address; give https://HOST/api/v3.") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise LarcError("the base URL is no web address; give https://HOST/api/v3.")
    if url.userinfo or url.query or url.fragment:
        # Not repeated here: there may be a password in it.
        raise LarcError("the base URL has more than scheme, host and path; leave the rest out.")
    if url.scheme == "http" and token and url.host not in _LOCAL:
        raise LarcError(
            f"a token would be readable on its way to http://{url.host}; use https, or no token."
        )
    return str(url).rstrip("/")


def _checked_token(token: str | None) -> str | None:
    token = (token or "").strip()
    if not all("!" <= character <= "~" for character in token):
        # The HTTP library would repeat the header, token and all, in its own error.
        raise LarcError("the token holds characters that no token has; check GITHUB_TOKEN.")
    return token or None


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise LarcError("fetching needs httpx; pip install 'larc-lm[studies]'.") from error
    return httpx
