"""What the page of a stream shows: series, tables and sentences, from its log alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.evaluation.bootstrap import bootstrap_intervals
from larc.evaluation.calibration import expected_calibration_error, reliability
from larc.service.dashboard.drift import Alarm, alarms
from larc.service.dashboard.history import (
    Point,
    Roles,
    points,
    predictors,
    roles,
    rolled_back,
)
from larc.service.store.reading import snapshots, stream_answer
from larc.service.store.schema import evaluation, event
from larc.service.templates import MIXTURE

_LEVEL = 0.95
_BLOCKS = 20
_DRAWS = 1000
#: Rows of a chart's table.
_ROWS = 10


@dataclass(frozen=True)
class Gain:
    """Kept minus reset: the difference of mean losses, below zero where learning pays.

    ``lower`` and ``upper`` are a 95 % interval, labels drawn in twenty blocks of neighbours; None
    where there are too few.
    """

    labels: int
    estimate: float | None
    lower: float | None = None
    upper: float | None = None

    @property
    def verdict(self) -> str:
        """Whether learning pays, in a word or two.

        Examples
        --------
        >>> Gain(40, -0.1, -0.2, -0.05).verdict, Gain(40, 0.0, -0.1, 0.1).verdict
        ('pays', 'not clear yet')
        """
        if self.estimate is None:
            return "cannot be told"
        if self.lower is None or self.upper is None:
            return "too few labels"
        if self.upper < 0:
            return "pays"
        return "does not pay" if self.lower > 0 else "not clear yet"


def gain(history: Sequence[Point], parts: Roles) -> Gain:
    """Return kept minus reset over the labels that both answered."""
    kept, reset = parts.kept, parts.reset
    if kept is None or reset is None:
        return Gain(0, None)
    both = [
        one.losses[kept] - one.losses[reset]
        for one in history
        if kept in one.losses and reset in one.losses
    ]
    if not both:
        return Gain(0, None)
    blocks = np.array_split(np.array(both), min(_BLOCKS, len(both)))
    means = np.array([[block.mean()] for block in blocks])
    interval = bootstrap_intervals(
        means, ["log"] * len(means), seed=1, resamples=_DRAWS, level=_LEVEL
    )
    estimate, ends = float(np.mean(both)), (float(interval.lower[0]), float(interval.upper[0]))
    if not all(map(math.isfinite, ends)):
        return Gain(len(both), estimate)
    return Gain(len(both), estimate, *ends)


@dataclass(frozen=True)
class Regret:
    """How much more the mixture lost than each predictor, and the most that it can be.

    Both are the stream's own, of all labels that trust has learned from, and so of a rollback's
    past alone; ``worst`` is the regret against the best predictor. ``values`` has it after each
    label of the history, None before the last rollback.
    """

    against: dict[str, float]
    worst: float | None
    bound: float | None
    values: list[float | None]


@dataclass(frozen=True)
class Bin:
    """A bin of the reliability diagram."""

    lower: float
    upper: float
    predicted: float
    observed: float
    count: int


@dataclass(frozen=True)
class Delays:
    """How long labels took: quantiles in seconds, counts in bins, and the share without a label."""

    median: float | None
    p90: float | None
    longest: float | None
    bins: list[tuple[str, int]]
    unlabelled: float | None


_DELAY_BINS = (
    (1.0, "under 1 s"),
    (10.0, "1 to 10 s"),
    (60.0, "10 to 60 s"),
    (600.0, "1 to 10 min"),
    (3600.0, "10 to 60 min"),
    (86400.0, "1 to 24 h"),
    (math.inf, "over a day"),
)


@dataclass(frozen=True)
class Line:
    """A line of the loss chart: whose it is, its part, how it is called and drawn."""

    name: str
    part: str
    title: str
    colour: str


@dataclass(frozen=True)
class StreamView:
    """Everything on the page of a stream but its questions."""

    stream: dict[str, Any]
    parts: Roles
    history: list[Point]
    names: list[str]
    best: str | None
    gain: Gain
    regret: Regret
    bins: list[Bin]
    calibration: float | None
    delays: Delays
    alarms: list[Alarm]
    snapshots: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]

    @property
    def shown(self) -> list[Line]:
        """The lines of the loss chart."""
        lines = [Line(MIXTURE, "mixture", "mixture", "--s0")]
        for name, part, title, colour in (
            (self.parts.kept, "kept", "kept", "--s1"),
            (self.parts.reset, "reset", "reset", "--s2"),
            (self.parts.sham, "sham", "sham", "--s3"),
            (self.best, "best", "best expert", "--s6"),
        ):
            if name not in self.names or name is None:
                continue
            same = next((one for one in lines if one.name == name), None)
            if same is None:
                shown = title if title == name else f"{title} ({name})"
                lines.append(Line(name, part, shown, colour))
            else:
                lines[lines.index(same)] = replace(same, title=f"{same.title}, {title}")
        return lines


def stream_view(connection: Connection, row: Row[Any]) -> StreamView:
    """Return what is shown of a stream."""
    history = points(connection, row.id)
    parts = roles(json.loads(row.spec))
    names = predictors(history)
    stream = stream_answer(row)
    measured = reliability_of(history)
    return StreamView(
        stream=stream,
        parts=parts,
        history=history,
        names=names,
        best=best_of(history, names),
        gain=gain(history, parts),
        regret=regret(json.loads(row.summary), history, rolled_back(connection, row.id)),
        bins=measured[0],
        calibration=measured[1],
        delays=delays(connection, row, history),
        alarms=alarms(history),
        snapshots=snapshots(connection, row.id),
        evaluations=_evaluations(connection, row.id),
    )


def best_of(history: Sequence[Point], names: Sequence[str]) -> str | None:
    """Return the predictor with the lowest mean loss among those that answered half or more."""
    sums = {name: [one.losses[name] for one in history if name in one.losses] for name in names}
    often = {n: sum(v) / len(v) for n, v in sums.items() if 2 * len(v) >= len(history) and v}
    return min(often, key=often.__getitem__, default=None)


def regret(summary: Mapping[str, Any], history: Sequence[Point], rolled_back: int) -> Regret:
    """Return the regret as it is, and as it was after each label: counted back from now."""
    current: dict[str, float] = dict(summary.get("regrets", {}))
    values: list[float | None] = []
    left = dict(current)
    for one in reversed(history):
        if one.asked_seq <= rolled_back:
            values.append(None)
            continue
        values.append(max(left.values(), default=None))
        if one.judged:
            left = {name: value - one.gains.get(name, 0.0) for name, value in left.items()}
    worst = max(current.values(), default=None)
    return Regret(current, worst, summary.get("bound"), values[::-1])


def reliability_of(history: Sequence[Point]) -> tuple[list[Bin], float | None]:
    """Return how often the mixture's first choice was right, by how sure it was."""
    if not history:
        return [], None
    tops = np.array([min(one.top, 1.0) for one in history])
    measured = reliability(
        np.stack([tops, 1 - tops], axis=1), [0 if one.hit else 1 for one in history], of_class=0
    )
    rows = zip(
        measured.edges[:-1],
        measured.edges[1:],
        measured.predicted,
        measured.observed,
        measured.count,
        strict=True,
    )
    bins = [
        Bin(float(lower), float(upper), float(predicted), float(observed), int(count))
        for lower, upper, predicted, observed, count in rows
        if count
    ]
    return bins, expected_calibration_error(measured)


