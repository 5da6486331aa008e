"""The leases of this process: which shards it may commit for, and until when."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from larc.service.store.leases import claim, leave
from larc.service.writer import Writer

#: The part of a lease after which it is no longer trusted: clocks differ, and commits take time.
_TRUSTED = 0.8


class Leases:
    """Shards and their epochs, renewed by `renew` and forgotten in time.

    Parameters
    ----------
    writer
        What writes.
    me
        The worker's name.
    seconds
        How long a lease lasts without a renewal.
    alone
        Whether no other process may have a lease.
    """

    def __init__(self, writer: Writer, me: str, seconds: float, *, alone: bool) -> None:
        self.writer, self.me, self.seconds, self.alone = writer, me, seconds, alone
        self._lock = threading.Lock()
        self._epochs: dict[int, int] = {}
        self._until = 0.0

    def current(self) -> dict[int, int]:
        """Return the epochs of the shards that are this process's now."""
        with self._lock:
            return dict(self._epochs) if time.monotonic() < self._until else {}

    def renew(self) -> set[int]:
        """Renew the leases and take what is free; returns the shards that are new."""
        began = time.monotonic()
        epochs = self.writer.submit(
            lambda connection: claim(connection, self.me, self.seconds, all_of_them=self.alone),
            alone=True,
        ).result()
        with self._lock:
            new = {shard for shard, epoch in epochs.items() if self._epochs.get(shard) != epoch}
            self._epochs, self._until = epochs, began + _TRUSTED * self.seconds
        return new

    def lose(self, shards: Collection[int]) -> None:
        """Forget shards that somebody else has taken over."""
        with self._lock:
            for shard in shards:
                self._epochs.pop(shard, None)

    def leave(self) -> None:
        """Give all shards up, so that others take them at once."""
        with self._lock:
            self._epochs = {}
        self.writer.submit(lambda connection: leave(connection, self.me), alone=True).result()
