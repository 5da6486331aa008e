"""A live session: the private states of several strategies along one stream, and what is awaited.

The order of one batch of labels: every strategy's factors are updated, all in one physical batch,
with the prompts kept from when the questions were asked; then the prompter takes the labels in.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import CandidateLosses, Label
from larc.io.states import load_state, save_state, whole
from larc.learner import Episode, Learner, Update
from larc.residual import Factors
from larc.rules import UpdateRule, parse_rule, rule_facts
from larc.state import SlowState
from larc.stepping import Extras
from larc.stream.prompter import PlainPrompter, Prompter
from larc.stream.question import Labelled, LabelValue, Question, Recorded, labels_of, resolved
from larc.stream.strategies import Strategy

SESSION_FILE = "larc live session, version 3"


def _with_names_of_version_3(facts: Any) -> Any:
    """Upgrade facts that called strategies paths, and kept prompts without their candidates."""
    return {
        **{key: value for key, value in facts.items() if key not in ("paths", "room", "pending")},
        "strategies": [
            {
                **{key: value for key, value in path.items() if key not in ("permuted",)},
                "retention": "keep" if path["retention"] == "carry" else path["retention"],
                "sham": path["permuted"],
            }
            for path in facts["paths"]
        ],
        "prompter": facts["room"],
        "pending": {
            name: {"candidates": None, "prompt": "", "source": None, "prompts": prompts}
            for name, prompts in facts["pending"].items()
        },
    }


SESSION_UPGRADES = {
    # Version 1 did not say by which rule its states move, and its paths had none of their own.
    1: lambda facts: {
        **facts,
        "rule": None,
        "paths": [{**path, "rule": ""} for path in facts["paths"]],
    },
    2: _with_names_of_version_3,
}


@dataclass(frozen=True)
class SessionLimits:
    """The most bytes a session may hold: of feedback still awaited, and in all."""

    pending: int = 2 * 2**20
    total: int = 4 * 2**20


class SessionFull(LarcError):
    """A limit of a session was reached; nothing was lost, and a larger limit carries on."""


@dataclass(frozen=True)
class Pending:
    """A question whose label is awaited, and its prompts as they were put."""

    question: Question
    prompts: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of its name and prompts; two views of one text are kept once."""
        texts = [self.question.name, *set(self.prompts.values())]
        return sum(len(text.encode()) for text in texts)


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
        if len({strategy.name for strategy in strategies}) < len(strategies):
            raise LarcError("two strategies have one name; name each differently.")
        self.learner = learner
        self.strategies = tuple(strategies)
        self.prompter: Prompter = PlainPrompter() if prompter is None else prompter
        self.limits = limits or SessionLimits()
        self.pending: dict[str, Pending] = {}
        self.events = 0
        slow_states = {"trained": learner.slow, **(starts or {})}
        # A state that never learns is one state for all the strategies that read it.
        resting: dict[str, Episode] = {}
        self.episodes: dict[str, Episode] = {}
        for number, strategy in enumerate(self.strategies):
            if strategy.start not in slow_states:
                raise LarcError(
                    f"strategy {strategy.name!r} starts from {strategy.start!r}, which was not "
                    "given."
                )
            one = Learner(
                learner.substrate,
                slow_states[strategy.start],
                _rule(strategy, learner),
                limits=learner.limits,
            )
            stream = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
            if strategy.learns:
                self.episodes[strategy.name] = one.begin(stream)
            else:
                self.episodes[strategy.name] = resting.setdefault(strategy.start, one.begin())

    def __repr__(self) -> str:
        names = ", ".join(strategy.name for strategy in self.strategies)
        return f"<Session of {names}: {self.events} events, {len(self.pending)} awaited labels>"

    def ask(
        self, questions: Sequence[Question], only: Collection[str] | None = None
    ) -> dict[str, list[NDArray[np.float64]]]:
        """Answer questions now; returns each strategy's probabilities, one array per question.

        Every question is kept as it was put, under each view, until its label arrives. With
        ``only``, no other strategy is asked, and none costs anything.
        """
        questions = _without_labels(questions)
        put = self._put(questions)
        asked = self._among(only)
        requests = [
            (
                self.episodes[strategy.name],
                put[question.name].prompts[strategy.view],
                question.candidates,
            )
            for strategy in asked
            for question in questions
        ]
        reads = [read.double().numpy() for read in self.learner.read_many(requests)]
        answers = {}
        for number, strategy in enumerate(asked):
            theirs = reads[number * len(questions) : (number + 1) * len(questions)]
            answers[strategy.name] = [with_offsets(read, strategy.offsets) for read in theirs]
        self.pending.update(put)
        self.events += 1
        return answers

    def hold(self, questions: Sequence[Question]) -> None:
        """Keep questions that nobody answers until their labels arrive: history to learn from."""
        self.pending.update(self._put(_without_labels(questions)))
        self.events += 1

    def _among(self, only: Collection[str] | None) -> list[Strategy]:
        return [strategy for strategy in self.strategies if only is None or strategy.name in only]

    def drop(self, names: Iterable[str]) -> None:
        """Forget questions whose labels will never come: nothing is learned from them."""
        dropped = set(names)
        missing = sorted(dropped - set(self.pending))
        if missing:
            raise LarcError(f"{missing[0]!r} is to be dropped, but nothing awaits it.")
        for name in dropped:
            del self.pending[name]
        self.events += 1

    def _put(self, questions: Sequence[Question]) -> dict[str, Pending]:
        put: dict[str, Pending] = {}
        for question in questions:
            if question.name in self.pending or question.name in put:
                raise LarcError(
                    f"{question.name!r} is asked already; name each question differently."
                )
            prompts = dict(self.prompter.prompts(question))
            for strategy in self.strategies:
                if strategy.view not in prompts:
                    raise LarcError(
                        f"strategy {strategy.name!r} reads the view {strategy.view!r}, and the "
                        f"prompter has {', '.join(prompts)}; give one of those."
                    )
                if strategy.offsets and len(strategy.offsets) != len(question.candidates):
                    raise LarcError(
                        f"strategy {strategy.name!r} has {len(strategy.offsets)} offsets, and "
                        f"{question.name!r} has {len(question.candidates)} candidates."
                    )
            put[question.name] = Pending(question, prompts)
        self._check_space(put)
        return put

    def learn(
        self, labels: Mapping[str, LabelValue], only: Collection[str] | None = None
    ) -> dict[str, Update]:
        """Learn from labels that arrive together; returns what each learning strategy's update did.

        Parameters
        ----------
        labels
            By the names of their questions: the index of the right candidate, its text, or a loss
            for each candidate.
        only
            Every other strategy stays as it is, and costs nothing.
        """
        values = self.checked(labels)
        learning = [strategy for strategy in self._among(only) if strategy.learns]
        points = {strategy.name: _Point(self.episodes[strategy.name]) for strategy in learning}
        labelled = [
            Labelled(self.pending[name].question, value if isinstance(value, int) else _best(value))
            for name, value in values.items()
        ]
        remembered = self.prompter.state()
        try:
            done = self._update(learning, values)
            self.prompter.learn(labelled)
        except BaseException:  # a batch is learned by every strategy and the prompter, or by none
            for point in points.values():
                point.restore()
            self.prompter.restore(remembered)
            raise
        for name in values:
            del self.pending[name]
        self.events += 1
        return {strategy.name: done[strategy.name] for strategy in learning}

    def checked(self, labels: Mapping[str, LabelValue]) -> dict[str, int | tuple[float, ...]]:
        """Return labels as indices or losses, refusing what nothing awaits or no candidate is."""
        if not isinstance(labels, Mapping):
            raise LarcError('labels come by the names of their questions; give {"name": label}.')
        values = {}
        for name, label in labels.items():
            if name not in self.pending:
                raise LarcError(f"the label of {name!r} arrived, but it was never asked.")
            question = self.pending[name].question
            if not question.candidates:
                raise LarcError(
                    f"the file this session was restored from did not keep the candidates of "
                    f"{name!r}; restore it with questions=[...]."
                )
            values[name] = resolved(question, label)
        return values

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

    def _update(
        self, learning: Sequence[Strategy], values: Mapping[str, int | tuple[float, ...]]
    ) -> dict[str, Update]:
        """Update the states of some strategies: those of one rule in one physical batch."""
        before: dict[str, Factors] = {}
        by_rule: dict[UpdateRule, list[tuple[str, Episode, list[Label | CandidateLosses]]]] = {}
        for strategy in learning:
            episode = self.episodes[strategy.name]
            if strategy.retention == "latest":
                episode.forget()
            before[strategy.name] = episode.factors
            feedback = [self._feedback(strategy, episode, *pair) for pair in values.items()]
            by_rule.setdefault(episode.rule, []).append((strategy.name, episode, feedback))
        done: dict[str, Update] = {}
        for rule, updates in by_rule.items():
            # Starts may differ within a batch; the rule may not.
            one = Learner(
                self.learner.substrate, self.learner.slow, rule, limits=self.learner.limits
            )
            results = one.update_many([(episode, feedback) for _, episode, feedback in updates])
            done |= dict(zip((name for name, _, _ in updates), results, strict=True))
        for strategy in learning:
            if strategy.scale != 1.0:
                episode = self.episodes[strategy.name]
                moved = _shrink(episode, before[strategy.name], strategy.scale)
                # What is kept of the step is not where the rule may have looked.
                done[strategy.name] = replace(done[strategy.name], distance=moved, after=None)
        return done

    def _feedback(
        self, strategy: Strategy, episode: Episode, name: str, value: int | tuple[float, ...]
    ) -> Label | CandidateLosses:
        pending = self.pending[name]
        candidates, prompt = pending.question.candidates, pending.prompts[strategy.view]
        if strategy.sham:
            order = episode.stream.permutation(len(candidates))
            if isinstance(value, int):
                value = int(np.argsort(order)[value])  # the inverse permutation, of the target
            else:
                value = tuple(value[index] for index in order)
        if isinstance(value, int):
            return Label(prompt, candidates, value, strategy.offsets)
        if strategy.offsets:
            raise LarcError(
                f"strategy {strategy.name!r} has offsets, which learn from labels and not from "
                "losses."
            )
        return CandidateLosses(prompt, candidates, value)

    # What a session holds ------------------------------------------------------------------------

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
        tensors, episodes = {}, {}
        for strategy in self.strategies:
            episode = self.episodes[strategy.name]
            tensors[f"{strategy.name}.A"] = episode.factors.A
            tensors[f"{strategy.name}.B"] = episode.factors.B
            tensors |= episode.extras.tensors(f"{strategy.name}.")
            episodes[strategy.name] = {
                "step": episode.step,
                "stream": episode.stream.bit_generator.state,
                "slow": episode.slow.digest,
                **episode.extras.facts(),
            }
        facts = {
            "rule": rule_facts(self.learner.rule),
            "strategies": [strategy.facts() for strategy in self.strategies],
            "episodes": episodes,
            "pending": {name: self._packed(pending) for name, pending in self.pending.items()},
            "prompter": self.prompter.state(),
            "events": self.events,
            "notes": notes,
        }
        save_state(path, SESSION_FILE, tensors, facts)

    def _packed(self, pending: Pending) -> dict[str, Any]:
        question = pending.question
        if not question.candidates:  # of a file of before version 3: still unknown
            return {"candidates": None, "prompt": "", "source": None, "prompts": pending.prompts}
        return {
            "candidates": list(question.candidates),
            "prompt": question.prompt,
            "source": self.prompter.pack(question.source),
            "prompts": dict(pending.prompts),
        }

    def _unpacked(self, name: str, facts: Any, given: Mapping[str, Question]) -> Pending:
        prompts = {str(view): str(text) for view, text in facts["prompts"].items()}
        if facts["candidates"] is None:  # of before version 3, which did not keep them
            if name in given:
                return Pending(given[name], prompts)
            question = Question.__new__(Question)
            for field, value in (("name", name), ("candidates", ()), ("prompt", "")):
                object.__setattr__(question, field, value)
            object.__setattr__(question, "source", None)
            return Pending(question, prompts)
        source = self.prompter.unpack(facts["source"])
        candidates = tuple(str(text) for text in facts["candidates"])
        return Pending(Question(name, candidates, str(facts["prompt"]), source), prompts)

    def restore(self, path: str | Path, questions: Sequence[Question] = ()) -> Any:
        """Go back to a saved point of this same session; returns the notes saved with it.

        Parameters
        ----------
        path
            The file.
        questions
            What was asked, for a file of before version 0.2, which did not keep it.
        """
        tensors, facts = load_state(path, SESSION_FILE, SESSION_UPGRADES)
        with whole(path, SESSION_FILE):
            return self._restore(path, tensors, facts, {one.name: one for one in questions})

    def _restore(
        self,
        path: str | Path,
        tensors: Mapping[str, Tensor],
        facts: Any,
        given: Mapping[str, Question],
    ) -> Any:
        if facts["strategies"] != [strategy.facts() for strategy in self.strategies]:
            raise LarcError(
                f"{path} is of a session with other strategies; restore it with its own."
            )
        if facts["rule"] not in (None, rule_facts(self.learner.rule)):
            raise LarcError(
                f"{path} is of a session with the update rule {facts['rule']}, not "
                f"{self.learner.rule}; restore it with its own."
            )
        for strategy in self.strategies:
            saved = facts["episodes"][strategy.name]
            if saved["slow"] != self.episodes[strategy.name].slow.digest:
                raise LarcError(
                    f"{path} started strategy {strategy.name!r} from another slow state."
                )
        # Everything is made before anything is changed.
        device = self.learner.substrate.device
        states = []
        for strategy in self.strategies:
            saved, stream = facts["episodes"][strategy.name], np.random.default_rng()
            factors = Factors(tensors[f"{strategy.name}.A"], tensors[f"{strategy.name}.B"])
            factors = factors.to(device)
            factors.check_like(self.learner.slow.factors)
            stream.bit_generator.state = saved["stream"]
            extras = Extras.read(tensors, saved, f"{strategy.name}.")
            states.append((factors, int(saved["step"]), stream, extras))
        pending = {
            name: self._unpacked(name, packed, given) for name, packed in facts["pending"].items()
        }
        events, notes = int(facts["events"]), facts["notes"]
        self.prompter.restore(facts["prompter"])
        for strategy, (factors, step, stream, extras) in zip(self.strategies, states, strict=True):
            episode = self.episodes[strategy.name]
            episode.factors, episode.step, episode.stream = factors, step, stream
            episode.extras = extras
        self.pending, self.events = pending, events
        return notes


