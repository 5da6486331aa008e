"""The causal order of a stream: what is asked, what arrives, and which comes first.

Nothing here knows what is asked. An item has a time at which it is asked, a time at which its
feedback arrives, and a stable identifier; where they are found is the caller's to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

from larc.errors import LarcError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """All items asked at one time, in the order of their identifiers: predict each of them now."""

    time: float
    items: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Arrive(Generic[T]):
    """All items whose feedback arrives at one time, in order: one batch to learn from."""

    time: float
    items: tuple[T, ...]


def order_events(
    items: Iterable[T],
    *,
    asked: Callable[[T], float],
    arrives: Callable[[T], float | None],
    identifier: Callable[[T], Any],
) -> Iterator[Ask[T] | Arrive[T]]:
    """Yield the events of one stream in causal order.

    Time goes forward. At one time everything that is asked comes before anything that arrives,
    so feedback is never used for a question of the same moment. What arrives at one time is one
    batch: a clock that ticks in seconds does not say what happened first within one. Identifiers
    order the items of an event, whatever order they were given in.

    Parameters
    ----------
    items
        The stream, in any order.
    asked, arrives
        The two times of an item. Feedback that never arrives has the time ``None``.
    identifier
        A stable identifier, unique in the stream; all of them can be compared.

    Raises
    ------
    LarcError
        Where a time is not finite, feedback arrives before its question, or two items share an
        identifier. It is raised before the first event.

    Examples
    --------
    >>> stream = [("b", 0, 5), ("a", 0, 9), ("c", 5, 9), ("d", 6, None)]
    >>> for event in order_events(stream, asked=lambda item: item[1],
    ...                           arrives=lambda item: item[2], identifier=lambda item: item[0]):
    ...     print(event.time, type(event).__name__, *(item[0] for item in event.items))
    0 Ask a b
    5 Ask c
    5 Arrive b
    6 Ask d
    9 Arrive a c
    """
    # (time, 0 for asked or 1 for arrives, identifier, item): sorting by the first three is the
    # whole rule.
    try:
        entries = _entries(items, asked, arrives, identifier)
        entries.sort(key=itemgetter(0, 1, 2))
    except (TypeError, OverflowError) as error:
        raise LarcError(
            f"a time is no number, or two identifiers cannot be compared ({error})."
        ) from error
    return _events(entries)


def _entries(
    items: Iterable[T],
    asked: Callable[[T], float],
    arrives: Callable[[T], float | None],
    identifier: Callable[[T], Any],
) -> list[tuple[float, int, Any, T]]:
    entries: list[tuple[float, int, Any, T]] = []
    seen = set()
    for item in items:
        name, ask, arrival = identifier(item), asked(item), arrives(item)
        if name in seen:
            raise LarcError(f"two items are called {name!r}; give each its own identifier.")
        seen.add(name)
        if not math.isfinite(ask) or (arrival is not None and not math.isfinite(arrival)):
            raise LarcError(f"item {name!r} has a time that is not finite; give finite times.")
        entries.append((ask, 0, name, item))
        if arrival is not None:
            if arrival < ask:
                raise LarcError(f"feedback for item {name!r} arrives before it is asked.")
            entries.append((arrival, 1, name, item))
    return entries


def _events(entries: list[tuple[float, int, Any, T]]) -> Iterator[Ask[T] | Arrive[T]]:
    for (time, arriving), group in groupby(entries, key=itemgetter(0, 1)):
        members = tuple(entry[3] for entry in group)
        yield Arrive(time, members) if arriving else Ask(time, members)


def split_streams(items: Iterable[T], *, stream: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items of each stream, streams in sorted order.

    Streams are independent: each has its own clock and its own states.

    Examples
    --------
    >>> split_streams(["b1", "a1", "b2"], stream=lambda item: item[0])
    {'a': ['a1'], 'b': ['b1', 'b2']}
    """
    streams: dict[K, list[T]] = {}
    for item in items:
        streams.setdefault(stream(item), []).append(item)
    # A stream's name is text in every use here; anything that compares will do.
    names: list[Any] = list(streams)
    return {name: streams[name] for name in sorted(names)}
