"""A small client, for programs and for coroutines, whose retries are safe.

Everything that is sent has a key of its own, so that it can be sent again when an answer was lost:
the service answers a repetition with what it answered first, and learns nothing twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from larc.errors import LarcError
from larc.service.identifiers import new_id

Label = int | str | Sequence[float]
#: What is worth a second try: the service is busy, stopping, or its database is away.
_AGAIN = (429, 502, 503, 504)


class ServiceError(LarcError):
    """The service refused; ``status`` and ``code`` say why to programs."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code = status, code


class Reply(dict[str, Any]):
    """An answer of the service: a dictionary whose entries are attributes, too.

    Examples
    --------
    >>> reply = Reply(id="a", probabilities=[0.25, 0.75])
    >>> reply.probabilities == reply["probabilities"]
    True
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the answer has no {name!r}; it has {', '.join(self)}") from None


def _worth_another(response: httpx.Response) -> bool:
    """Whether the same request may be answered later; Ray's proxy answers 500 for a dead replica.

    The service's own 500 is a problem of that request.
    """
    problem = response.headers.get("content-type", "").startswith("application/problem+json")
    return response.status_code in _AGAIN or (response.status_code == 500 and not problem)


@dataclass(frozen=True)
class _Call:
    method: str
    path: str
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


def _stream(name: str, template: str | None, mode: str | None, expiry: Any) -> _Call:
    given = {"template": template, "mode": mode, "expiry": expiry}
    body = {key: value for key, value in given.items() if value is not None}
    return _Call("PUT", f"/v1/streams/{quote(name, safe='')}", body)


def _ask(
    stream: str,
    prompt: str,
    candidates: Sequence[str],
    name: str | None,
    context: str,
    experts: Mapping[str, Sequence[float]] | None,
) -> _Call:
    body: dict[str, Any] = {
        # Chosen here and not by the service: a retry has to have the same.
        "id": name or new_id(),
        "prompt": prompt,
        "candidates": list(candidates),
    }
    if context:
        body["context"] = context
    if experts:
        body["experts"] = {who: [float(p) for p in row] for who, row in experts.items()}
    return _Call("POST", f"/v1/streams/{quote(stream, safe='')}/questions", body)


def _batch(questions: Sequence[Mapping[str, Any]]) -> _Call:
    named = [{"id": new_id(), **question} for question in questions]
    return _Call("POST", "/v1/questions:batch", {"questions": named})


def _question(stream: str, name: str, rest: str = "") -> str:
    return f"/v1/streams/{quote(stream, safe='')}/questions/{quote(name, safe='')}{rest}"


def _said(label: Label) -> dict[str, Any]:
    if isinstance(label, str):
        return {"label": label}
    if hasattr(label, "__len__") or hasattr(label, "__iter__"):
        return {"losses": [float(loss) for loss in label]}  # type: ignore[union-attr]
    return {"label": int(label)}


def _label(stream: str, name: str, label: Label, wait: bool) -> _Call:
    query = {"wait": "applied"} if wait else {}
    return _Call("POST", _question(stream, name, "/label"), _said(label), query)


def _correct(stream: str, name: str, label: Label, relearn: bool) -> _Call:
    body = {**_said(label), "relearn": relearn}
    return _Call("POST", _question(stream, name, "/correction"), body, key=new_id())


def _events(stream: str, after: int) -> _Call:
    return _Call("GET", f"/v1/streams/{quote(stream, safe='')}/events", query={"after": after})


def _rollback(stream: str, version: int, replay: bool) -> _Call:
    body = {"version": version, "replay": replay}
    path = f"/v1/streams/{quote(stream, safe='')}/rollback"
    return _Call("POST", path, body, {"wait": "applied"}, new_id())


def _options(url: str, token: str, timeout: float) -> dict[str, Any]:
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token}"},
        "timeout": timeout,
    }


def _request(call: _Call) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "json": call.body,
        "params": call.query,
        "headers": {"Idempotency-Key": call.key} if call.key else {},
    }


def _read(response: httpx.Response) -> Reply:
    """Return what an answer holds, or raise what was refused."""
    if response.status_code < 300:
        return Reply(response.json() if response.content else {})
    try:
        problem = response.json()
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        code, detail = "unknown", f"the service answered {response.status_code}."
    raise ServiceError(response.status_code, code, detail)


def _pauses(attempts: int) -> Iterator[float]:
    """Yield how long to wait before each further try."""
    for attempt in range(attempts - 1):
        yield min(0.1 * 2**attempt, 5.0) * random.uniform(0.5, 1.0)


def _pause(response: httpx.Response | None, planned: float) -> float:
    told = "" if response is None else response.headers.get("Retry-After", "")
    return max(planned, min(float(told), 30.0)) if told.isdigit() else planned


class Client:
    """Talks to a service.

    Parameters
    ----------
    url
        Where it listens.
    token
        Whose requests they are.
    attempts
        How often something is sent before it is given up.
    timeout
        How long one attempt may take, in seconds.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8722", "larc_...") as client:
    ...     client
    <Client of http://127.0.0.1:8722>
    """

    def __init__(self, url: str, token: str, *, attempts: int = 8, timeout: float = 70.0) -> None:
        self.url, self.attempts = url, attempts
        self._http = httpx.Client(**_options(url, token, timeout))

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def stream(
        self,
        name: str,
        *,
        template: str | None = None,
        mode: str | None = None,
        expiry: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Make a stream, or see that it is there."""
        return self._send(_stream(name, template, mode, expiry))

    def status(self, stream: str) -> Reply:
        """Return a stream's counts, losses and weights."""
        return self._send(_Call("GET", f"/v1/streams/{quote(stream, safe='')}"))

    def ask(
        self,
        stream: str,
        prompt: str,
        candidates: Sequence[str],
        *,
        id: str | None = None,
        context: str = "",
        experts: Mapping[str, Sequence[float]] | None = None,
    ) -> Reply:
        """Ask now; returns the answer, with ``id`` and ``probabilities``."""
        return self._send(_ask(stream, prompt, candidates, id, context, experts))

    def ask_many(self, questions: Sequence[Mapping[str, Any]]) -> Reply:
        """Ask questions of several streams, each with ``stream``, ``prompt``, ``candidates``."""
        return self._send(_batch(questions))

    def label(self, stream: str, id: str, label: Label, *, wait: bool = False) -> Reply:
        """Report the right candidate, by index or text, or a loss for each; it is stored then."""
        return self._send(_label(stream, id, label, wait))

    def used(self, stream: str, id: str) -> Reply:
        """Report that an answer was acted on."""
        return self._send(_Call("POST", _question(stream, id, "/used")))

    def drop(self, stream: str, id: str) -> Reply:
        """Say that no label will come."""
        return self._send(_Call("DELETE", _question(stream, id)))

    def correct(self, stream: str, id: str, label: Label, *, relearn: bool = False) -> Reply:
        """Report that a label was wrong."""
        return self._send(_correct(stream, id, label, relearn))

    def events(self, stream: str, after: int = 0) -> Reply:
        """Return the log after an event."""
        return self._send(_events(stream, after))

    def snapshot(self, stream: str, label: str = "") -> Reply:
        """Keep the state as it is."""
        path = f"/v1/streams/{quote(stream, safe='')}/snapshots"
        return self._send(_Call("POST", path, {"label": label}, key=new_id()))

    def rollback(self, stream: str, version: int, *, replay: bool = False) -> Reply:
        """Go back to a version that was kept."""
        return self._send(_rollback(stream, version, replay))

    def _send(self, call: _Call) -> Reply:
        request = _request(call)
        for planned in _pauses(self.attempts):
            response = None
            try:
                response = self._http.request(**request)
                if not _worth_another(response):
                    return _read(response)
            except httpx.TransportError:
                pass  # nobody knows whether it arrived: that is what keys are for
            time.sleep(_pause(response, planned))
        try:
            return _read(self._http.request(**request))
        except httpx.TransportError as error:
            raise LarcError(f"{self.url} does not answer ({type(error).__name__}).") from error


