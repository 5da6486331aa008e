"""A controller for live use: it keeps several states at once, and lets evidence say which to trust.

Whether to keep what was learned has no one answer: it depends on the stream, and on the moment.
So nothing is decided beforehand. Reset, carried, latest-only and shrunk states, with and without
memory, and predictors that need no model, all answer; a forecaster mixes them by their losses on
the labels that have arrived, and lets those that evidence has ruled out sleep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.learner import Update
from larc.stored import load_state, whole
from larc.stream.bounds import Bound
from larc.stream.forecaster import Forecast, Forecaster, ForecasterSettings, check_probabilities
from larc.stream.items import Item
from larc.stream.naps import Naps
from larc.stream.session import SESSION_FILE, SESSION_UPGRADES, Session
from larc.stream.trust import Trust

Said = Mapping[str, Sequence[NDArray[np.float64]]]


@dataclass(frozen=True)
class Answer:
    """What the controller says to a question, and what each predictor that was awake said."""

    forecast: Forecast
    said: Mapping[str, NDArray[np.float64]]


class Controller:
    """Answers a stream's questions with whatever has earned trust so far.

    Parameters
    ----------
    session
        The states: every path of it is a predictor.
    experts
        Names of further predictors, which cost no model time; their probabilities are given with
        every question.
    settings
        How trust is learned; by default with naps, so that a state that evidence has ruled out is
        neither read nor updated until it is tried again.

    Examples
    --------
    >>> import larc
    >>> from larc.stream import Item, PathSpec, PlainRoom
    >>> from larc.stream.session import Session
    >>> substrate = larc.load_substrate("tiny")
    >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> session = Session(learner, [PathSpec("keep"), PathSpec("reset", retention="reset")],
    ...                   PlainRoom(), seed=1)
    >>> controller = Controller(session)
    >>> for day in range(3):
    ...     item = Item(f"day {day}", day, day + 0.5, ("up", "down"), 0, prompt="Next: ")
    ...     answer = controller.ask([item])[0]
    ...     updates = controller.arrive([item])
    >>> answer.forecast.weights["keep"] > answer.forecast.weights["reset"]
    True
    """

    def __init__(
        self,
        session: Session,
        experts: Sequence[str] = (),
        settings: ForecasterSettings | None = None,
    ) -> None:
        names = [*(path.name for path in session.paths), *experts]
        self.session = session
        self.experts = tuple(experts)
        self.forecaster = Forecaster(
            names, settings or ForecasterSettings(naps=Naps()), free=experts
        )

    @property
    def awake(self) -> tuple[str, ...]:
        """The paths that are read and updated now."""
        return tuple(n for n in self.forecaster.awake if n in self.session.episodes)

    def ask(
        self, items: Sequence[Item], said: Said | None = None, contexts: Sequence[str] = ()
    ) -> list[Answer]:
        """Answer questions now.

        Parameters
        ----------
        items
            The questions.
        said
            What the experts say to each.
        contexts
            What trust in a predictor may depend on, one for each question: a workflow, say.
        """
        said = said or {}
        if set(said) != set(self.experts) or any(len(own) != len(items) for own in said.values()):
            raise LarcError(
                f"the experts {list(self.experts)} each answer every question; "
                f"answers of {sorted(said)} were given."
            )
        if contexts and len(contexts) != len(items):
            raise LarcError("there is a context for some questions only; give one for each.")
        for place, item in enumerate(items):
            if said:  # refused before anything is asked
                check_probabilities([own[place] for own in said.values()], len(item.candidates))
        answers = {**self.session.ask(items, only=self.awake), **said}
        made = []
        for place, item in enumerate(items):
            own = {name: np.asarray(rows[place]) for name, rows in answers.items()}
            context = contexts[place] if contexts else ""
            made.append(Answer(self.forecaster.predict(item.name, own, context), own))
        return made

    def arrive(self, items: Sequence[Item]) -> dict[str, Update]:
        """Take in labels that arrive together: the states that are awake learn, then trust does."""
        updates = self.session.arrive(items, only=self.awake)
        # Held history was never asked, so nobody is judged by it.
        asked = set(self.forecaster.pending)
        self.forecaster.learn([(item.name, item.label) for item in items if item.name in asked])
        return updates

    def drop(self, names: Iterable[str]) -> None:
        """Forget questions whose labels will never come, such as cancelled jobs."""
        names = set(names)
        self.session.drop(names)
        self.forecaster.drop(names & set(self.forecaster.pending))  # held history is not there

    def bound(self) -> Bound:
        """Return the most by which the controller's loss so far can exceed any predictor's.

        Over the questions that the predictor answered: of an expert all, of a state those it was
        awake for.
        """
        return self.forecaster.bound()

    def report(self) -> Trust:
        """Return whom it trusted, when and why."""
        return self.forecaster.report()

    def save(self, path: str | Path, notes: Any = None) -> None:
        """Write everything the next event depends on to one file."""
        self.session.save(path, {"trust": self.forecaster.state(), "notes": notes})

    def restore(self, path: str | Path) -> Any:
        """Go back to a saved point of this same controller; returns the notes saved with it."""
        _, facts = load_state(path, SESSION_FILE, SESSION_UPGRADES)
        try:
            trust, notes = facts["notes"]["trust"], facts["notes"]["notes"]
        except (KeyError, TypeError) as error:
            raise LarcError(f"{path} is of a session with no controller.") from error
        with whole(path, SESSION_FILE):
            forecaster = Forecaster.from_state(trust)
        own = self.forecaster
        if (forecaster.names, forecaster.free) != (own.names, own.free):
            raise LarcError(f"{path} is of a controller with other predictors.")
        if forecaster.settings != own.settings:
            raise LarcError(
                f"{path} is of a controller that learns trust by {forecaster.settings}; "
                "give it the same settings."
            )
        self.session.restore(path)
        self.forecaster = forecaster
        return notes
