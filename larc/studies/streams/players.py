"""Players of streams: states inside the frozen model, experts, and who weighs what others said."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from larc.feedback import Label
from larc.learner import Episode, Learner
from larc.stream.experts import Expert
from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from larc.stream.question import Labelled, Recorded
from larc.studies.streams.cases import Cases
from larc.studies.streams.split import Stream
from larc.studies.streams.walking import Arrived, Asked, Said
from larc.studies.streams.ways import AGAIN, FROZEN, Way

WHOLE = ""


def lane_name(path: str, lane: str) -> str:
    """Return who answers in a lane: the path itself, frozen from the middle on, or begun anew.

    Examples
    --------
    >>> lane_name("KEEP", WHOLE), lane_name("KEEP", FROZEN)
    ('KEEP', 'KEEP FROZEN')
    """
    return f"{path} {lane}".strip()


class StatePlayer:
    """A private state for each stream, all read and updated in shared physical batches.

    Parameters
    ----------
    learner
        Reads and updates, by the way's rule.
    way, path
        What is done, and what it is called in the rows.
    streams
        What is played.
    seed
        Of the private random streams, one for each stream by its name.
    cases
        What prompts show of earlier cases; none where the way shows none.
    fork
        Whether frozen and new states answer beside it from the middle of a stream on.
    """

    def __init__(
        self,
        learner: Learner,
        way: Way,
        path: str,
        streams: Sequence[Stream],
        *,
        seed: int,
        cases: Cases | None = None,
        fork: bool = False,
    ) -> None:
        self.learner, self.way, self.path = learner, way, path
        self.fork = fork and way.learns
        self.seeds = [stream_seed(seed, stream) for stream in streams]
        self.episodes: dict[tuple[str, int], Episode] = {
            (WHOLE, number): learner.begin(self.seeds[number]) for number in range(len(streams))
        }
        #: What the prompts of a lane show of earlier cases.
        self.cases: dict[tuple[str, int], Cases] = {}
        if cases is not None:
            self.cases = dict.fromkeys(self.episodes, cases)
        self.prompts: dict[tuple[str, int, str], str] = {}

    def lanes(self, stream: int) -> list[str]:
        """Return the lanes of a stream that answer now."""
        return [lane for lane in (WHOLE, FROZEN, AGAIN) if (lane, stream) in self.episodes]

    def ask(self, asked: Sequence[Asked]) -> list[Said]:
        """Answer questions of several streams."""
        requests, owners = [], []
        for number, one in enumerate(asked):
            question = one.item.question
            for lane in self.lanes(one.stream):
                key = lane, one.stream
                episode, cases = self.episodes[key], self.cases.get(key)
                prompt = (
                    cases.prompt(one.stream, question) if cases is not None else question.prompt
                )
                self.prompts[lane, one.stream, question.name] = prompt
                requests.append((episode, prompt, question.candidates))
                owners.append((number, lane))
        answers: list[dict[str, Sequence[float]]] = [{} for _ in asked]
        with self.learner.substrate.ledger.operation("read"):
            reads = self.learner.read_many(requests)
        for (number, lane), read in zip(owners, reads, strict=True):
            answers[number][lane_name(self.path, lane)] = normalised(read.double().tolist())
        return list(answers)

    def learn(self, arrived: Sequence[Arrived]) -> None:
        """Learn from labels of several streams."""
        updates: list[tuple[Episode, list[Label]]] = []
        for one in arrived:
            for lane, items in ((WHOLE, one.items), (AGAIN, one.fresh)):
                key = lane, one.stream
                episode, cases = self.episodes.get(key), self.cases.get(key)
                if self.way.learns and episode is not None and items:
                    if self.way.retention == "latest":
                        episode.forget()
                    feedback = [self._label(episode, key, item) for item in items]
                    updates.append((episode, feedback))
                if cases is not None:
                    for item in items:
                        cases.learn(one.stream, Labelled(item.question, item.right))
            for item in one.items:
                for lane in (WHOLE, FROZEN, AGAIN):
                    self.prompts.pop((lane, one.stream, item.name), None)
        with self.learner.substrate.ledger.operation("update"):
            self.learner.update_many(updates)

    def _label(self, episode: Episode, key: tuple[str, int], item: Recorded) -> Label:
        label, candidates = item.right, item.question.candidates
        if self.way.sham:
            label = int(episode.stream.permutation(len(candidates))[label])
        return Label(self.prompts[(*key, item.name)], candidates, label)

    def turn(self, stream: int) -> None:
        """Let a frozen copy of the state and a new one answer beside it."""
        if self.fork:
            self.episodes[FROZEN, stream] = self.episodes[WHOLE, stream].fork()
            self.episodes[AGAIN, stream] = self.learner.begin(self.seeds[stream])
            if (WHOLE, stream) in self.cases:
                shown = self.cases[WHOLE, stream]
                self.cases[FROZEN, stream] = shown.copied(stream)
                self.cases[AGAIN, stream] = Cases(len(self.seeds), shown.most, shown.fits)


class ExpertPlayer:
    """An expert for each stream, and from its middle on a frozen copy and a new one.

    Parameters
    ----------
    make
        Makes an expert that has learned nothing private yet.
    streams
        What is played.
    fork
        Whether copies answer from the middle on.
    """

    def __init__(
        self, make: Callable[[], Expert], streams: Sequence[Stream], *, fork: bool = False
    ) -> None:
        self.make, self.fork = make, fork
        self.experts: dict[tuple[str, int], Expert] = {
            (WHOLE, number): make() for number in range(len(streams))
        }

    def ask(self, asked: Sequence[Asked]) -> list[Said]:
        """Answer questions of several streams."""
        answers: list[Said] = []
        for one in asked:
            said: dict[str, Sequence[float]] = {}
            for lane in (WHOLE, FROZEN, AGAIN):
                expert = self.experts.get((lane, one.stream))
                if expert is not None:
                    for path, policies in expert.ask([one.item.question]).items():
                        said[lane_name(path, lane)] = normalised(policies[0])
            answers.append(said)
        return answers

    def learn(self, arrived: Sequence[Arrived]) -> None:
        """Learn from labels of several streams."""
        for one in arrived:
            for lane, items in ((WHOLE, one.items), (AGAIN, one.fresh)):
                expert = self.experts.get((lane, one.stream))
                if expert is not None and items:
                    expert.learn([Labelled(item.question, item.right) for item in items])

    def turn(self, stream: int) -> None:
        """Let a frozen copy of the expert and a new one answer beside it."""
        if self.fork:
            frozen = self.make()
            frozen.restore(self.experts[WHOLE, stream].state())
            self.experts[FROZEN, stream] = frozen
            self.experts[AGAIN, stream] = self.make()


class MixturePlayer:
    """A forecaster for each stream, which weighs what others said to its questions.

    Parameters
    ----------
    path
        What it is called in the rows.
    names
        Whom it listens to.
    said
        What each of them said to each question of each stream, by the stream's name and its own.
    streams
        What is played.
    settings
        How trust is learned.
    """

    def __init__(
        self,
        path: str,
        names: Sequence[str],
        said: Mapping[tuple[str, str], Mapping[str, Sequence[float]]],
        streams: Sequence[Stream],
        settings: ForecasterSettings | None = None,
    ) -> None:
        self.path, self.names, self.answers = path, tuple(names), said
        self.forecasters = [Forecaster(self.names, settings) for _ in streams]

    def ask(self, asked: Sequence[Asked]) -> list[Said]:
        """Answer questions of several streams."""
        answers: list[Said] = []
        for one in asked:
            given = self.answers[one.item.stream, one.item.name]
            policies = {name: given[name] for name in self.names}
            forecast = self.forecasters[one.stream].predict(one.item.name, policies)
            answers.append({self.path: forecast.probabilities})
        return answers

    def learn(self, arrived: Sequence[Arrived]) -> None:
        """Learn whom to trust from labels of several streams."""
        for one in arrived:
            labels = [(item.name, item.right) for item in one.items]
            self.forecasters[one.stream].learn(labels)

    def turn(self, stream: int) -> None:
        """Go on as before."""


def normalised(policy: Sequence[float]) -> list[float]:
    """Return probabilities that sum to one in double precision.

    Examples
    --------
    >>> normalised([0.25, 0.25])
    [0.5, 0.5]
    """
    values: Any = np.asarray(policy, dtype=np.float64)
    result: list[float] = (values / values.sum()).tolist()
    return result


def stream_seed(seed: int, stream: Stream) -> int:
    """Return the seed of a stream's private random numbers: by its name, whoever is beside it."""
    name = hashlib.sha256(stream[0].stream.encode()).digest()
    mixed = np.random.SeedSequence([seed, int.from_bytes(name[:8], "little")])
    return int(mixed.generate_state(1, np.uint64)[0] >> 1)