class AsyncClient:
    """The same for coroutines.

    Parameters are those of `Client`.
    """

    def __init__(self, url: str, token: str, *, attempts: int = 8, timeout: float = 70.0) -> None:
        self.url, self.attempts = url, attempts
        self._http = httpx.AsyncClient(
            **_options(url, token, timeout), limits=httpx.Limits(max_connections=256)
        )

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.url}>"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def stream(
        self,
        name: str,
        *,
        template: str | None = None,
        mode: str | None = None,
        expiry: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Make a stream, or see that it is there."""
        return await self._send(_stream(name, template, mode, expiry))

    async def status(self, stream: str) -> Reply:
        """Return a stream's counts, losses and weights."""
        return await self._send(_Call("GET", f"/v1/streams/{quote(stream, safe='')}"))

    async def ask(
        self,
        stream: str,
        prompt: str,
        candidates: Sequence[str],
        *,
        id: str | None = None,
        context: str = "",
        experts: Mapping[str, Sequence[float]] | None = None,
    ) -> Reply:
        """Ask now; returns the answer, with ``id`` and ``probabilities``."""
        return await self._send(_ask(stream, prompt, candidates, id, context, experts))

    async def ask_many(self, questions: Sequence[Mapping[str, Any]]) -> Reply:
        """Ask questions of several streams, each with ``stream``, ``prompt``, ``candidates``."""
        return await self._send(_batch(questions))

    async def label(self, stream: str, id: str, label: Label, *, wait: bool = False) -> Reply:
        """Report the right candidate, by index or text, or a loss for each; it is stored then."""
        return await self._send(_label(stream, id, label, wait))

    async def used(self, stream: str, id: str) -> Reply:
        """Report that an answer was acted on."""
        return await self._send(_Call("POST", _question(stream, id, "/used")))

    async def drop(self, stream: str, id: str) -> Reply:
        """Say that no label will come."""
        return await self._send(_Call("DELETE", _question(stream, id)))

    async def correct(self, stream: str, id: str, label: Label, *, relearn: bool = False) -> Reply:
        """Report that a label was wrong."""
        return await self._send(_correct(stream, id, label, relearn))

    async def events(self, stream: str, after: int = 0) -> Reply:
        """Return the log after an event."""
        return await self._send(_events(stream, after))

    async def snapshot(self, stream: str, label: str = "") -> Reply:
        """Keep the state as it is."""
        path = f"/v1/streams/{quote(stream, safe='')}/snapshots"
        return await self._send(_Call("POST", path, {"label": label}, key=new_id()))

    async def rollback(self, stream: str, version: int, *, replay: bool = False) -> Reply:
        """Go back to a version that was kept."""
        return await self._send(_rollback(stream, version, replay))

    async def _send(self, call: _Call) -> Reply:
        request = _request(call)
        for planned in _pauses(self.attempts):
            response = None
            try:
                response = await self._http.request(**request)
                if not _worth_another(response):
                    return _read(response)
            except httpx.TransportError:
                pass  # nobody knows whether it arrived: that is what keys are for
            await asyncio.sleep(_pause(response, planned))
        try:
            return _read(await self._http.request(**request))
        except httpx.TransportError as error:
            raise LarcError(f"{self.url} does not answer ({type(error).__name__}).") from error
