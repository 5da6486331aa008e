"""A live session: the private states of several strategies along one stream, and what is awaited.

The order of one batch of labels: every strategy's factors are updated, all in one physical batch,
with the prompts kept from when the questions were asked; then the prompter takes the labels in.

What may be called from several threads is said in `larc.stream.plans`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, overload

import numpy as np
from torch import Tensor

from larc.errors import LarcError
from larc.learner import Episode, Learner, Update
from larc.residual import checked_seed
from larc.state import SlowState
from larc.stream.awaited import LabelMemory, Pending, SessionFull, SessionLimits
from larc.stream.checks import (
    among,
    check_new,
    check_retraction,
    checked_correction,
    checked_label,
    checked_names,
    checked_prompter,
    checked_prompts,
    checked_questions,
    checked_starts,
    checked_strategies,
    of_type,
    without_labels,
)
from larc.stream.commits import committing
from larc.stream.log import Correction, LearningLog, Retraction, relearn
from larc.stream.plans import Answers, LearningPlan, ReadPlan, planned_learning
from larc.stream.prompter import Prompter
from larc.stream.question import LabelIs, LabelValue, Question, Recorded, labels_by_text
from larc.stream.saving import NOTES, SESSION_FILE, SESSION_UPGRADES, SessionFile, json_part
from larc.stream.strategies import Strategy
from larc.stream.strategy_steps import rule_of

__all__ = ["SESSION_FILE", "SESSION_UPGRADES", "Session", "SessionFull", "SessionLimits"]


class Session:
    """The states of several strategies along one stream.

    Parameters
    ----------
    learner
        Reads and updates; its slow state is the start called ``trained``.
    strategies
        The ways to answer.
    prompter
        Puts the questions; as they are by default.
    seed
        Of the private random streams, one per strategy.
    starts
        Further slow states by name, for strategies that start elsewhere.
    limits
        What the session may hold.

    Attributes
    ----------
    pending : dict
        What is awaited: questions with their prompts, by name.
    labelled : LabelMemory
        Labels that were learned, by name, as many as `SessionLimits.labelled` allows.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> strategies = [larc.Strategy("keep"), larc.Strategy("reset", retention="reset")]
    >>> session = larc.Session(learner, strategies, seed=1)
    >>> question = larc.Question("a", candidates=("up", "down"), prompt="Next: ")
    >>> before = session.ask([question])
    >>> bool((before["keep"][0] == before["reset"][0]).all()), list(session.pending)
    (True, ['a'])
    >>> updates = session.learn({"a": "up"})
    >>> again = session.ask([larc.Question("b", ("up", "down"), prompt="Next: ")])
    >>> bool(again["keep"][0][0] > again["reset"][0][0])
    True
    >>> session
    <Session of keep, reset: 3 events, 1 awaited label, 1 learned>
    """

    def __init__(
        self,
        learner: Learner,
        strategies: Sequence[Strategy],
        prompter: Prompter | None = None,
        *,
        seed: int,
        starts: Mapping[str, SlowState] | None = None,
        limits: SessionLimits | None = None,
    ) -> None:
        self.learner = of_type(learner, Learner, "learner")
        self.strategies = checked_strategies(strategies)
        self.prompter: Prompter = checked_prompter(prompter)
        self.limits = of_type(
            SessionLimits() if limits is None else limits, SessionLimits, "limits"
        )
        self.pending: dict[str, Pending] = {}
        self.labelled = LabelMemory(self.limits.labelled)
        self.log = LearningLog(self.limits.log)
        self.events = 0
        #: Grows whenever states change; a plan made before that is stale.
        self.point = 0
        self.file = SessionFile()
        #: Held while anything is read or changed here; see `larc.stream.plans`.
        self.lock = RLock()
        seed = checked_seed(seed)
        slow_states = {"trained": learner.slow, **checked_starts(starts)}
        # A state that never learns is one state for all the strategies that read it.
        resting: dict[str, Episode] = {}
        self.episodes: dict[str, Episode] = {}
        for number, strategy in enumerate(self.strategies):
            if strategy.start not in slow_states:
                raise LarcError(
                    f"strategy {strategy.name!r} starts from {strategy.start!r}, which was not "
                    "given."
                )
            slow, rule = slow_states[strategy.start], rule_of(strategy, learner)
            stream = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
            if strategy.learns:
                self.episodes[strategy.name] = learner.begin(stream, slow=slow, rule=rule)
            else:
                state = resting.setdefault(strategy.start, learner.begin(slow=slow, rule=rule))
                self.episodes[strategy.name] = state

    def __repr__(self) -> str:
        names = ", ".join(strategy.name for strategy in self.strategies)
        awaited = f"{len(self.pending)} awaited label{'s' * (len(self.pending) != 1)}"
        learned = f"{len(self.labelled)} learned"
        return f"<Session of {names}: {self.events} events, {awaited}, {learned}>"

    # Asking --------------------------------------------------------------------------------------

    def ask(self, questions: Sequence[Question], only: Collection[str] | None = None) -> Answers:
        """Answer questions now; returns each strategy's probabilities, one array per question.

        Every question is kept as it was put, under each view, until its label arrives. With
        ``only``, no other strategy is asked, and none costs anything.
        """
        with self.lock:
            plan = self.plan(without_labels(questions), only)
            return self.commit(plan, self.learner.read_many(plan.requests, refusals="return"))

    def plan(self, questions: Sequence[Question], only: Collection[str] | None = None) -> ReadPlan:
        """Return what it takes to answer questions; nothing is asked before `commit`.

        `larc.stream.plans` says how plans of many sessions share a batch.
        """
        with self.lock:
            asked = checked_questions(questions)
            put = self._put(asked)
            strategies = among(self.strategies, only)
            requests = [
                (self.episodes[one.name], put[q.name].prompts[one.view], q.candidates)
                for one in strategies
                for q in asked
            ]
            return ReadPlan(self, asked, strategies, put, tuple(requests), self.point)

    def hold(self, questions: Sequence[Question]) -> None:
        """Keep questions that nobody answers until their labels arrive: history to learn from."""
        with self.lock:
            self.pending.update(self._put(checked_questions(without_labels(questions))))
            self.events += 1

    def drop(self, names: Iterable[str]) -> None:
        """Forget questions whose labels will never come: nothing is learned from them."""
        dropped = checked_names(names)
        with self.lock:
            missing = sorted(str(name) for name in dropped - set(self.pending))
            if missing:
                raise LarcError(f"{missing[0]!r} is to be dropped, but nothing awaits it.")
            for name in dropped:
                del self.pending[name]
            self.events += 1

    # Learning ------------------------------------------------------------------------------------

    def learn(
        self, labels: Mapping[str, LabelValue], only: Collection[str] | None = None
    ) -> dict[str, Update]:
        """Learn from labels that arrive together; returns what each learning strategy's update did.

        All of it is learned, by every strategy and the prompter, or, if anything is refused,
        nothing is.

        Parameters
        ----------
        labels
            By the names of their questions: the index of the right candidate, its text, or a loss
            for each candidate.
        only
            Every other strategy stays as it is, and costs nothing.

        Raises
        ------
        NeverAsked, DuplicateLabel, ConflictingLabel, NotACandidate
            As `checked` says.
        """
        with self.lock:
            plan = self.plan_learning(labels, only)
            return self.commit(plan, self.learner.update_many(plan.requests, refusals="return"))

    def plan_learning(
        self, labels: Mapping[str, LabelValue], only: Collection[str] | None = None
    ) -> LearningPlan:
        """Return what it takes to learn labels; nothing is learned before `commit`."""
        with self.lock:
            values = self.checked(labels)
            batch = {name: self.pending[name] for name in values}
            learning = tuple(
                strategy for strategy in among(self.strategies, only) if strategy.learns
            )
            return planned_learning(self, self.episodes, batch, values, learning)

    def checked(self, labels: Mapping[str, LabelValue]) -> dict[str, LabelIs]:
        """Return labels as indices or losses, refusing what cannot be learned.

        Raises
        ------
        NeverAsked
            Nothing of that name was asked, or it was dropped, or labelled so long ago that it is
            forgotten.
        DuplicateLabel
            It was labelled already, and the same.
        ConflictingLabel
            It was labelled already, and otherwise.
        NotACandidate
            The label names none of the candidates.
        """
        if not isinstance(labels, Mapping):
            raise LarcError('labels come by the names of their questions; give {"name": label}.')
        if not labels:
            raise LarcError("no labels were given; give at least one.")
        with self.lock:
            return {
                name: checked_label(name, label, self.pending, self.labelled)
                for name, label in labels.items()
            }

    # Taking in what was computed -----------------------------------------------------------------

    @overload
    def commit(self, plan: ReadPlan, results: Sequence[Tensor | LarcError]) -> Answers: ...

    @overload
    def commit(
        self, plan: LearningPlan, results: Sequence[Update | LarcError]
    ) -> dict[str, Update]: ...

    def commit(
        self, plan: ReadPlan | LearningPlan, results: Sequence[Any]
    ) -> Answers | dict[str, Update]:
        """Take in what was computed for a plan of this session.

        Parameters
        ----------
        plan
            What `plan` or `plan_learning` returned.
        results
            What `Learner.read_many` or `Learner.update_many` returned for ``plan.requests``, with
            refusals raised or returned; or what `larc.stream.plans.compute` returned for it.

        Returns
        -------
        dict
            What `ask` or `learn` returns.

        Raises
        ------
        StalePlan
            The session has changed meanwhile; plan again.
        LarcError
            Something of this plan was refused; nothing was changed.
        """
        with self.lock, committing(self, plan, results) as done:
            taken: Answers | dict[str, Update] = done
        return taken

    # Correcting ----------------------------------------------------------------------------------

    def correct(self, name: str, label: LabelValue) -> Correction:
        """Replace a label that was learned and was wrong.

        The correction is recorded: from now on the right label is the one that comes again. With a
        log (``SessionLimits(log=...)``) that reaches back to it, the states and the prompter's
        memory go back to before the wrong label and learn everything since again, as if the right
        one had come: bit for bit what they would be then. Questions that were put meanwhile are
        kept as they were put.

        Raises
        ------
        NeverAsked, DuplicateLabel, NotACandidate
            As for `learn`: nothing is known by that name, or the label is the one that was learned.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> limits = larc.SessionLimits(log=2**20)
        >>> session = larc.Session(learner, [larc.Strategy("keep")], seed=1, limits=limits)
        >>> question = larc.Question("a", candidates=("up", "down"), prompt="Next: ")
        >>> answers, updates = session.ask([question]), session.learn({"a": "up"})
        >>> session.correct("a", "down")
        Correction(name='a', before=0, after=1, relearned=1)
        """
        with self.lock:
            value = checked_correction(name, label, self.pending, self.labelled)
            relearned = relearn(self, name, value)
            past = self.labelled[name]
            self.labelled.replace(name, past.corrected(value))
            self.point += bool(relearned)
            self.events += 1
            return Correction(name, past.value, value, relearned)

    def retract(self, name: str) -> Retraction:
        """Take back a label that was learned and should not have been; its question awaits one.

        A state cannot unlearn: it goes back to before the label and learns everything since again,
        so the log must reach back to it, as for `correct`; otherwise it is refused.

        Raises
        ------
        NeverAsked, LarcError
            No label of that name is known; it is still awaited; or the log does not reach back.
        """
        with self.lock:
            check_retraction(name, self.pending, self.labelled, self.log)
            put = {name: self.log.reaching(name)[0].batch[name]}
            self.limits.check(self.pending_size, self.size, put)
            relearned = relearn(self, name, None)
            before = self.labelled[name].value
            self.labelled.forget(name)
            self.pending.update(put)
            self.point, self.events = self.point + 1, self.events + 1
            return Retraction(name, before, relearned)

    # What a session holds ------------------------------------------------------------------------

    def _put(self, questions: Sequence[Question]) -> dict[str, Pending]:
        put: dict[str, Pending] = {}
        for question in questions:
            check_new({**self.pending, **put}, question.name)
            prompts = checked_prompts(self.prompter, question, self.strategies)
            put[question.name] = Pending(question, prompts)
        self.limits.check(self.pending_size, self.size, put)
        return put

    @property
    def pending_size(self) -> int:
        """Bytes of the feedback still awaited: names and prompts."""
        return sum(pending.size for pending in self.pending.values())

    @property
    def size(self) -> int:
        """Bytes of all live state: factors, random streams, the prompter's memory, the awaited."""
        states = {id(episode): episode for episode in self.episodes.values()}.values()
        numbers = sum(4 * (e.factors.numbers + e.extras.numbers) for e in states)
        streams = sum(len(str(episode.stream.bit_generator.state)) for episode in states)
        return numbers + streams + self.prompter.size + self.pending_size

    # Saving and resuming -------------------------------------------------------------------------

    def save(self, path: str | Path, notes: Any = None, *, durable: bool = False) -> None:
        """Write everything the next event depends on to one file, with the caller's own notes.

        What changed since the file was last saved is appended to it. A killed process loses
        nothing that was saved; a machine that stops may lose the last saves, and never leaves a
        part of one.

        Parameters
        ----------
        path
            The file. One that another session or process saved meanwhile is refused.
        notes
            JSON values to be kept with it.
        durable
            Wait until it is on the disk.
        """
        with self.lock:
            self.file.save(self, path, {NOTES: json_part(NOTES, notes)}, durable)

    def restore(self, path: str | Path, questions: Sequence[Question] = ()) -> Any:
        """Go back to a saved point of this same session; returns the notes saved with it.

        Parameters
        ----------
        path
            The file.
        questions
            What was asked, for a file of before version 0.2, which did not keep it.
        """
        with self.lock:
            return self.file.restore(self, path, checked_questions(questions))

    def arrive(
        self, items: Sequence[Recorded], only: Collection[str] | None = None
    ) -> dict[str, Update]:
        """Learn from a replay's items; deprecated: call `learn` with labels by name."""
        warnings.warn(
            "Session.arrive is now Session.learn, with labels by the names of their questions; "
            "this alias goes with version 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.learn(labels_by_text(items), only)
