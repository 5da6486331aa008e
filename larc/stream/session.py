"""A live session: the private states of several strategies along one stream, and what is awaited.

The order of one batch of labels: every strategy's factors are updated, all in one physical batch,
with the prompts kept from when the questions were asked; then the prompter takes the labels in.

What may be called from several threads is said in `larc.stream.plans`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from torch import Tensor

from larc.errors import LarcError, StalePlan
from larc.learner import Episode, Learner, Update
from larc.residual import checked_seed
from larc.state import SlowState
from larc.stream.awaited import LabelMemory, PastLabel, Pending, SessionFull, SessionLimits
from larc.stream.checks import (
    check_puts,
    checked_label,
    checked_prompter,
    checked_questions,
    checked_starts,
    checked_strategies,
    of_type,
    without_labels,
)
from larc.stream.plans import (
    Answers,
    LearningPlan,
    ReadPlan,
    answers_of,
    check_results,
    moves_of,
)
from larc.stream.prompter import Prompter
from larc.stream.question import (
    LabelIs,
    Labelled,
    LabelValue,
    Question,
    Recorded,
    labels_of,
)
from larc.stream.saving import SESSION_FILE, SESSION_UPGRADES, restore_session, save_session
from larc.stream.strategies import Strategy
from larc.stream.strategy_steps import feedback_of, rule_of, with_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "SESSION_FILE",
    "SESSION_UPGRADES",
    "Session",
    "SessionFull",
    "SessionLimits",
    "with_offsets",
]


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
        self.limits = of_type(limits or SessionLimits(), SessionLimits, "limits")
        self.pending: dict[str, Pending] = {}
        self.labelled = LabelMemory(self.limits.labelled)
        self.events = 0
        #: Grows whenever states change; a plan made before that is stale.
        self.point = 0
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
            strategies = self._among(only)
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
        if isinstance(names, str):
            raise LarcError(f"the names to drop are one text, {names!r}; give a list of names.")
        with self.lock:
            dropped = set(names)
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
            return self._plan_batch(batch, values, only)

    def _plan_batch(
        self,
        batch: Mapping[str, Pending],
        values: Mapping[str, LabelIs],
        only: Collection[str] | None,
    ) -> LearningPlan:
        learning = tuple(strategy for strategy in self._among(only) if strategy.learns)
        forks: dict[str, Episode] = {}
        requests = []
        for strategy in learning:
            fork = forks[strategy.name] = self.episodes[strategy.name].fork()
            if strategy.retention == "latest":
                fork.forget()
            requests.append(
                (fork, [feedback_of(strategy, fork, batch[n], v) for n, v in values.items()])
            )
        starts = {name: (fork.factors, fork.step) for name, fork in forks.items()}
        return LearningPlan(self, values, learning, forks, starts, tuple(requests), self.point)

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
        with self.lock, self.committing(plan, results) as done:
            taken: Answers | dict[str, Update] = done
        return taken

    @contextmanager
    def committing(self, plan: ReadPlan | LearningPlan, results: Sequence[Any]) -> Iterator[Any]:
        """Commit a plan around a block: what the block refuses undoes the commit."""
        self._check_commit(plan, results)
        if isinstance(plan, ReadPlan):
            yield answers_of(plan, results)
            self.pending.update(plan.put)
            self.events += 1
            return
        moves = moves_of(plan, results)
        labelled = [
            Labelled(self.pending[name].question, value if isinstance(value, int) else _best(value))
            for name, value in plan.values.items()
        ]
        remembered = deepcopy(self.prompter.state())
        try:
            self.prompter.learn(labelled)
            yield {name: update for name, (_, update) in moves.items()}
        except BaseException:  # a batch is learned by every strategy and the prompter, or by none
            self.prompter.restore(remembered)
            raise
        for name, fork in plan.forks.items():
            episode = self.episodes[name]
            episode.factors, episode.step = moves[name][0], fork.step
            episode.stream = fork.stream
        for name, value in plan.values.items():
            kept = self.pending.pop(name)
            self.labelled.remember(name, PastLabel(kept.question.candidates, value))
        self.point += 1
        self.events += 1

    def _check_commit(self, plan: ReadPlan | LearningPlan, results: Sequence[Any]) -> None:
        if not isinstance(plan, ReadPlan | LearningPlan) or plan.session is not self:
            raise LarcError("this is no plan of this session; commit what it planned itself.")
        check_results(plan, results)
        if plan.point != self.point:
            raise StalePlan("the session has learned since this was planned; plan it again.")
        if isinstance(plan, ReadPlan):
            for name in plan.put:
                self._check_new(name)
            self._check_space(plan.put)
            return
        gone = [name for name in plan.values if name not in self.pending]
        if gone:
            raise StalePlan(f"{gone[0]!r} was dropped since this was planned; plan it again.")

    # What a session holds ------------------------------------------------------------------------

    def _among(self, only: Collection[str] | None) -> tuple[Strategy, ...]:
        if only is None:
            return self.strategies
        unknown = [name for name in only if name not in self.episodes]
        if unknown:
            raise LarcError(
                f"there is no strategy {unknown[0]!r}; give {', '.join(self.episodes)}."
            )
        return tuple(strategy for strategy in self.strategies if strategy.name in only)

    def _check_new(self, name: str) -> None:
        if name in self.pending:
            raise LarcError(f"{name!r} is asked already; name each question differently.")

    def _put(self, questions: Sequence[Question]) -> dict[str, Pending]:
        put: dict[str, Pending] = {}
        for question in questions:
            self._check_new(question.name)
            if question.name in put:
                raise LarcError(
                    f"{question.name!r} is asked already; name each question differently."
                )
            prompts = dict(self.prompter.prompts(question))
            for strategy in self.strategies:
                check_puts(strategy, question, prompts)
            put[question.name] = Pending(question, prompts)
        self._check_space(put)
        return put

    @property
    def pending_size(self) -> int:
        """Bytes of the feedback still awaited: names and prompts."""
        return sum(pending.size for pending in self.pending.values())

    @property
    def size(self) -> int:
        """Bytes of all live state: factors, random streams, the prompter's memory, the awaited."""
        states = {id(episode): episode for episode in self.episodes.values()}.values()
        numbers = sum(4 * episode.factors.numbers for episode in states)
        streams = sum(len(str(episode.stream.bit_generator.state)) for episode in states)
        return numbers + streams + self.prompter.size + self.pending_size

    def _check_space(self, put: Mapping[str, Pending]) -> None:
        more = sum(pending.size for pending in put.values())
        for name, size, limit in (
            ("pending", self.pending_size + more, self.limits.pending),
            ("total", self.size + more, self.limits.total),
        ):
            if size > limit:
                raise SessionFull(
                    f"a session would hold {size} bytes, over its {name} limit of {limit}; "
                    "everything up to here is kept: raise the limit and carry on."
                )

    # Saving and resuming -------------------------------------------------------------------------

    def save(self, path: str | Path, notes: Any = None) -> None:
        """Write everything the next event depends on to one file, with the caller's own notes."""
        with self.lock:
            save_session(self, path, notes)

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
            return restore_session(self, path, questions)

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
        return self.learn(labels_of(items), only)


def _best(losses: Sequence[float]) -> int:
    """Return the candidate of lowest loss, the first of equals: what a memory calls the label."""
    return int(np.argmin(losses))