def delays(connection: Connection, row: Row[Any], history: Sequence[Point]) -> Delays:
    """Return how long labels took to come."""
    waits = [max(0.0, one.labelled_at - one.asked_at) for one in history]
    counts = [0] * len(_DELAY_BINS)
    for wait in waits:
        counts[next(i for i, (edge, _) in enumerate(_DELAY_BINS) if wait < edge)] += 1
    bins = [(name, count) for (_, name), count in zip(_DELAY_BINS, counts, strict=True)]
    share = None if not row.asked else 1 - row.labelled / row.asked
    if not waits:
        return Delays(None, None, None, bins, share)
    middle, most = np.quantile(waits, [0.5, 0.9]).tolist()
    return Delays(middle, most, max(waits), bins, share)


def _evaluations(connection: Connection, number: int) -> list[dict[str, Any]]:
    rows = connection.execute(
        sa.select(evaluation)
        .where(evaluation.c.stream == number)
        .order_by(evaluation.c.created_at.desc())
        .limit(3)
    )
    return [
        {"id": r.id, "status": r.status, "result": json.loads(r.body), "created_at": r.created_at}
        for r in rows
    ]


# For charts and their tables ---------------------------------------------------------------------


def series(view: StreamView) -> dict[str, Any]:
    """Return what the charts draw: a column for each line, rounded to what can be seen."""
    history = view.history
    first = view.stream["labelled"] - len(history)
    return {
        "seq": view.stream["applied_seq"],
        "labels": [max(first, 0) + n + 1 for n in range(len(history))],
        "lines": [asdict(one) for one in view.shown],
        "losses": {
            line.name: [_rounded(one.losses.get(line.name)) for one in history]
            for line in view.shown
        },
        "weights": {
            name: [_rounded(one.weights.get(name, 0.0)) for one in history] for name in view.names
        },
        "regret": [_rounded(value) for value in view.regret.values],
        "bound": view.regret.bound,
        "alarms": [one.began_at for one in view.alarms],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 5)


def blocks(view: StreamView) -> list[dict[str, Any]]:
    """Return means over some blocks of neighbouring labels: what the charts show, as a table."""
    if not view.history:
        return []
    first = max(view.stream["labelled"] - len(view.history), 0)
    rows, start = [], 0
    for part in np.array_split(np.arange(len(view.history)), min(_ROWS, len(view.history))):
        chosen = [view.history[i] for i in part]
        rows.append(
            {
                "from": first + start + 1,
                "to": first + start + len(chosen),
                "losses": {
                    line.name: mean([one.losses.get(line.name) for one in chosen])
                    for line in view.shown
                },
                "weights": {
                    name: mean([one.weights.get(name, 0.0) for one in chosen])
                    for name in view.names
                },
            }
        )
        start += len(chosen)
    return rows


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values there are.

    Examples
    --------
    >>> mean([1.0, None, 2.0]), mean([None])
    (1.5, None)
    """
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def oldest_awaited(connection: Connection, number: int, after: int) -> tuple[int, float] | None:
    """Return the number and time of the first question after an event that awaits its label."""
    row = connection.execute(
        sa.select(event.c.seq, event.c.received_at)
        .where(
            event.c.stream == number,
            event.c.seq > after,
            event.c.kind == "question",
            event.c.status == "awaited",
        )
        .order_by(event.c.seq)
        .limit(1)
    ).one_or_none()
    return None if row is None else (row.seq, row.received_at)
