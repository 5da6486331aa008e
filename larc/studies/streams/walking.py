"""Walking through several streams at once: what is asked, what arrives, and what was said.

Streams are independent, so the next event of each can be taken together: a player answers and
learns in one physical batch. The order within a stream is that of its clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from larc.io.parquet import to_parquet
from larc.progress import Display
from larc.runs.stopping import stoppable
from larc.stream.question import Recorded
from larc.stream.queue import Ask
from larc.studies.replay import ordered
from larc.studies.streams.split import Stream

#: What a player says to one question, by the name of who says it.
Said = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Asked:
    """A question of one stream, which is asked now."""

    stream: int
    number: int
    item: Recorded


@dataclass(frozen=True)
class Arrived:
    """Labels of one stream that arrive together; ``fresh`` are those asked since its middle."""

    stream: int
    items: Sequence[Recorded]
    fresh: Sequence[Recorded]


class Player(Protocol):
    """Who answers several streams and learns from their labels, each by itself."""

    def ask(self, asked: Sequence[Asked]) -> Sequence[Said]:
        """Answer questions of several streams, asked now."""

    def learn(self, arrived: Sequence[Arrived]) -> None:
        """Learn from labels of several streams, which arrive now."""

    def turn(self, stream: int) -> None:
        """Take note that the middle of a stream is reached."""


def walk(
    streams: Sequence[Stream], player: Player, display: Display, unit: str
) -> list[dict[str, Any]]:
    """Play streams side by side, and return a row for everything that was said.

    A row has the stream, the question's name, number and label, how many labels of the stream had
    arrived when it was asked, who answered, and the probabilities.
    """
    events = [list(ordered(stream)) for stream in streams]
    middles = [len(stream) // 2 for stream in streams]
    asked_so_far = [0] * len(streams)
    seen = [0] * len(streams)
    late: list[set[str]] = [set() for _ in streams]  # names asked since the middle
    rows: list[dict[str, Any]] = []
    longest = max(map(len, events))
    display.unit(unit, longest, 0)
    with stoppable() as stopped:
        for position in range(longest):
            asks: list[Asked] = []
            arrivals: list[Arrived] = []
            for stream, mine in enumerate(events):
                if position >= len(mine):
                    continue
                event = mine[position]
                if not isinstance(event, Ask):
                    fresh = [item for item in event.items if item.name in late[stream]]
                    arrivals.append(Arrived(stream, event.items, fresh))
                    continue
                before = asked_so_far[stream]
                if before >= middles[stream] and not late[stream]:
                    player.turn(stream)
                for number, item in enumerate(event.items, start=before):
                    asks.append(Asked(stream, number, item))
                    if before >= middles[stream]:
                        late[stream].add(item.name)
                asked_so_far[stream] += len(event.items)
            for asked, policies in zip(asks, player.ask(asks) if asks else (), strict=True):
                facts = {
                    "stream": asked.item.stream,
                    "name": asked.item.name,
                    "number": asked.number,
                    "seen": seen[asked.stream],
                    "label": asked.item.label,
                }
                rows += [
                    {**facts, "path": path, "policy": [float(p) for p in policy]}
                    for path, policy in policies.items()
                ]
            if arrivals:
                player.learn(arrivals)
                for arrived in arrivals:
                    seen[arrived.stream] += len(arrived.items)
            display.update(position + 1)
            if stopped():
                raise KeyboardInterrupt
    return rows


def rows_content(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as Parquet."""
    return to_parquet([dict(row) for row in rows])
