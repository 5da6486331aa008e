"""Server-sent events: looking for what is new again and again, as long as somebody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from larc.service.http.context import Context

#: After so many silent seconds a comment tells both ends that the connection lives.
_ALIVE = 15.0


async def following(
    here: Context, token: str, look: Callable[[], Awaitable[Sequence[str] | None]], every: float
) -> AsyncIterator[str]:
    """Yield what looking brings, until the server closes or a look brings None.

    Parameters
    ----------
    here, token
        The server, and whose connection it is: a token has so many at most.
    look
        Returns the events that are new.
    every
        Seconds between two looks.
    """
    here.listening[token] = here.listening.get(token, 0) + 1
    silent = 0.0
    try:
        while not (here.closing or here.engine.stopping):
            events = await look()
            if events is None:
                break
            for event in events:
                yield event
                silent = 0.0
            await asyncio.sleep(every)
            silent += every
            if silent >= _ALIVE:
                silent = 0.0
                yield ": alive\n\n"
    finally:
        here.listening[token] -= 1
        if not here.listening[token]:
            del here.listening[token]
