"""A controller for live use: it keeps several states at once, and lets evidence say which to trust.

Whether to keep what was learned has no one answer: it depends on the stream, and on the moment.
So nothing is decided beforehand. Reset, carried, latest-only and shrunk states, with and without
memory, and predictors that need no model, all answer; a forecaster mixes them by their losses on
the labels that have arrived, and lets those that evidence has ruled out sleep.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from larc.checks import instance, listed, shown, text
from larc.errors import LarcError
from larc.io.states import whole
from larc.learner import Update
from larc.stream.checks import (
    checked_correction,
    checked_names,
    checked_questions,
    of_type,
    without_labels,
)
from larc.stream.commits import committing
from larc.stream.experts import Expert
from larc.stream.judged import JudgedBatch, judge, judge_again
from larc.stream.log import Correction, Retraction
from larc.stream.mixing.bounds import Bound
from larc.stream.mixing.forecaster import (
    Forecast,
    Forecaster,
    ForecasterSettings,
    check_probabilities,
)
from larc.stream.mixing.sleep import SleepSettings
from larc.stream.mixing.trust import Trust
from larc.stream.plans import Answers, LearningPlan, ReadPlan
from larc.stream.question import LabelIs, LabelValue, Question, Recorded, labels_by_text
from larc.stream.saving import NOTES, SESSION_FILE, Part, json_part, later, load_session
from larc.stream.session import Session
from larc.stream.session_file import SavedSession, parse_session

T = TypeVar("T")
Said = Mapping[str, Sequence[NDArray[np.float64] | Sequence[float]]]


@dataclass(frozen=True)
class Answer:
    """What the controller says to a question, and what each predictor that was awake said."""

    forecast: Forecast
    said: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class ControllerReadPlan:
    """Questions to be answered by a controller: made by `Controller.plan`."""

    controller: Controller = field(repr=False)
    part: ReadPlan
    told: Mapping[str, Any] = field(repr=False)
    contexts: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class ControllerLearningPlan:
    """Labels to be learned by a controller: made by `Controller.plan_learning`."""

    controller: Controller = field(repr=False)
    part: LearningPlan


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
        self.session = of_type(session, Session, "session")
        experts = listed(experts, "the experts")
        for expert in experts:
            if not isinstance(expert, str) and not hasattr(expert, "names"):
                raise LarcError(f"{shown(expert)} is no expert; give a name or an object.")
        if settings is not None:
            instance(settings, "settings", ForecasterSettings)
        self.experts: tuple[Expert, ...] = tuple(e for e in experts if not isinstance(e, str))
        #: Experts whose probabilities are given with every question.
        self.given = tuple(expert for expert in experts if isinstance(expert, str))
        free = [name for e in experts for name in ([e] if isinstance(e, str) else e.names)]
        names = [*(strategy.name for strategy in session.strategies), *free]
        chosen = settings or ForecasterSettings(sleep=SleepSettings())
        self.forecaster = Forecaster(names, chosen, free=free)
        #: With a log, what its batches were judged from, by their numbers.
        self.judged: dict[int, JudgedBatch] = {}

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
        with self.session.lock:
            plan = self.plan(without_labels(questions), said, contexts)
            reads = self.session.learner.read_many(plan.part.requests, refusals="return")
            return self.commit(plan, reads)

    def plan(
        self,
        questions: Sequence[Question],
        said: Said | None = None,
        contexts: Sequence[str] = (),
    ) -> ControllerReadPlan:
        """Return what it takes to answer questions; nothing is asked before `commit`.

        `larc.stream.plans` says how plans of many controllers share a batch.
        """
        with self.session.lock:
            asked = checked_questions(questions)
            told = self._told(asked, {} if said is None else said)
            contexts = listed(contexts, "the contexts")
            if contexts and len(contexts) != len(asked):
                raise LarcError("there is a context for some questions only; give one for each.")
            part = self.session.plan(asked, only=self.awake)
            return ControllerReadPlan(self, part, told, tuple(contexts) or ("",) * len(asked))

    def _told(self, questions: Sequence[Question], said: Said) -> dict[str, Any]:
        """Return what experts say, refusing what is missing or no probabilities."""
        instance(said, "said", Mapping)
        said = {name: listed(rows, f"the answers of {name!r}") for name, rows in said.items()}
        if set(said) != set(self.given) or any(len(s) != len(questions) for s in said.values()):
            raise LarcError(
                f"the experts {list(self.given)} each answer every question; "
                f"answers of {list(said)} were given."
            )
        told: dict[str, Any] = dict(said)
        for expert in self.experts:
            told |= expert.ask(questions)
        for number, question in enumerate(questions):
            if told:  # refused before anything is asked
                check_probabilities(
                    [rows[number] for rows in told.values()], len(question.candidates)
                )
        return told

    def learn(self, labels: Mapping[str, LabelValue]) -> dict[str, Update]:
        """Take in labels that arrive together: states that are awake learn, then trust does.

        All of it is learned or, if anything is refused, nothing is: by the states, the prompter,
        the experts and trust. Of losses, states learn from all; experts and trust judge by the
        candidate of the lowest, the first of equals.
        """
        with self.session.lock:
            plan = self.plan_learning(labels)
            moved = self.session.learner.update_many(plan.part.requests, refusals="return")
            return self.commit(plan, moved)

    def plan_learning(self, labels: Mapping[str, LabelValue]) -> ControllerLearningPlan:
        """Return what it takes to learn labels; nothing is learned before `commit`."""
        with self.session.lock:
            part = self.session.plan_learning(labels, only=self.awake)
            return ControllerLearningPlan(self, part)

    @overload
    def commit(
        self, plan: ControllerReadPlan, results: Sequence[Tensor | LarcError]
    ) -> list[Answer]: ...

    @overload
    def commit(
        self, plan: ControllerLearningPlan, results: Sequence[Update | LarcError]
    ) -> dict[str, Update]: ...

    def commit(
        self, plan: ControllerReadPlan | ControllerLearningPlan, results: Sequence[Any]
    ) -> list[Answer] | dict[str, Update]:
        """Take in what was computed for a plan of this controller, all of it or nothing.

        Parameters and refusals are those of `Session.commit`.
        """
        if not isinstance(plan, ControllerReadPlan | ControllerLearningPlan) or (
            plan.controller is not self
        ):
            raise LarcError("this is no plan of this controller; commit what it planned itself.")
        with self.session.lock, committing(self.session, plan.part, results) as done:
            trust = self.forecaster.state()
            learns = isinstance(plan, ControllerLearningPlan)
            remembered = [deepcopy(expert.state()) for expert in self.experts] if learns else []
            try:
                if isinstance(plan, ControllerReadPlan):
                    return self._forecasts(plan, done)
                batch = {name: self.session.pending[name] for name in plan.part.values}
                judge(self.forecaster, self.experts, batch, plan.part.values)
                if self.session.limits.log:
                    self._log(JudgedBatch(trust, remembered))
                updates: dict[str, Update] = done
                return updates
            except BaseException:
                self.forecaster = Forecaster.from_state(trust)
                for expert, state in zip(self.experts, remembered, strict=learns):
                    expert.restore(state)
                raise

    def _forecasts(self, plan: ControllerReadPlan, answers: Answers) -> list[Answer]:
        told = {**answers, **plan.told}
        forecasts = []
        for number, (question, context) in enumerate(
            zip(plan.part.questions, plan.contexts, strict=True)
        ):
            policies = {name: np.asarray(rows[number]) for name, rows in told.items()}
            forecast = self.forecaster.predict(question.name, policies, context)
            forecasts.append(Answer(forecast, policies))
            if self.judged:
                last = max(self.judged)
                self.judged[last] = self.judged[last].predicted(question.name, policies, context)
        return forecasts

    def _log(self, judged: JudgedBatch) -> None:
        """Keep what a batch was judged from, for as long as the session's log keeps the batch."""
        kept = {entry.number for entry in self.session.log.entries}
        self.judged = {n: one for n, one in self.judged.items() if n in kept}
        self.judged[self.session.point] = judged

    def correct(self, name: str, label: LabelValue) -> Correction:
        """Replace a label that was learned and was wrong, as `Session.correct` does.

        With a log that reaches back to it, trust and the experts go back and learn again, too,
        from what every predictor said at the time.
        """
        with self.session.lock:
            value = checked_correction(name, label, self.session.pending, self.session.labelled)
            return self._judged_again(name, value, lambda: self.session.correct(name, label))

    def retract(self, name: str) -> Retraction:
        """Take back a label that was learned, as `Session.retract` does; trust and experts, too."""
        with self.session.lock:
            text(name, "the name of a question")
            return self._judged_again(name, None, lambda: self.session.retract(name))

    def _judged_again(self, name: str, value: LabelIs | None, change: Callable[[], T]) -> T:
        """Change a label in the session, and in what trust and experts learned; all or nothing."""
        entries = self.session.log.reaching(name)
        if not entries or entries[0].number not in self.judged:
            return change()
        remembered = [deepcopy(expert.state()) for expert in self.experts]
        try:
            forecaster, judged = judge_again(self.judged, self.experts, entries, name, value)
            changed = change()
        except BaseException:
            for expert, state in zip(self.experts, remembered, strict=True):
                expert.restore(state)
            raise
        self.forecaster = forecaster
        self.judged |= judged
        return changed

    def arrive(self, items: Sequence[Recorded]) -> dict[str, Update]:
        """Learn from a replay's items; deprecated: call `learn` with labels by name."""
        warnings.warn(
            "Controller.arrive is now Controller.learn, with labels by the names of their "
            "questions; this alias goes with version 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.learn(labels_by_text(items))

    def drop(self, names: Iterable[str]) -> None:
        """Forget questions whose labels will never come, such as cancelled jobs."""
        with self.session.lock:
            dropped = checked_names(names)
            self.session.drop(dropped)
            # Held history is not there.
            judged = [name for name in self.forecaster.pending if name in dropped]
            self.forecaster.drop(judged)
            if self.judged and judged:
                last = max(self.judged)
                self.judged[last] = self.judged[last].dropped(judged)

    def bound(self) -> Bound:
        """Return the most by which the controller's loss so far can exceed any predictor's.

        Over the questions that the predictor answered: of an expert all, of a state those it was
        awake for.
        """
        return self.forecaster.bound()

    def report(self) -> Trust:
        """Return whom it trusted, when and why."""
        return self.forecaster.report()

    def save(self, path: str | Path, notes: Any = None, *, durable: bool = False) -> None:
        """Write everything the next event depends on to one file, as `Session.save` does."""
        with self.session.lock:
            self.session.file.save(self.session, path, self._parts(notes), durable)

    def to_bytes(self, notes: Any = None) -> bytes:
        """Return everything the next event depends on as the content of a file.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> controller = Controller(larc.Session(learner, [larc.Strategy("keep")], seed=1))
        >>> again = Controller(larc.Session(learner, [larc.Strategy("keep")], seed=1))
        >>> again.from_bytes(controller.to_bytes({"events": 7}))
        {'events': 7}
        """
        with self.session.lock:
            return self.session.file.content(self.session, self._parts(notes))

    def _parts(self, notes: Any) -> dict[str, Part]:
        """Return what is saved beside the session."""
        parts: dict[str, Part] = {
            NOTES: json_part(NOTES, notes),
            "trust": json_part("trust", self.forecaster.state()),
            "experts": json_part("experts", [expert.state() for expert in self.experts]),
        }
        kept = {entry.number for entry in self.session.log.entries}
        for number, judged in self.judged.items():
            if number in kept:
                parts[f"judged/{number}"] = (judged, later("log", judged.facts))
        return parts

    def restore(self, path: str | Path, questions: Sequence[Question] = ()) -> Any:
        """Go back to a saved point of this same controller; returns the notes saved with it."""
        return self._put(path, load_session(path), questions)

    def from_bytes(self, content: bytes) -> Any:
        """Go back to what `to_bytes` gave; returns the notes given there."""
        instance(content, "the content", bytes)
        return self._put("the content", parse_session(content, "the content"), ())

    def _put(self, path: str | Path, saved: SavedSession, questions: Sequence[Question]) -> Any:
        """Go back to what was loaded, or refuse it and change nothing."""
        with self.session.lock:
            notes = saved.facts.get(NOTES)
            # Until version 3 the trust was in the notes; version 0.1 had experts by name alone.
            old = notes if isinstance(notes, dict) and "trust" not in saved.facts else saved.facts
            if "trust" not in old or NOTES not in old:
                raise LarcError(f"{path} is of a session with no controller.")
            experts = old.get("experts")
            with whole(path, SESSION_FILE):
                forecaster = Forecaster.from_state(old["trust"])
                judged = {
                    int(number): JudgedBatch.from_facts(facts)
                    for number, facts in saved.facts["judged"].items()
                }
                self._check_same(path, forecaster, experts)
            remembered = [deepcopy(expert.state()) for expert in self.experts]
            try:
                for expert, state in zip(self.experts, experts or (), strict=experts is not None):
                    expert.restore(state)
                self.session.file.put(self.session, path, saved, checked_questions(questions))
            except BaseException:
                for expert, state in zip(self.experts, remembered, strict=True):
                    expert.restore(state)
                raise
            self.forecaster, self.judged = forecaster, judged
            return old[NOTES]

    def _check_same(self, path: str | Path, forecaster: Forecaster, experts: Any) -> None:
        ours = self.forecaster
        same = (forecaster.names, forecaster.free) == (ours.names, ours.free)
        if not same or (experts is not None and len(experts) != len(self.experts)):
            raise LarcError(f"{path} is of a controller with other predictors.")
        if forecaster.settings != ours.settings:
            raise LarcError(
                f"{path} is of a controller that learns trust by {forecaster.settings}; "
                "give it the same settings."
            )
