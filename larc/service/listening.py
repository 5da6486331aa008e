"""Word from other processes on the same PostgreSQL: new events, and events that took effect."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from larc.service.store.database import DONE, EVENTS, Database

LOG = logging.getLogger("larc.service")


class Listener:
    """A thread that listens; what it misses while it reconnects is found by looking, later.

    Parameters
    ----------
    database
        A PostgreSQL.
    events
        Called with streams that have new events: the number of each, and its shard where told.
    done
        Called with pairs of stream and event number.
    """

    def __init__(
        self,
        database: Database,
        events: Callable[[list[tuple[int, int | None]]], None],
        done: Callable[[list[tuple[int, int]]], None],
    ) -> None:
        self.database, self._events, self._done = database, events, done
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="larc-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except Exception as error:  # of either library: the database is away for a while
                LOG.warning("listening failed: %s", type(error).__name__)
                self._stop.wait(0.5)

    def _listen(self) -> None:
        # Not from the pool: it lives as long as this process and waits most of the time.
        raw = self.database.reader.raw_connection()
        connection: Any = raw.driver_connection
        raw.detach()
        try:
            connection.autocommit = True
            connection.execute(f"LISTEN {EVENTS}")
            connection.execute(f"LISTEN {DONE}")
            while not self._stop.is_set():
                for word in connection.notifies(timeout=0.5, stop_after=64):
                    self._heard(word.channel, word.payload)
        finally:
            connection.close()

    def _heard(self, channel: str, payload: str) -> None:
        if channel == EVENTS:
            told = (word.partition(":") for word in payload.split())
            self._events([(int(n), int(shard) if shard else None) for n, _, shard in told])
        else:
            pairs = (word.split(":") for word in payload.split())
            self._done([(int(stream), int(seq)) for stream, seq in pairs])
