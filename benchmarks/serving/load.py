"""Requests over connections that stay open, as cheaply as Python can send them.

A client library would cost more than the server: what is measured here is the other end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    """One request."""

    path: str
    body: Any
    method: str = "POST"


@dataclass(frozen=True)
class Sent:
    """What came of requests: the seconds of all, of each, and the answers."""

    seconds: float
    each: tuple[float, ...]
    replies: tuple[Any, ...]


def send(address: str, token: str, chains: Sequence[Sequence[Request]], at_once: int) -> Sent:
    """Send chains of requests, so many chains at once; the requests of one follow each other."""
    return asyncio.run(_send(address, token, chains, at_once))


async def _send(
    address: str, token: str, chains: Sequence[Sequence[Request]], at_once: int
) -> Sent:
    where = urlsplit(address)
    head = f"Host: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    left = iter(chains)
    each: list[float] = []
    replies: list[Any] = []

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for chain in left:
            for request in chain:
                body = json.dumps(request.body).encode()
                first = f"{request.method} {request.path} HTTP/1.1\r\n{head}"
                began = time.perf_counter()
                writer.write(f"{first}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                replies.append(await _reply(reader, request.path))
                each.append(time.perf_counter() - began)
        writer.close()

    opened = [
        await asyncio.open_connection(where.hostname, where.port, limit=2**24)
        for _ in range(min(at_once, len(chains)))
    ]
    began = time.perf_counter()
    await asyncio.gather(*(connection(*pair) for pair in opened))
    return Sent(time.perf_counter() - began, tuple(each), tuple(replies))


async def _reply(reader: asyncio.StreamReader, path: str) -> Any:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    status = int(head.split(" ", 2)[1])
    length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
    body = await reader.readexactly(length)
    if status >= 300:
        raise RuntimeError(f"{path} was answered with {status}: {body[:300]!r}")
    return json.loads(body) if body else None
