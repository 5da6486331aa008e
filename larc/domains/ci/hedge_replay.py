"""HEDGE4 along a queue: what it said is kept until its label arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from larc.domains.ci.experts import EXPERTS, Arrival, Hedge4, HedgeForecast, HedgeSettings
from larc.domains.ci.jobs import Job
from larc.errors import LarcError
from larc.stream.question import Labelled, Question
from larc.stream.queue import Ask, order_events

HEDGE = "HEDGE4"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A job, and what was said about it when it started."""

    job: Job
    forecast: HedgeForecast


class HedgeReplay:
    """HEDGE4, and its forecasts of the jobs that have started and not yet completed.

    :meth:`ask` and :meth:`learn` take the two kinds of events of a queue, one at a time, for
    callers that do something else beside; :meth:`follow` takes a whole queue.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    >>> replay = HedgeReplay()
    >>> [forecast] = replay.ask([job])
    >>> list(replay.pending), replay.hedge.losses
    ([1], (0.0, 0.0, 0.0, 0.0))
    >>> replay.learn([job])
    >>> list(replay.pending), replay.hedge.losses
    ([], (0.375, 0.375, 0.375, 0.375))
    """

    __slots__ = ("hedge", "pending")

    def __init__(self, settings: HedgeSettings | None = None) -> None:
        self.hedge = Hedge4(settings)
        self.pending: dict[int, HedgeForecast] = {}

    def ask(self, jobs: Sequence[Job]) -> list[HedgeForecast]:
        """Return the forecasts of jobs that start now, from the labels that have arrived."""
        forecasts = [self.hedge.predict(job.observation) for job in jobs]
        self.pending.update(zip((job.job_id for job in jobs), forecasts, strict=True))
        return forecasts

    def learn(self, jobs: Sequence[Job]) -> None:
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
                self.learn(event.items)

    def state(self) -> dict[str, Any]:
        """Return everything as JSON values; lists of numbers keep every bit of their arrays.

        Examples
        --------
        >>> sorted(HedgeReplay().state())
        ['forecasts', 'hedge']
        """
        return _state(self.hedge, self.pending)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> HedgeReplay:
        """Return the replay of a state; it goes on exactly where that one was."""
        replay = cls()
        replay.hedge, pending = _restored(state)
        for name, forecast in pending.items():
            if not (name.isascii() and name.isdigit()):
                raise LarcError(f"HEDGE4's state awaits a job called {name!r}; jobs are numbers.")
            replay.pending[int(name)] = forecast
        return replay


def hedge_after(jobs: Iterable[Job], settings: HedgeSettings | None = None) -> HedgeReplay:
    """Return HEDGE4 as it is when all labels of a history have arrived.

    Histories of several repositories are pooled: one HEDGE4 learns from all of them.
    """
    replay = HedgeReplay(settings)
    for _ in replay.follow(jobs):
        pass
    return replay


class HedgeExpert:
    """HEDGE4 and its experts beside the states of a stream of jobs.

    Examples
    --------
    >>> from larc.domains.ci import Observation
    >>> from larc.domains.ci.prompter import job_question
    >>> expert = HedgeExpert(Hedge4())
    >>> question = job_question(7, Observation("o/r", 5, None, "push", "build", "aa", 10))
    >>> expert.ask([question])["HEDGE4"]
    [(0.25, 0.25, 0.25, 0.25)]
    >>> expert.learn([Labelled(question, 1)])
    >>> expert.hedge.losses
    (0.375, 0.375, 0.375, 0.375)
    """

    names = (HEDGE, *EXPERTS)

    def __init__(self, hedge: Hedge4) -> None:
        self.hedge = hedge
        self.pending: dict[str, HedgeForecast] = {}

    def ask(self, questions: Sequence[Question]) -> dict[str, list[Sequence[float]]]:
        """Return what HEDGE4 and each expert say to questions asked now."""
        forecasts = [self.hedge.predict(question.source) for question in questions]
        self.pending.update(zip((q.name for q in questions), forecasts, strict=True))
        answers: dict[str, list[Sequence[float]]] = {HEDGE: [f.mixture for f in forecasts]}
        for number, expert in enumerate(EXPERTS):
            answers[expert] = [f.experts[number] for f in forecasts]
        return answers

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Learn from labels that arrive together, in the order of their questions' names."""
        batch = sorted(labelled, key=lambda one: one.question.name)
        self.hedge.update(
            [
                Arrival(question.source, self.pending.pop(question.name), label)
                for question, label in batch
                if question.name in self.pending  # held history was never asked
            ]
        )

    def state(self) -> dict[str, Any]:
        """Return everything as JSON values; lists of numbers keep every bit of their arrays."""
        return _state(self.hedge, self.pending)

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""
        self.hedge, pending = _restored(state)
        # Version 0.1 kept jobs by their numbers, whose names begin with zeros.
        self.pending = {name.rjust(20, "0"): forecast for name, forecast in pending.items()}


def _state(hedge: Hedge4, pending: Mapping[Any, HedgeForecast]) -> dict[str, Any]:
    saved = hedge.state()
    return {
        "hedge": {**saved, "logistic": saved["logistic"].tolist()},
        "forecasts": {str(name): [f.mixture, f.experts] for name, f in pending.items()},
    }


def _restored(state: Mapping[str, Any]) -> tuple[Hedge4, dict[str, HedgeForecast]]:
    pending = {}
    try:
        hedge = Hedge4.from_state(state["hedge"])
        for name, (mixture, experts) in state["forecasts"].items():
            parts: Any = [tuple(expert) for expert in experts]  # four, as they were saved
            pending[str(name)] = HedgeForecast(tuple(mixture), tuple(parts))
    except LarcError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise LarcError(f"this state of HEDGE4's replay is damaged: {error!r}.") from error
    return hedge, pending
