"""A controller for live use: it keeps several states at once, and lets evidence say which to trust.

Whether to keep what was learned has no one answer: it depends on the stream, and on the moment.
So nothing is decided beforehand. Reset, carried, latest-only and shrunk states, with and without
memory, and predictors that need no model, all answer; a forecaster mixes them by their losses on
the labels that have arrived, and lets those that evidence has ruled out sleep.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.io.states import load_state, whole
from larc.learner import Update
from larc.stream.experts import Expert
from larc.stream.mixing.bounds import Bound
from larc.stream.mixing.forecaster import (
    Forecast,
    Forecaster,
    ForecasterSettings,
    check_probabilities,
)
from larc.stream.mixing.sleep import SleepSettings
from larc.stream.mixing.trust import Trust
from larc.stream.question import Labelled, LabelValue, Question, Recorded, labels_of
from larc.stream.session import SESSION_FILE, SESSION_UPGRADES, Session

Said = Mapping[str, Sequence[NDArray[np.float64] | Sequence[float]]]


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
        The states: every strategy of it is a predictor.
    experts
        Further predictors, which cost no model time: objects, which the controller asks, teaches
        and saves; or names, whose probabilities are given with every question.
    settings
        How trust is learned; by default with sleep, so that a state that evidence has ruled out is
        neither read nor updated until it is tried again.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> strategies = [larc.Strategy("keep"), larc.Strategy("reset", retention="reset")]
    >>> controller = larc.Controller(larc.Session(learner, strategies, seed=1))
    >>> for day in range(3):
    ...     question = larc.Question(f"day {day}", ("up", "down"), prompt="Next: ")
    ...     answer = controller.ask([question])[0]
    ...     updates = controller.learn({question.name: "up"})
    >>> answer.forecast.weights["keep"] > answer.forecast.weights["reset"]
    True
    """

    def __init__(
        self,
        session: Session,
        experts: Sequence[str | Expert] = (),
        settings: ForecasterSettings | None = None,
    ) -> None:
        self.session = session
        self.experts: tuple[Expert, ...] = tuple(e for e in experts if not isinstance(e, str))
        #: Experts whose probabilities are given with every question.
        self.given = tuple(expert for expert in experts if isinstance(expert, str))
        free = [name for e in experts for name in ([e] if isinstance(e, str) else e.names)]
        names = [*(strategy.name for strategy in session.strategies), *free]
        chosen = settings or ForecasterSettings(sleep=SleepSettings())
        self.forecaster = Forecaster(names, chosen, free=free)

    def __repr__(self) -> str:
        awake = ", ".join(self.awake) or "nobody"
        labels = self.forecaster.components.learned
        return f"<Controller of {self.session!r}: {labels} labels judged, awake: {awake}>"

    @property
    def awake(self) -> tuple[str, ...]:
        """The strategies that are read and updated now."""
        return tuple(n for n in self.forecaster.awake if n in self.session.episodes)

    def ask(
        self,
        questions: Sequence[Question],
        said: Said | None = None,
        contexts: Sequence[str] = (),
    ) -> list[Answer]:
        """Answer questions now.

        Parameters
        ----------
        questions
            What is asked.
        said
            What the experts that were named say to each.
        contexts
            What trust in a predictor may depend on, one for each question: a workflow, say.
        """
        questions = [q.question if isinstance(q, Recorded) else q for q in questions]
        said = said or {}
        if set(said) != set(self.given) or any(len(s) != len(questions) for s in said.values()):
            raise LarcError(
                f"the experts {list(self.given)} each answer every question; "
                f"answers of {sorted(said)} were given."
            )
        if contexts and len(contexts) != len(questions):
            raise LarcError("there is a context for some questions only; give one for each.")
        by_expert: dict[str, Any] = dict(said)
        for expert in self.experts:
            by_expert |= expert.ask(questions)
        for number, question in enumerate(questions):
            if by_expert:  # refused before anything is asked
                check_probabilities(
                    [rows[number] for rows in by_expert.values()], len(question.candidates)
                )
        answers = {**self.session.ask(questions, only=self.awake), **by_expert}
        results = []
        for number, question in enumerate(questions):
            policies = {name: np.asarray(rows[number]) for name, rows in answers.items()}
            context = contexts[number] if contexts else ""
            forecast = self.forecaster.predict(question.name, policies, context)
            results.append(Answer(forecast, policies))
        return results

    def learn(self, labels: Mapping[str, LabelValue]) -> dict[str, Update]:
        """Take in labels that arrive together: states that are awake learn, then trust does.

        All of it is learned or, if anything is refused, nothing is.
        """
        values = self.session.checked(labels)
        for name, value in values.items():
            if not isinstance(value, int):
                raise LarcError(
                    f"the label of {name!r} is a list of losses; a controller judges by the index "
                    "or the text of the right candidate."
                )
        outcomes = {name: value for name, value in values.items() if isinstance(value, int)}
        labelled = [Labelled(self.session.pending[n].question, v) for n, v in outcomes.items()]
        updates = self.session.learn(outcomes, only=self.awake)
        # Held history was never asked, so nobody is judged by it.
        asked = set(self.forecaster.pending)
        self.forecaster.learn([(name, v) for name, v in outcomes.items() if name in asked])
        for expert in self.experts:
            expert.learn(labelled)
        return updates

    def arrive(self, items: Sequence[Recorded]) -> dict[str, Update]:
        """Learn from a replay's items; deprecated: call `learn` with labels by name."""
        warnings.warn(
            "Controller.arrive is now Controller.learn, with labels by the names of their "
            "questions; this alias goes with version 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.learn(labels_of(items))

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
        experts = [expert.state() for expert in self.experts]
        trust = self.forecaster.state()
        self.session.save(path, {"trust": trust, "experts": experts, "notes": notes})

    def restore(self, path: str | Path, questions: Sequence[Question] = ()) -> Any:
        """Go back to a saved point of this same controller; returns the notes saved with it."""
        _, facts = load_state(path, SESSION_FILE, SESSION_UPGRADES)
        try:
            trust, notes = facts["notes"]["trust"], facts["notes"]["notes"]
            # Version 0.1 had experts by name alone, and kept nothing of them.
            experts = facts["notes"].get("experts")
        except (KeyError, TypeError, AttributeError) as error:
            raise LarcError(f"{path} is of a session with no controller.") from error
        with whole(path, SESSION_FILE):
            forecaster = Forecaster.from_state(trust)
        ours = self.forecaster
        same = (forecaster.names, forecaster.free) == (ours.names, ours.free)
        if not same or (experts is not None and len(experts) != len(self.experts)):
            raise LarcError(f"{path} is of a controller with other predictors.")
        if forecaster.settings != ours.settings:
            raise LarcError(
                f"{path} is of a controller that learns trust by {forecaster.settings}; "
                "give it the same settings."
            )
        self.session.restore(path, questions)
        self.forecaster = forecaster
        for expert, state in zip(self.experts, experts or (), strict=experts is not None):
            expert.restore(state)
        return notes
