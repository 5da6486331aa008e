"""HEDGE4 along a queue: what it said is kept until its label arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from larc.ci.experts import Arrival, Forecast, Hedge4, HedgeSettings
from larc.ci.jobs import Job
from larc.errors import LarcError
from larc.stream.queue import Ask, order_events


@dataclass(frozen=True, slots=True)
class Prediction:
    """A job, and what was said about it when it started."""

    job: Job
    forecast: Forecast


class HedgeReplay:
    """HEDGE4, and its forecasts of the jobs that have started and not yet completed.

    :meth:`ask` and :meth:`arrive` take the two kinds of events of a queue, one at a time, for
    callers that do something else beside; :meth:`follow` takes a whole queue.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    >>> replay = HedgeReplay()
    >>> [forecast] = replay.ask([job])
    >>> list(replay.pending), replay.hedge.losses
    ([1], (0.0, 0.0, 0.0, 0.0))
    >>> replay.arrive([job])
    >>> list(replay.pending), replay.hedge.losses
    ([], (0.375, 0.375, 0.375, 0.375))
    """

    __slots__ = ("hedge", "pending")

    def __init__(self, settings: HedgeSettings | None = None) -> None:
        self.hedge = Hedge4(settings)
        self.pending: dict[int, Forecast] = {}

    def ask(self, jobs: Sequence[Job]) -> list[Forecast]:
        """Return the forecasts of jobs that start now, from the labels that have arrived."""
        forecasts = [self.hedge.predict(job.observation) for job in jobs]
        self.pending.update(zip((job.job_id for job in jobs), forecasts, strict=True))
        return forecasts

    def arrive(self, jobs: Sequence[Job]) -> None:
        """Learn from the labels of jobs that complete together, in the order of their ids."""
        for job in jobs:
            if job.job_id not in self.pending:
                raise LarcError(f"the label of job {job.job_id} arrived, but it was never asked.")
        self.hedge.update(
            [Arrival(job.observation, self.pending.pop(job.job_id), job.label) for job in jobs]
        )

    def follow(self, jobs: Iterable[Job]) -> Iterator[Prediction]:
        """Yield a prediction for every job of one queue, in causal order.

        It learns as it is read: the history is learned once the last prediction was taken.
        """
        for event in order_events(
            jobs,
            asked=lambda job: job.started_at,
            arrives=lambda job: job.completed_at,
            identifier=lambda job: job.job_id,
        ):
            if isinstance(event, Ask):
                yield from map(Prediction, event.items, self.ask(event.items))
            else:
                self.arrive(event.items)

    def state(self) -> dict[str, Any]:
        """Return everything as JSON values; lists of numbers keep every bit of their arrays.

        Examples
        --------
        >>> sorted(HedgeReplay().state())
        ['forecasts', 'hedge']
        """
        hedge = self.hedge.state()
        return {
            "hedge": {**hedge, "logistic": hedge["logistic"].tolist()},
            "forecasts": {str(n): [f.mixture, f.experts] for n, f in self.pending.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> HedgeReplay:
        """Return the replay of a state; it goes on exactly where that one was."""
        replay = cls()
        try:
            replay.hedge = Hedge4.from_state(state["hedge"])
            for name, (mixture, experts) in state["forecasts"].items():
                parts: Any = [tuple(expert) for expert in experts]  # four, as they were saved
                replay.pending[int(name)] = Forecast(tuple(mixture), tuple(parts))
        except LarcError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LarcError(f"this state of HEDGE4's replay is damaged: {error!r}.") from error
        return replay


def hedge_after(jobs: Iterable[Job], settings: HedgeSettings | None = None) -> HedgeReplay:
    """Return HEDGE4 as it is when all labels of a history have arrived.

    Histories of several repositories are pooled: one HEDGE4 learns from all of them.
    """
    replay = HedgeReplay(settings)
    for _ in replay.follow(jobs):
        pass
    return replay
