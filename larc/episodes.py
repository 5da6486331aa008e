"""Fast states: private copies of a slow state that learn from feedback as it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from larc.checks import instance
from larc.errors import LarcError
from larc.feedback import Feedback
from larc.io.states import save_state
from larc.proposals.writing import Writer
from larc.residual import Factors, checked_seed
from larc.rules import rule_facts
from larc.state import SlowState
from larc.stepping import Extras, UpdateRule
from larc.updates import Update

if TYPE_CHECKING:
    from larc.learner import Learner

EPISODE_FILE = "larc episode, version 1"


class Episode(Writer):
    """One fast state: factors, step count and random stream, all its own.

    Made by `Learner.begin` or `Learner.resume`.

    Attributes
    ----------
    factors : Factors
        The current factors. They are replaced by an update, never changed in place.
    step : int
        How many updates they have had since they were the slow state's.
    extras : Extras
        What its rule keeps beside them, moments and private offsets; nothing for most rules.
    stream : numpy.random.Generator
        The episode's private random numbers.
    slow : SlowState
        The slow state it was begun with, which it resets to.
    """

    def __init__(
        self,
        learner: Learner,
        seed: int,
        slow: SlowState | None = None,
        rule: UpdateRule | None = None,
    ) -> None:
        instance(getattr(learner, "slow", None), "the slow state of the learner", SlowState)
        if slow is not None:
            instance(slow, "slow", SlowState)
            slow.check_fits(learner.substrate)
        if rule is not None:
            rule_facts(rule)  # refuses one that could not be saved
        self._learner = learner
        self.slow = learner.slow if slow is None else slow
        self.rule = learner.rule if rule is None else rule
        self.seed = checked_seed(seed)
        self.reset()

    def reset(self) -> None:
        """Go back to the slow state this episode was begun with, and to the start of its stream."""
        self.forget()
        self.stream: np.random.Generator = np.random.default_rng(self.seed)

    def forget(self) -> None:
        """Go back to the slow state, with the private stream left where it is."""
        self.factors: Factors = self.slow.factors.copy()
        self.step: int = 0
        self.extras: Extras = Extras()

    def __repr__(self) -> str:
        moved = f"{self.step} update{'s' * (self.step != 1)} from slow version {self.slow.version}"
        return f"<Episode, seed {self.seed}, {moved}, rank {self.factors.rank}>"

    def fork(self) -> Episode:
        """Return an episode at this same point, which goes on by itself.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> episode = learner.begin(seed=7)
        >>> fork = episode.fork()
        >>> update = fork.update(larc.Label("2+2=", ["4", "5"], 0))
        >>> fork.step, episode.step
        (1, 0)
        """
        fork = copy(self)  # factors are replaced by an update, never changed in place
        fork.stream = deepcopy(self.stream)
        return fork

    @property
    def learner(self) -> Learner:
        """The learner that it was begun from."""
        return self._learner

    @property
    def slow_version(self) -> int:
        """The version of the slow state this episode is bound to."""
        return self.slow.version

    def read(self, prompt: str, candidates: Sequence[str]) -> Tensor:
        """Return the probability of each candidate under the current factors."""
        return self._learner.read_many([(self, prompt, candidates)])[0]

    def update(self, feedback: Feedback | Sequence[Feedback]) -> Update:
        """Take one step of the rule on the feedback; several pieces count by their mean."""
        return self._learner.update_many([(self, feedback)])[0]

    def save(self, path: str | Path) -> None:
        """Write the trajectory to one file: factors, step, stream, rule and what it is bound to."""
        tensors = {"A": self.factors.A, "B": self.factors.B}
        save_state(path, EPISODE_FILE, tensors, self.facts())

    def facts(self) -> dict[str, Any]:
        """Return what it is besides its factors, and what it is bound to, as JSON values."""
        return {
            "step": self.step,
            "seed": self.seed,
            "stream": self.stream.bit_generator.state,
            "rule": rule_facts(self.rule),
            "slow_version": self.slow.version,
            "slow": self.slow.digest,
            "substrate": self.slow.substrate,
            "boundary": self.slow.boundary,
            **self.extras.facts(),
        }


def check_together(expected: SlowState, episodes: Sequence[Episode], first: int = 0) -> None:
    """Refuse episodes that cannot be computed in one batch of a learner of this slow state."""
    for number, episode in enumerate(episodes, start=first):
        instance(episode, f"episode {number}", Episode)
        slow = episode.slow
        if (slow.substrate, slow.boundary) != (expected.substrate, expected.boundary):
            raise LarcError(
                f"episode {number} belongs to another substrate or boundary; "
                "use the learner it was begun from."
            )
        if slow.normalise != expected.normalise:
            raise LarcError(
                f"episode {number} scores by {slow.normalise} and this learner by "
                f"{expected.normalise}; use the learner it was begun from."
            )
        if episode.factors.A.shape != expected.factors.A.shape:
            raise LarcError(
                f"episode {number} has factors of rank {episode.factors.rank} and width "
                f"{episode.factors.width}; this learner has {expected.factors.rank} and "
                f"{expected.factors.width}."
            )
