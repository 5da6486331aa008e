"""A drift alarm: the mixture loses more than it used to, and what changed with it.

The test is Page and Hinkley's, on losses in units of their standard deviation: of every label's
loss, the mean before it and a quarter of a standard deviation are taken away, and the sum of what
is left, which never falls below zero, is compared with 22. Mean and deviation follow the last 200
labels or so. On 200,000 drawn losses that do not change, normal ones raised one false alarm, and
those of which a tenth is high and the rest low twenty; a rise by one standard deviation was noticed
after some 30 labels.

One episode has one alarm: it lasts until the mean of the last 30 losses is back within a quarter of
a standard deviation of what it was, or for 200 labels, after which the new loss is what is usual.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from larc.service.dashboard.history import Point
from larc.service.templates import MIXTURE

#: What a loss may exceed the mean by without adding up, in standard deviations.
SLACK = 0.25
#: The sum that is an alarm, in standard deviations.
THRESHOLD = 22
#: Labels that mean and deviation follow, those before anything is judged, and those of a window.
MEMORY, FIRST, WINDOW = 200, 30, 30
#: After so many labels a loss is usual.
LONGEST = 200
#: Where all losses are nearly alike, less than this is no change worth an alarm.
LEAST_DEVIATION = 0.02


@dataclass(frozen=True)
class Episode:
    """A time in which a stream lost more than before.

    Attributes
    ----------
    start, alarm, end
        Positions among the losses: where the rise began, where it was noticed, and the first
        after it; None while it lasts.
    usual
        The mean loss before.
    """

    start: int
    alarm: int
    end: int | None
    usual: float


def episodes(losses: Sequence[float]) -> list[Episode]:
    """Return the episodes among losses, in order; only the last may still last.

    Examples
    --------
    >>> calm = [0.1, 0.2] * 100
    >>> episodes(calm)
    []
    >>> episodes(calm + [0.6] * 20)
    [Episode(start=199, alarm=202, end=None, usual=0.15...)]
    """
    ended: list[Episode] = []
    current: Episode | None = None
    mean = variance = total = 0.0
    count = start = 0
    deviation = LEAST_DEVIATION
    for position, loss in enumerate(losses):
        if current is not None:
            recent = losses[max(current.alarm, position - WINDOW + 1) : position + 1]
            back = (
                len(recent) == WINDOW and sum(recent) / WINDOW <= current.usual + SLACK * deviation
            )
            if back or position - current.alarm >= LONGEST:
                ended.append(Episode(current.start, current.alarm, position, current.usual))
                current, total = None, 0.0
                if not back:  # what is usual now is learned from here on
                    mean, variance, count = sum(recent) / len(recent), variance, FIRST
            continue
        if count >= FIRST:
            deviation = max(math.sqrt(variance), LEAST_DEVIATION)
            if total == 0.0:
                start = position
            total = max(0.0, total + (loss - mean) / deviation - SLACK)
            if total > THRESHOLD:
                current = Episode(start, position, None, mean)
                continue
        count += 1
        rate = max(1 / count, 1 / MEMORY)
        change = loss - mean
        mean += rate * change
        variance = (1 - rate) * (variance + rate * change * change)
    return [*ended, current] if current is not None else ended


@dataclass(frozen=True)
class Change:
    """One thing that is different in an episode: before and in it."""

    what: str
    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Alarm:
    """An episode as it is shown: when, how much, and what changed most."""

    began_at: float
    noticed_at: float
    ended_at: float | None
    labels: int
    before: float
    after: float
    changes: tuple[Change, ...]

    @property
    def lasts(self) -> bool:
        """Whether it lasts."""
        return self.ended_at is None

    @property
    def most(self) -> Change | None:
        """What changed most."""
        return max(self.changes, key=lambda one: abs(one.after - one.before), default=None)


def alarms(history: Sequence[Point]) -> list[Alarm]:
    """Return the alarms of a stream, the last one first."""
    losses = [one.losses[MIXTURE] for one in history]
    return [_alarm(history, one) for one in reversed(episodes(losses))]


def _alarm(history: Sequence[Point], episode: Episode) -> Alarm:
    before = history[max(0, episode.start - LONGEST) : episode.start]
    after = history[episode.start : episode.end]
    return Alarm(
        began_at=history[episode.start].labelled_at,
        noticed_at=history[episode.alarm].labelled_at,
        ended_at=None if episode.end is None else history[episode.end].labelled_at,
        labels=len(after),
        before=_mean([one.losses[MIXTURE] for one in before]),
        after=_mean([one.losses[MIXTURE] for one in after]),
        changes=tuple(changes(before, after)),
    )


def changes(before: Sequence[Point], after: Sequence[Point]) -> list[Change]:
    """Return what changed between two times, the most first of each kind.

    Shares of labels, trust in predictors, and their losses; those that moved by less than a
    twentieth are left out.
    """
    listed: list[Change] = []
    shares = [Counter(one.label for one in part) for part in (before, after)]
    for kind, rows in (
        (
            "label",
            [
                (name, shares[0][name] / max(len(before), 1), shares[1][name] / max(len(after), 1))
                for name in shares[0] | shares[1]
            ],
        ),
        ("trust", _moved([one.weights for one in before], [one.weights for one in after])),
        ("loss", _moved([one.losses for one in before], [one.losses for one in after])),
    ):
        rows = [row for row in rows if abs(row[2] - row[1]) >= 0.05 and row[0] != MIXTURE]
        rows.sort(key=lambda row: -abs(row[2] - row[1]))
        listed += [Change(kind, *row) for row in rows[:3]]
    return listed


Named = Sequence[Mapping[str, float]]


def _moved(before: Named, after: Named) -> list[tuple[str, float, float]]:
    names = dict.fromkeys(name for part in (before, after) for one in part for name in one)
    return [(name, _of(before, name), _of(after, name)) for name in names]


def _of(rows: Named, name: str) -> float:
    return _mean([row[name] for row in rows if name in row])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
