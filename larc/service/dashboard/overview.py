"""What the first page shows: how the server does, and for which streams learning pays."""

from __future__ import annotations

import json
import math
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.auth import Principal
from larc.service.dashboard.drift import alarms
from larc.service.dashboard.history import points, roles
from larc.service.dashboard.streams import Gain, gain, oldest_awaited
from larc.service.engine import Engine
from larc.service.metrics import Metrics
from larc.service.store.database import now
from larc.service.store.reading import list_streams, matching, stream_answer
from larc.service.store.schema import stream
from larc.service.templates import MIXTURE

#: Streams on one page.
PAGE = 50
#: Rates are means over so many seconds.
_SPAN = 60.0
_REMEMBERED = 4096
_ASK = "/v1/streams/{stream}/questions"


@dataclass(frozen=True)
class StreamLine:
    """A stream in the list."""

    stream: dict[str, Any]
    loss: float | None
    gain: Gain
    alarm: bool
    oldest_s: float | None


@dataclass(frozen=True)
class ServerNumbers:
    """How this process does, from its counters.

    Rates are over the last ``span_s`` seconds; latencies are upper edges of histogram bins.
    """

    span_s: float
    questions: float
    labels: float
    latency: dict[str, float | None]
    rounds: int
    fill: float | None
    together: int
    refused: int
    duplicates: int
    waiting: int
    live: int


@dataclass(frozen=True)
class Overview:
    """The first page."""

    streams: list[StreamLine]
    after: str | None
    count: int
    asked: int
    labelled: int
    awaited: int
    oldest_s: float | None
    server: ServerNumbers


@dataclass
class Memory:
    """What pages remember between two looks, so that a look costs what is new only."""

    samples: deque[tuple[float, float, float]] = field(default_factory=deque)
    lines: OrderedDict[int, tuple[int, Gain, bool]] = field(default_factory=OrderedDict)
    oldest: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def judged(self, connection: Connection, row: Row[Any]) -> tuple[Gain, bool]:
        """Return whether learning pays in a stream, and whether it drifts now."""
        known = self.lines.get(row.id)
        if known is not None and known[0] == row.applied_seq:
            return known[1:]
        history = points(connection, row.id)
        told = gain(history, roles(json.loads(row.spec))), any(a.lasts for a in alarms(history))
        _remember(self.lines, row.id, (row.applied_seq, *told))
        return told

    def waits(self, connection: Connection, row: Row[Any]) -> float | None:
        """Return how long the oldest question of a stream has awaited its label."""
        if not row.awaited:
            return None
        # Whoever has a label keeps it: before the oldest of the last look there is none.
        first = oldest_awaited(connection, row.id, self.oldest.get(row.id, 0))
        if first is None:
            return None
        seq, since = first
        _remember(self.oldest, row.id, seq - 1)
        return max(0.0, now(connection) - since)

    def rates(self, metrics: Metrics, at: float | None = None) -> tuple[float, float, float]:
        """Return questions and labels a second, and over how many seconds.

        Examples
        --------
        >>> metrics, memory = Metrics(), Memory()
        >>> memory.rates(metrics, at=0.0)
        (0.0, 0.0, 0.0)
        >>> metrics.taken.labels("question", "new").inc(5)
        >>> memory.rates(metrics, at=10.0)
        (0.5, 0.0, 10.0)
        """
        at = time.monotonic() if at is None else at
        asked = total(metrics.taken, kind="question", **{"as": "new"})
        labelled = total(metrics.taken, kind="label", **{"as": "new"})
        if not self.samples or at - self.samples[-1][0] >= 1:
            self.samples.append((at, asked, labelled))
        while len(self.samples) > 2 and at - self.samples[1][0] >= _SPAN:
            self.samples.popleft()
        since, questions, labels = self.samples[0]
        span = at - since
        if span <= 0:
            return 0.0, 0.0, 0.0
        return (asked - questions) / span, (labelled - labels) / span, span


def _remember(memory: OrderedDict[int, Any], number: int, value: Any) -> None:
    memory[number] = value
    memory.move_to_end(number)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)


