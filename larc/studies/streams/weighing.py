"""Who builds on what others said: private words on a state, mixtures, and the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from larc.experts import WordLogistic
from larc.io.json_files import as_json
from larc.progress import Display
from larc.runs.engines import Files
from larc.runs.units import Unit
from larc.stream.question import Question
from larc.studies.streams.choosing import mean_loss
from larc.studies.streams.comparing import bare
from larc.studies.streams.names import (
    CONTROLLER,
    CONTROLLER_ALL,
    EXPERTS,
    KEEP,
    MIXTURE,
    PLAIN,
    RESET,
    WORDS,
    WORDS_ON_BOTH,
    WORDS_ON_KEEP,
    WORDS_ON_RESET,
    WORDS_ON_WORDS,
)
from larc.studies.streams.players import ExpertPlayer, MixturePlayer
from larc.studies.streams.settings import StreamsSettings
from larc.studies.streams.split import Stream
from larc.studies.streams.walking import rows_content, walk

#: What a state's log-probabilities are multiplied by, and two private steps.
Steps = tuple[float, float, float]
#: What was said to each question of each stream, by who said it.
Answers = Mapping[tuple[str, str], Mapping[str, Sequence[float]]]
#: Whose log-probabilities private words are added to.
STANDING = {
    WORDS_ON_WORDS: (WORDS,),
    WORDS_ON_RESET: (RESET,),
    WORDS_ON_KEEP: (KEEP,),
    WORDS_ON_BOTH: (KEEP, WORDS),
}
#: What these are multiplied by first, and the private steps of bias and words, to choose among.
POWERS = (0.5, 1.0)
BIAS_RATES, WORD_RATES = (0.05, 0.2, 0.4), (0.3, 1.0, 3.0, 6.0)
#: How many of the best paths a controller may be given, to choose among.
COUNTS = (2, 3, 4, 6)


def answers_of(rows: Sequence[Mapping[str, Any]]) -> Answers:
    """Return rows by question.

    Examples
    --------
    >>> answers_of([{"stream": "s", "name": "a", "path": "KEEP", "policy": [0.5, 0.5]}])
    {('s', 'a'): {'KEEP': [0.5, 0.5]}}
    """
    answers: dict[tuple[str, str], dict[str, Sequence[float]]] = {}
    for row in rows:
        answers.setdefault((row["stream"], row["name"]), {})[row["path"]] = row["policy"]
    return answers


def standing_rows(
    path: str,
    steps: Steps,
    answers: Answers,
    streams: Sequence[Stream],
    settings: StreamsSettings,
    display: Display,
) -> list[dict[str, Any]]:
    """Return what private words say on top of a state: its log-probabilities are their offset."""
    power, bias_rate, rate = steps
    rows = []
    for stream in streams:  # one at a time: what is stood on is looked up by a question's name

        def read(questions: Sequence[Question], name: str = stream[0].stream) -> list[Any]:
            return [product_of(answers[name, q.name], STANDING[path], power) for q in questions]

        expert = WordLogistic(path, size=settings.words, on=read, bias_rate=bias_rate, rate=rate)
        texts = [bare(stream)]
        rows += walk(texts, ExpertPlayer(expert.begin, texts), display, path)
    return rows


def product_of(
    answers: Mapping[str, Sequence[float]], paths: Sequence[str], power: float
) -> list[float]:
    """Return probabilities whose logarithms are a multiple of the sum of others'.

    Examples
    --------
    >>> product = product_of({"KEEP": [0.8, 0.2], "WORDS": [0.5, 0.5]}, ["KEEP", "WORDS"], 1.0)
    >>> [round(p, 9) for p in product]
    [0.8, 0.2]
    """
    logits = power * np.log(np.maximum([answers[path] for path in paths], 1e-12)).sum(0)
    odds = np.exp(logits - logits.max())
    policy: list[float] = (odds / odds.sum()).tolist()
    return policy


def mixed_rows(
    path: str, names: Sequence[str], answers: Answers, streams: Sequence[Stream], display: Display
) -> list[dict[str, Any]]:
    """Return what a forecaster makes of some paths."""
    return walk(streams, MixturePlayer(path, names, answers, streams), display, path)


def add_rows(answers: Answers, rows: Sequence[Mapping[str, Any]]) -> Answers:
    """Return what was said with some rows more."""
    more = answers_of(rows)
    return {key: {**told, **more.get(key, {})} for key, told in answers.items()}


@dataclass(frozen=True, kw_only=True)
class WeighTrial(Unit):
    """What is chosen for those that weigh: the steps of standing words, and whom to trust."""

    settings: StreamsSettings
    data: str
    answers: Answers
    streams: Sequence[Stream]

    @property
    def name(self) -> str:
        """The unit's name."""
        return f"weigh-{self.data}"

    def perform(self, display: Display) -> Files:
        """Try the steps, then how many of the best paths a controller is given."""
        tried: dict[str, float] = {}
        answers, rates = self.answers, {}
        for path in STANDING:
            options = {}
            for steps in product(POWERS, BIAS_RATES, WORD_RATES):
                rows = standing_rows(
                    path, steps, self.answers, self.streams, self.settings, display
                )
                options[steps] = (mean_loss(rows, path), rows)
                tried[f"{path} {' '.join(map(str, steps))}"] = options[steps][0]
            rates[path] = min(options, key=lambda steps: options[steps][0])
            answers = add_rows(answers, options[rates[path]][1])
        singles = [*EXPERTS, RESET, KEEP, *STANDING]
        losses = {path: answers_loss(answers, self.streams, path) for path in singles}
        ordered = sorted(singles, key=losses.__getitem__)
        counted = {}
        for count in COUNTS:
            names = ordered[:count]
            rows = mixed_rows(CONTROLLER, names, answers, self.streams, display)
            counted[count] = tried[f"{CONTROLLER} of {count}"] = mean_loss(rows, CONTROLLER)
        best = min(counted, key=counted.__getitem__)
        choice = {
            "rates": {path: list(steps) for path, steps in rates.items()},
            "trusted": ordered[:best],
            "tried": {**tried, **losses},
        }
        return {"weigh.json": as_json(choice)}


