"""Which predictors are worth their cost now: those ruled out sleep, and are woken to be tried.

A predictor serves terms of so many labels. It is judged at the end of a term, and sleeps if its
mean weight was below a floor, it lost at least as much as the forecaster over the term, and no
context that has had a term's labels of its own trusts it now. After a nap, counted in labels, it
serves another term: each nap is twice as long as the last, until it earns its floor. All of it
follows from the labels; nothing is drawn at random.

While it sleeps a predictor keeps its weight, as if it lost what the forecaster loses, and shares
raise it. No bound gets worse; but what is promised against a predictor is promised only over the
questions that it answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.stream.mixing.brier_game import Floats


@dataclass(frozen=True)
class SleepSettings:
    """When predictors sleep.

    Attributes
    ----------
    floor
        The mean weight that keeps a predictor awake; below one over their number.
    term
        The labels after which it is judged.
    first, longest
        The first nap, and the longest, in labels.
    """

    floor: float = 0.01
    term: int = 64
    first: int = 64
    longest: int = 4096

    def __post_init__(self) -> None:
        if not (0 < self.floor < 1 and self.term > 0 and 0 < self.first <= self.longest):
            raise LarcError("sleep needs a floor between 0 and 1, a term, and first up to longest.")


class SleepSchedule:
    """Who is awake.

    Parameters
    ----------
    predictors
        How many there are.
    sleep
        When they sleep; ``None`` for never.
    free
        Those that cost nothing and never sleep.

    Examples
    --------
    >>> schedule = SleepSchedule(2, SleepSettings(term=2, first=3), free=[])
    >>> weights, gains = np.array([1.0, 0.0]), np.array([0.0, -1.0])
    >>> for _ in range(6):
    ...     answered = schedule.awake * 1.0
    ...     schedule.learn(answered, weights, gains * answered, lambda: np.zeros(2))
    ...     print(schedule.awake)
    [ True  True]
    [ True False]
    [ True False]
    [ True False]
    [ True  True]
    [ True  True]
    """

    def __init__(self, predictors: int, sleep: SleepSettings | None, free: list[int]) -> None:
        if sleep is not None and sleep.floor * predictors >= 1:
            raise LarcError(f"a floor of {sleep.floor} would put all to sleep; lower it.")
        self.sleep = sleep
        self.awake: NDArray[np.bool_] = np.ones(predictors, dtype=bool)
        self.labels = 0
        self._may = np.ones(predictors, dtype=bool)
        self._may[free] = False
        # Of the term being served: labels, weights and what it gained on the forecaster.
        self._served: Floats = np.zeros((3, predictors))
        self._nap: list[int] = [sleep.first if sleep else 0] * predictors
        self._until: list[int] = [0] * predictors
        self._next = sleep.term if sleep else 0

    def learn(
        self, answered: Floats, weights: Floats, gains: Floats, peaks: Callable[[], Floats]
    ) -> None:
        """Take in a label.

        Parameters
        ----------
        answered
            One for who had answered the question, zero for others.
        weights, gains
            What weight they had, and how much more the forecaster lost than each; zero for others.
        peaks
            Gives each predictor's greatest weight in any context that has a term's labels.
        """
        if self.sleep is None:
            return
        self.labels += 1
        self._served[0] += answered
        self._served[1] += weights
        self._served[2] += gains
        if self.labels >= self._next:
            self._look(self.sleep, peaks)

    def _look(self, sleep: SleepSettings, peaks: Callable[[], Floats]) -> None:
        for index, awake in enumerate(self.awake.tolist()):
            if awake and self._served[0, index] >= sleep.term:
                self._judge(index, sleep, peaks)
                self._served[:, index] = 0.0
            elif not awake and self.labels >= self._until[index]:
                self.awake[index] = True
                self._served[:, index] = 0.0
        self._plan(sleep)

    def _plan(self, sleep: SleepSettings) -> None:
        """Find the first label at which a nap or a term can end."""
        self._next = min(
            self.labels + sleep.term - int(self._served[0, index]) if awake else self._until[index]
            for index, awake in enumerate(self.awake.tolist())
        )

    def _judge(self, index: int, sleep: SleepSettings, peaks: Callable[[], Floats]) -> None:
        labels, weight, gain = self._served[:, index].tolist()
        if weight >= sleep.floor * labels:
            self._nap[index] = sleep.first
        elif (
            self._may[index] and gain <= 0 and self.awake.sum() > 1 and peaks()[index] < sleep.floor
        ):
            self.awake[index] = False
            self._until[index] = self.labels + self._nap[index]
            self._nap[index] = min(2 * self._nap[index], sleep.longest)

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON values."""
        return {
            "awake": self.awake.tolist(),
            "labels": self.labels,
            "served": self._served.tolist(),
            "nap": list(self._nap),
            "until": list(self._until),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of a schedule with the same settings."""
        awake, served = np.array(state["awake"], dtype=bool), np.array(state["served"], dtype=float)
        nap, until = [int(n) for n in state["nap"]], [int(n) for n in state["until"]]
        if awake.shape != self.awake.shape or served.shape != self._served.shape:
            raise ValueError("an array has the wrong size")
        if not len(nap) == len(until) == len(awake):
            raise ValueError("a list has the wrong size")
        self.awake, self._served = awake, served
        self._nap, self._until, self.labels = nap, until, int(state["labels"])
        if self.sleep is not None:
            self._plan(self.sleep)