def total(metric: Any, **labels: str) -> float:
    """Return the sum of a counter over all that have some labels.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.taken.labels("label", "again").inc()
    >>> total(metrics.taken, **{"as": "again"})
    1.0
    """
    return math.fsum(
        sample.value
        for family in metric.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
    )


def quantiles(metric: Any, shares: Iterable[float], **labels: str) -> list[float | None]:
    """Return the upper edges of the bins of a histogram in which some quantiles lie.

    Examples
    --------
    >>> metrics = Metrics()
    >>> for _ in range(99):
    ...     metrics.batch.observe(3)
    >>> metrics.batch.observe(100)
    >>> quantiles(metrics.batch, [0.5, 0.999])
    [4.0, 128.0]
    """
    edges: list[tuple[float, float]] = []
    for family in metric.collect():
        for sample in family.samples:
            here = {name: value for name, value in sample.labels.items() if name != "le"}
            if sample.name.endswith("_bucket") and labels.items() <= here.items():
                edges.append((float(sample.labels["le"]), sample.value))
    edges.sort()
    count = edges[-1][1] if edges else 0
    if not count:
        return [None for _ in shares]
    return [next(edge for edge, below in edges if below >= share * count) for share in shares]


def server_numbers(engine: Engine, memory: Memory) -> ServerNumbers:
    """Return how the process does."""
    metrics = engine.metrics
    questions, labels, span = memory.rates(metrics)
    shares = {"median": 0.5, "95 %": 0.95, "99 %": 0.99}
    latency = quantiles(metrics.seconds, shares.values(), route=_ASK)
    samples = {s.name: s.value for f in metrics.batch.collect() for s in f.samples}
    rounds = int(samples["larc_batch_size_count"])
    return ServerNumbers(
        span_s=span,
        questions=questions,
        labels=labels,
        latency=dict(zip(shares, latency, strict=True)),
        rounds=rounds,
        fill=samples["larc_batch_size_sum"] / rounds if rounds else None,
        together=engine.settings.together,
        refused=int(total(metrics.events, result="refused")),
        duplicates=int(total(metrics.taken, **{"as": "again"})),
        waiting=engine.waiting,
        live=int(next(iter(metrics.live.collect())).samples[0].value),
    )


def overview(
    connection: Connection, engine: Engine, memory: Memory, who: Principal, after: str
) -> Overview:
    """Return the first page, of the streams that are a token's."""
    rows = list_streams(connection, who.streams, after, PAGE)
    lines = [_line(connection, memory, row) for row in rows]
    sums = connection.execute(
        sa.select(
            sa.func.count(),
            sa.func.coalesce(sa.func.sum(stream.c.asked), 0),
            sa.func.coalesce(sa.func.sum(stream.c.labelled), 0),
            sa.func.coalesce(sa.func.sum(stream.c.awaited), 0),
        ).where(matching(who.streams, connection.dialect.name))
    ).one()
    waits = [line.oldest_s for line in lines if line.oldest_s is not None]
    count, asked, labelled, awaited = map(int, sums)
    return Overview(
        streams=lines,
        after=rows[-1].name if len(rows) == PAGE else None,
        count=count,
        asked=asked,
        labelled=labelled,
        awaited=awaited,
        oldest_s=max(waits, default=None),
        server=server_numbers(engine, memory),
    )


def _line(connection: Connection, memory: Memory, row: Row[Any]) -> StreamLine:
    shown = stream_answer(row)
    told = {**shown["risks"], **shown["losses"]}.get(MIXTURE)
    loss = told["sum"] / told["count"] if told and told["count"] else None
    pays, drifts = memory.judged(connection, row)
    return StreamLine(shown, loss, pays, drifts, memory.waits(connection, row))


def interval_scale(lines: Sequence[StreamLine]) -> float:
    """Return the half width of the axis on which all intervals of a list are drawn.

    Examples
    --------
    >>> interval_scale([])
    0.05
    """
    ends = [
        abs(end)
        for line in lines
        for end in (line.gain.estimate, line.gain.lower, line.gain.upper)
        if end is not None and math.isfinite(end)
    ]
    return max([0.05, *ends])
