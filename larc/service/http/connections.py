"""Connections: the head of a request must come soon, and be short."""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from larc.service.problems import Problem

#: The most bytes of a request's line and headers, beyond what one read of the socket brings.
HEAD_BYTES = 2**16


def limited(header_s: float) -> type[asyncio.Protocol]:
    """Return a protocol for uvicorn that ends connections whose requests do not begin in time.

    Uvicorn by itself waits for ever for the first request's headers, however many there are.

    Parameters
    ----------
    header_s
        How long the head of a request may take to arrive, from the connection or its first byte.
    """

    class Limited(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None
        _held = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
            super().connection_made(transport)
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_here()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._timer is not None:
                self._held += len(data)
                if self._held > HEAD_BYTES:
                    told = f"a request's headers may have {HEAD_BYTES} bytes."
                    self._refuse(Problem("long-headers", told))

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._await_head()

        def on_headers_complete(self) -> None:
            self._head_is_here()
            super().on_headers_complete()

        def _await_head(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(header_s, self._late)

        def _head_is_here(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._held = None, 0

        def _late(self) -> None:
            self._refuse(Problem("too-slow", "the request's headers took too long to arrive."))

        def _refuse(self, problem: Problem) -> None:
            self._head_is_here()
            if self.transport.is_closing():
                return
            body = json.dumps(problem.body()).encode()
            head = f"content-type: application/problem+json\r\ncontent-length: {len(body)}\r\n"
            line = STATUS_LINE[problem.status]
            self.transport.write(line + head.encode() + b"connection: close\r\n\r\n" + body)
            self.transport.close()

    return Limited
