"""Requests that wait for their event to take effect, here or in another process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future

from larc.service.store.results import Outcome

Key = tuple[int, int]
#: How many outcomes are remembered for requests that come to wait a moment too late.
_REMEMBERED = 8192


class Waiters:
    """Futures by stream and event number.

    Examples
    --------
    >>> waiters = Waiters()
    >>> future = waiters.wait(1, 7)
    >>> waiters.resolve({(1, 7): Outcome(7, "used", "a", "applied")})
    >>> future.result().status
    'applied'
    >>> waiters.wait(1, 7).done()  # it was over before anybody asked
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[Key, list[Future[Outcome]]] = {}
        self._recent: OrderedDict[Key, Outcome] = OrderedDict()

    def wait(self, stream: int, seq: int) -> Future[Outcome]:
        """Return the outcome of an event, as soon as there is one."""
        future: Future[Outcome] = Future()
        key = (stream, seq)
        with self._lock:
            if key in self._recent:
                future.set_result(self._recent[key])
            else:
                self._futures.setdefault(key, []).append(future)
        return future

    def forget(self, stream: int, seq: int, future: Future[Outcome]) -> None:
        """Wait no longer."""
        key = (stream, seq)
        with self._lock:
            left = [one for one in self._futures.get(key, []) if one is not future]
            if left:
                self._futures[key] = left
            else:
                self._futures.pop(key, None)

    def resolve(self, outcomes: dict[Key, Outcome]) -> None:
        """Tell those who wait."""
        with self._lock:
            told = [
                (future, outcome)
                for key, outcome in outcomes.items()
                for future in self._futures.pop(key, ())
            ]
            self._recent.update(outcomes)
            while len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)
        for future, outcome in told:
            if future.set_running_or_notify_cancel():
                future.set_result(outcome)

    def open(self, among: Iterable[Key] | None = None) -> list[Key]:
        """Return what is waited for, of some keys or at all."""
        with self._lock:
            if among is None:
                return list(self._futures)
            return [key for key in among if key in self._futures]
