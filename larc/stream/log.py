"""A log of what was learned lately: a corrected label is learned as if it had come first."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from larc.learner import Episode
from larc.residual import Factors
from larc.stepping import Extras
from larc.stream.awaited import Pending
from larc.stream.plans import check_results, moves_of, planned_learning
from larc.stream.question import LabelIs, Labelled

if TYPE_CHECKING:
    from larc.stream.session import Session


@dataclass(frozen=True)
class Correction:
    """What became of a corrected label.

    Attributes
    ----------
    name
        The question's.
    before, after
        The label that was learned, and the right one.
    relearned
        How many batches of labels were learned again; 0 where the log does not reach back to it, or
        there is none: then the correction is recorded, and the states are what they were.
    """

    name: str
    before: LabelIs
    after: LabelIs
    relearned: int


@dataclass(frozen=True)
class Retraction:
    """What became of a label that was taken back.

    Attributes
    ----------
    name, before
        The question's name, and the label that was learned. The question awaits its label again.
    relearned
        How many batches of labels were learned again, without it.
    """

    name: str
    before: LabelIs
    relearned: int


class StatePoint(NamedTuple):
    """Where an episode was."""

    factors: Factors
    step: int
    stream: Mapping[str, Any]
    extras: Extras = Extras()

    @staticmethod
    def of(episode: Episode) -> StatePoint:
        """Return where an episode is."""
        stream = episode.stream.bit_generator.state
        return StatePoint(episode.factors, episode.step, stream, episode.extras)

    def put(self, episode: Episode) -> None:
        """Take an episode there, with a stream of its own."""
        stream = np.random.default_rng()
        stream.bit_generator.state = self.stream
        episode.factors, episode.step, episode.stream = self.factors, self.step, stream
        episode.extras = self.extras


@dataclass(frozen=True, eq=False)
class LearnedBatch:
    """Labels that were learned together, and where everything was before.

    Attributes
    ----------
    number
        Counts batches of a session.
    batch, values
        The questions as they were put, and their labels.
    before
        Where the strategies that learned were.
    prompter
        What the prompter remembered.
    """

    number: int
    batch: Mapping[str, Pending]
    values: Mapping[str, LabelIs]
    before: Mapping[str, StatePoint]
    prompter: Any = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes of the questions and of the factors."""
        questions = sum(pending.size for pending in self.batch.values())
        points = self.before.values()
        return questions + sum(4 * (p.factors.numbers + p.extras.numbers) for p in points)

    @property
    def labelled(self) -> list[Labelled]:
        """The questions with their labels, as a memory is told them."""
        return labelled_of(self.batch, self.values)


class LearningLog:
    """The last batches that were learned, as many as fit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries: deque[LearnedBatch] = deque()
        self.size = 0

    def add(self, entry: LearnedBatch) -> None:
        """Keep a batch, and forget the oldest that no longer fit."""
        if not self.limit:
            return
        self.entries.append(entry)
        self.size += entry.size
        while self.size > self.limit:
            self.size -= self.entries.popleft().size

    def reaching(self, name: str) -> list[LearnedBatch]:
        """Return the batches from the last one on that a name's label came with, if any is kept."""
        entries = list(self.entries)
        for number in reversed(range(len(entries))):
            if name in entries[number].values:
                return entries[number:]
        return []

    def replace_last(self, entries: Sequence[LearnedBatch]) -> None:
        """Put batches that were learned again where they were."""
        for _ in entries:
            self.size -= self.entries.pop().size
        for entry in entries:
            self.add(entry)


def labelled_of(batch: Mapping[str, Pending], values: Mapping[str, LabelIs]) -> list[Labelled]:
    """Return questions with their labels; of losses the first of the lowest is the label."""
    return [
        Labelled(batch[name].question, value if isinstance(value, int) else int(np.argmin(value)))
        for name, value in values.items()
    ]


def relabelled(entry: LearnedBatch, name: str, value: LabelIs | None) -> LearnedBatch:
    """Return a batch with another label of one name; without it where that is none."""
    if name not in entry.values:
        return entry
    if value is not None:
        return replace(entry, values={**entry.values, name: value})
    batch = {other: pending for other, pending in entry.batch.items() if other != name}
    values = {other: label for other, label in entry.values.items() if other != name}
    return replace(entry, batch=batch, values=values)


def relearn(session: Session, name: str, value: LabelIs | None) -> int:
    """Learn a label, or none, instead of the one it came with, and all that came after.

    All of it or nothing.

    Returns how many batches were learned again: 0 where the log does not reach back to it.
    """
    entries = session.log.reaching(name)
    if not entries:
        return 0
    states: dict[str, Episode] = {}
    for entry in entries:
        for strategy, point in entry.before.items():
            if strategy not in states:  # where it was before the first of these that it learned
                states[strategy] = session.episodes[strategy].fork()
                point.put(states[strategy])
    again: list[LearnedBatch] = []
    remembered = deepcopy(session.prompter.state())
    try:
        session.prompter.restore(deepcopy(entries[0].prompter))
        for entry in entries:
            entry = relabelled(entry, name, value)
            points = {strategy: StatePoint.of(states[strategy]) for strategy in entry.before}
            prompter = deepcopy(session.prompter.state())
            again.append(replace(entry, before=points, prompter=prompter))
            if not entry.values:  # its only label was taken back: no batch came
                continue
            learning = tuple(one for one in session.strategies if one.name in entry.before)
            plan = planned_learning(session, states, entry.batch, entry.values, learning)
            results = session.learner.update_many(plan.requests, refusals="return")
            check_results(plan, results)
            for strategy, (factors, _) in moves_of(plan, results).items():
                states[strategy] = plan.forks[strategy]
                states[strategy].factors = factors
            session.prompter.learn(again[-1].labelled)
    except BaseException:
        session.prompter.restore(remembered)
        raise
    for strategy, state in states.items():
        StatePoint.of(state).put(session.episodes[strategy])
    session.log.replace_last(again)
    return len(again)