def _rule(strategy: Strategy, learner: Learner) -> UpdateRule:
    if not strategy.rule:
        return learner.rule
    return parse_rule(strategy.rule) if isinstance(strategy.rule, str) else strategy.rule


def _best(losses: Sequence[float]) -> int:
    """Return the candidate of lowest loss, the first of equals: what a memory calls the label."""
    return int(np.argmin(losses))


def _without_labels(questions: Sequence[Any]) -> list[Question]:
    """Return the questions; one that comes with its label is what version 0.1 was asked with."""
    if any(isinstance(one, Recorded) for one in questions):
        warnings.warn(
            "a question is asked without its label: give larc.Question; items that carry one are "
            "no longer taken from version 0.3 on.",
            DeprecationWarning,
            stacklevel=3,
        )
    return [one.question if isinstance(one, Recorded) else one for one in questions]


def with_offsets(
    probabilities: NDArray[np.float64], offsets: Sequence[float]
) -> NDArray[np.float64]:
    """Return the policy with a bias added to every candidate's energy.

    Examples
    --------
    >>> with_offsets(np.array([0.5, 0.5]), (0.0, np.log(3.0))).round(6)
    array([0.25, 0.75])
    """
    if not offsets:
        return probabilities
    # A softmax of log-probabilities plus a bias is the softmax of the energies plus that bias.
    odds = probabilities * np.exp(np.asarray(offsets) - max(offsets))
    return np.asarray(odds / odds.sum())


class _Point:
    """Where an episode is, to go back to."""

    def __init__(self, episode: Episode) -> None:
        self.episode, self.factors, self.step = episode, episode.factors, episode.step
        self.stream, self.extras = episode.stream.bit_generator.state, episode.extras

    def restore(self) -> None:
        self.episode.factors, self.episode.step = self.factors, self.step
        self.episode.stream.bit_generator.state = self.stream
        self.episode.extras = self.extras


def _shrink(episode: Episode, before: Factors, scale: float) -> float:
    """Keep a part of what an update changed; returns how far the factors are then."""
    # The realised float32 difference is scaled, which is not the same as a smaller step size.
    episode.factors = before.combine(
        episode.factors, lambda old, new: torch.add(old, new - old, alpha=scale)
    )
    return float(episode.factors.combine(before, torch.sub).norm())