def answers_loss(answers: Answers, streams: Sequence[Stream], path: str) -> float:
    """Return the half-Brier loss of a path that has answered, streams weighed equally."""
    rows = [
        {
            "stream": item.stream,
            "path": path,
            "policy": answers[item.stream, item.name][path],
            "label": item.label,
        }
        for stream in streams
        for item in stream
    ]
    return mean_loss(rows, path)


@dataclass(frozen=True, kw_only=True)
class Weigh(Unit):
    """Test streams answered by those that build on what was said there, with one seed.

    Attributes
    ----------
    rates, trusted
        What was chosen on validation streams.
    everything
        Whether a controller of all that was said answers, too: with the first seed, that has all.
    """

    settings: StreamsSettings
    data: str
    seed: int
    answers: Answers
    streams: Sequence[Stream]
    rates: Mapping[str, Steps]
    trusted: Sequence[str]
    everything: bool = True

    @property
    def name(self) -> str:
        """The unit's name."""
        return f"test-{self.data}-weighed-{self.seed}"

    def perform(self, display: Display) -> Files:
        """Answer every question in causal order."""
        answers = self.answers
        rows: list[dict[str, Any]] = []
        for path in STANDING:
            more = standing_rows(
                path, self.rates[path], self.answers, self.streams, self.settings, display
            )
            answers, rows = add_rows(answers, more), [*rows, *more]
        everybody = list(next(iter(answers.values())))
        free = [path for path in (*PLAIN, WORDS_ON_WORDS) if path in everybody]
        trusted = [path for path in self.trusted if path in everybody]
        weighers = {MIXTURE: free, CONTROLLER: trusted}
        if self.everything:
            weighers[CONTROLLER_ALL] = everybody
        for path, names in weighers.items():
            rows += mixed_rows(path, names, answers, self.streams, display)
        facts = {"data": self.data, "seed": self.seed}
        return {"predictions.parquet": rows_content([{**facts, **row} for row in rows])}


def whole_rows(
    rows: Sequence[Mapping[str, Any]], streams: Sequence[Stream]
) -> list[Mapping[str, Any]]:
    """Return the rows of who answered every question: what begins in the middle is left out."""
    asked = sum(map(len, streams))
    counts = Counter(row["path"] for row in rows)
    return [row for row in rows if counts[row["path"]] == asked]
