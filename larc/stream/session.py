"""A live session: every path's private state along one stream, and what is still awaited.

The order of one batch of labels: every path's factors are updated, all in one physical batch, with
the prompts kept from when the questions were asked; then the room takes the labels in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from larc.errors import LarcError
from larc.learner import Episode, Learner, Update
from larc.residual import Factors
from larc.rules import UpdateRule, parse_rule, rule_facts
from larc.scoring import Label
from larc.state import SlowState
from larc.stored import load_state, save_state, whole
from larc.stream.items import Item, Room
from larc.stream.paths import PathSpec

SESSION_FILE = "larc live session, version 2"
# Version 1 did not say by which rule its states move, and its paths had none of their own.
SESSION_UPGRADES = {
    1: lambda facts: {
        **facts,
        "rule": None,
        "paths": [{**path, "rule": ""} for path in facts["paths"]],
    }
}


@dataclass(frozen=True)
class SessionLimits:
    """The most bytes a session may hold: of feedback still awaited, and in all."""

    pending: int = 2 * 2**20
    total: int = 4 * 2**20


class SessionFull(LarcError):
    """A limit of a session was reached; nothing was lost, and a larger limit carries on."""


class Session:
    """The states of several paths along one stream.

    Parameters
    ----------
    learner
        Reads and updates; its slow state is the start called ``trained``.
    paths
        The ways to answer.
    room
        Puts the questions.
    seed
        Of the private random streams, one per path.
    starts
        Further slow states by name, for paths that start elsewhere.
    limits
        What the session may hold.

    Examples
    --------
    >>> import larc
    >>> from larc.stream import Item, PathSpec, PlainRoom
    >>> substrate = larc.load_substrate("tiny")
    >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> session = Session(learner, [PathSpec("keep"), PathSpec("reset", retention="reset")],
    ...                   PlainRoom(), seed=1)
    >>> item = Item("a", asked=0, arrives=5, candidates=("up", "down"), label=0, prompt="Next: ")
    >>> before = session.ask([item])
    >>> bool((before["keep"][0] == before["reset"][0]).all()), list(session.pending)
    (True, ['a'])
    >>> updates = session.arrive([item])
    >>> again = session.ask([Item("b", 6, 9, ("up", "down"), 0, prompt="Next: ")])
    >>> bool(again["keep"][0][0] > again["reset"][0][0])
    True
    """

    def __init__(
        self,
        learner: Learner,
        paths: Sequence[PathSpec],
        room: Room,
        *,
        seed: int,
        starts: Mapping[str, SlowState] | None = None,
        limits: SessionLimits | None = None,
    ) -> None:
        if len({path.name for path in paths}) < len(paths):
            raise LarcError("two paths have one name; name each differently.")
        self.learner = learner
        self.paths = tuple(paths)
        self.room = room
        self.limits = limits or SessionLimits()
        self.pending: dict[str, dict[str, str]] = {}
        self.events = 0
        own = {"trained": learner.slow, **(starts or {})}
        # A state that never learns is one state for all the paths that read it.
        resting: dict[str, Episode] = {}
        self.episodes: dict[str, Episode] = {}
        for number, path in enumerate(self.paths):
            if path.start not in own:
                raise LarcError(
                    f"path {path.name!r} starts from {path.start!r}, which was not given."
                )
            rule = parse_rule(path.rule) if path.rule else learner.rule
            one = Learner(learner.substrate, own[path.start], rule, limits=learner.limits)
            stream = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
            if path.learns:
                self.episodes[path.name] = one.begin(stream)
            else:
                self.episodes[path.name] = resting.setdefault(path.start, one.begin())

    def ask(
        self, items: Sequence[Item], only: Collection[str] | None = None
    ) -> dict[str, list[NDArray[np.float64]]]:
        """Answer questions now; returns each path's probabilities, one array per item.

        Every question is kept as it was put, under each view, until its label arrives. With
        ``only``, no other path is asked, and none costs anything.
        """
        put = self._put(items)
        asked = self._among(only)
        requests = [
            (self.episodes[path.name], put[item.name][path.view], item.candidates)
            for path in asked
            for item in items
        ]
        reads = [read.double().numpy() for read in self.learner.read_many(requests)]
        answers = {}
        for number, path in enumerate(asked):
            own = reads[number * len(items) : (number + 1) * len(items)]
            answers[path.name] = [with_offsets(read, path.offsets) for read in own]
        self.pending.update(put)
        self.events += 1
        return answers

    def hold(self, items: Sequence[Item]) -> None:
        """Keep questions that nobody answers until their labels arrive: history to learn from."""
        self.pending.update(self._put(items))
        self.events += 1

    def _among(self, only: Collection[str] | None) -> list[PathSpec]:
        return [path for path in self.paths if only is None or path.name in only]

    def drop(self, names: Iterable[str]) -> None:
        """Forget questions whose labels will never come: nothing is learned from them."""
        dropped = set(names)
        missing = sorted(dropped - set(self.pending))
        if missing:
            raise LarcError(f"{missing[0]!r} is to be dropped, but nothing awaits it.")
        for name in dropped:
            del self.pending[name]
        self.events += 1

    def _put(self, items: Sequence[Item]) -> dict[str, dict[str, str]]:
        put: dict[str, dict[str, str]] = {}
        for item in items:
            if item.name in self.pending or item.name in put:
                raise LarcError(f"{item.name!r} is asked already; name each question differently.")
            put[item.name] = dict(self.room.prompts(item))
        self._check_room_for(put)
        return put

    def arrive(
        self, items: Sequence[Item], only: Collection[str] | None = None
    ) -> dict[str, Update]:
        """Learn from labels that arrive together; returns what each learning path's update did.

        With ``only``, every other path stays as it is, and costs nothing.
        """
        names = Counter(item.name for item in items)
        for name, times in names.items():
            if name not in self.pending:
                raise LarcError(f"the label of {name!r} arrived, but it was never asked.")
            if times > 1:
                raise LarcError(f"the label of {name!r} arrives twice in one batch; give it once.")
        learning = [path for path in self._among(only) if path.learns]
        points = {path.name: _Point(self.episodes[path.name]) for path in learning}
        try:
            done = self._update(learning, items)
        except BaseException:  # a batch is learned by every path or by none
            for point in points.values():
                point.restore()
            raise
        self.room.learned(items)
        for item in items:
            del self.pending[item.name]
        self.events += 1
        return {path.name: done[path.name] for path in learning}

    def _update(self, learning: Sequence[PathSpec], items: Sequence[Item]) -> dict[str, Update]:
        """Update the states of some paths: those of one rule in one physical batch."""
        before: dict[str, Factors] = {}
        by_rule: dict[UpdateRule, list[tuple[str, Episode, list[Label]]]] = {}
        for path in learning:
            episode = self.episodes[path.name]
            if path.retention == "latest":
                episode.forget()
            before[path.name] = episode.factors
            labels = [self._label(path, episode, item) for item in items]
            by_rule.setdefault(episode.rule, []).append((path.name, episode, labels))
        done: dict[str, Update] = {}
        for rule, updates in by_rule.items():
            # Starts may differ within a batch; the rule may not.
            one = Learner(
                self.learner.substrate, self.learner.slow, rule, limits=self.learner.limits
            )
            made = one.update_many([(episode, labels) for _, episode, labels in updates])
            done |= dict(zip((name for name, _, _ in updates), made, strict=True))
        for path in learning:
            if path.scale != 1.0:
                moved = _shrink(self.episodes[path.name], before[path.name], path.scale)
                # What is kept of the step is not where the rule may have looked.
                done[path.name] = replace(done[path.name], distance=moved, after=None)
        return done

    def _label(self, path: PathSpec, episode: Episode, item: Item) -> Label:
        label = item.label
        if path.permuted:
            order = episode.stream.permutation(len(item.candidates))
            label = int(np.argsort(order)[label])  # the inverse permutation, applied to the target
        prompt = self.pending[item.name][path.view]
        return Label(prompt, item.candidates, label, path.offsets)

    # What a session holds ------------------------------------------------------------------------

    @property
    def pending_size(self) -> int:
        """Bytes of the feedback still awaited: names and prompts."""
        return _size(self.pending)

    @property
    def size(self) -> int:
        """Bytes of all live state: factors, random streams, the room's memory, what is awaited."""
        states = {id(episode): episode for episode in self.episodes.values()}.values()
        numbers = sum(4 * episode.factors.numbers for episode in states)
        streams = sum(len(str(episode.stream.bit_generator.state)) for episode in states)
        return numbers + streams + self.room.size + self.pending_size

    def _check_room_for(self, put: Mapping[str, Mapping[str, str]]) -> None:
        more = _size(put)
        for name, size, limit in (
            ("pending", self.pending_size + more, self.limits.pending),
            ("total", self.size + more, self.limits.total),
        ):
            if size > limit:
                raise SessionFull(
                    f"a session would hold {size} bytes, over its {name} limit of {limit}; "
                    "everything up to here is kept: raise the limit and carry on."
                )

    # Saving and going on -------------------------------------------------------------------------

    def save(self, path: str | Path, notes: Any = None) -> None:
        """Write everything the next event depends on to one file, with the caller's own notes."""
        tensors, episodes = {}, {}
        for spec in self.paths:
            episode = self.episodes[spec.name]
            tensors[f"{spec.name}.A"] = episode.factors.A
            tensors[f"{spec.name}.B"] = episode.factors.B
            episodes[spec.name] = {
                "step": episode.step,
                "stream": episode.stream.bit_generator.state,
                "slow": episode.slow.digest,
            }
        facts = {
            "rule": rule_facts(self.learner.rule),
            "paths": [asdict(spec) for spec in self.paths],
            "episodes": episodes,
            "pending": self.pending,
            "room": self.room.state(),
            "events": self.events,
            "notes": notes,
        }
        save_state(path, SESSION_FILE, tensors, facts)

    def restore(self, path: str | Path) -> Any:
        """Go back to a saved point of this same session; returns the notes saved with it."""
        tensors, facts = load_state(path, SESSION_FILE, SESSION_UPGRADES)
        with whole(path, SESSION_FILE):
            return self._restore(path, tensors, facts)

    def _restore(self, path: str | Path, tensors: Mapping[str, Tensor], facts: Any) -> Any:
        specs = [{**asdict(spec), "offsets": list(spec.offsets)} for spec in self.paths]
        if facts["paths"] != specs:
            raise LarcError(f"{path} is of a session with other paths; restore it with its own.")
        if facts["rule"] not in (None, rule_facts(self.learner.rule)):
            raise LarcError(
                f"{path} is of a session with the update rule {facts['rule']}, not "
                f"{self.learner.rule}; restore it with its own."
            )
        for spec in self.paths:
            saved = facts["episodes"][spec.name]
            if saved["slow"] != self.episodes[spec.name].slow.digest:
                raise LarcError(f"{path} started path {spec.name!r} from another slow state.")
        # Everything is made before anything is changed.
        device = self.learner.substrate.device
        states = []
        for spec in self.paths:
            saved, stream = facts["episodes"][spec.name], np.random.default_rng()
            factors = Factors(tensors[f"{spec.name}.A"], tensors[f"{spec.name}.B"]).to(device)
            factors.check_like(self.learner.slow.factors)
            stream.bit_generator.state = saved["stream"]
            states.append((factors, int(saved["step"]), stream))
        pending = {
            name: {str(view): str(text) for view, text in views.items()}
            for name, views in facts["pending"].items()
        }
        events, notes = int(facts["events"]), facts["notes"]
        self.room.restore(facts["room"])
        for spec, (factors, step, stream) in zip(self.paths, states, strict=True):
            episode = self.episodes[spec.name]
            episode.factors, episode.step, episode.stream = factors, step, stream
        self.pending, self.events = pending, events
        return notes


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
        self.stream = episode.stream.bit_generator.state

    def restore(self) -> None:
        self.episode.factors, self.episode.step = self.factors, self.step
        self.episode.stream.bit_generator.state = self.stream


def _shrink(episode: Episode, before: Factors, scale: float) -> float:
    """Keep a part of what an update changed; returns how far the factors are then."""
    # The realised float32 difference is scaled, which is not the same as a smaller step size.
    episode.factors = before.combine(
        episode.factors, lambda old, new: torch.add(old, new - old, alpha=scale)
    )
    return float(episode.factors.combine(before, torch.sub).norm())


def _size(put: Mapping[str, Mapping[str, str]]) -> int:
    def texts(views: Mapping[str, str]) -> Iterable[str]:
        return set(views.values())  # two views of one text are kept once

    return sum(
        len(name.encode()) + sum(len(text.encode()) for text in texts(views))
        for name, views in put.items()
    )
