"""Logistic regression over the candidates of a question: a slow part, a private part, an offset."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.experts.base import (
    Floats,
    Reader,
    TextExpert,
    checked_streams,
    heads,
    pack_array,
    softmax,
    unpack_array,
)
from larc.experts.counting import best_of
from larc.stream.question import Labelled, Question, Recorded

#: A question's features: indices, each once, and their values.
Features = tuple[NDArray[np.intp], Floats]
Extract = Callable[[Question], Features]
#: One number for each candidate of a question, such as how much of its name is in the text.
Match = Callable[[Question], Floats]
# Steps that fitting chooses among, of the bias and of the features.
_BIAS_RATES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_RATES = (0.0, 0.3, 1.0, 3.0, 10.0)
#: Ways to fit the slow part that fitting chooses among: the step of AdaGrad, passes over the
#: training questions in a seeded order, and the share that weights are drawn back by.
SLOW_FITS = tuple(product((0.03, 0.1, 0.3), (1, 4), (1e-4, 1e-2)))
# The most texts whose features are remembered.
_REMEMBERED = 8192
WORD = re.compile(r"[^\W_]+")


def named_in_text(question: Question) -> Floats:
    """Return for each candidate how much of its name is in the text.

    A part of a name counts if a word of the text begins with it, or is itself a beginning of it,
    of three letters or more: docs and documentation both have to do with doc.

    Examples
    --------
    >>> named_in_text(Question("a", ("bug fix", "docs"), prompt="fix the doc parser")).tolist()
    [0.5, 1.0]
    """
    text = question.source if isinstance(question.source, str) else question.prompt
    words = {word for word in WORD.findall(text.lower()) if len(word) > 2}
    shares = []
    for candidate in question.candidates:
        parts = WORD.findall(candidate.lower())
        told = (
            any(word.startswith(part) or part.startswith(word) for word in words) for part in parts
        )
        shares.append(sum(told) / max(1, len(parts)))
    return np.array(shares)


class Weights:
    """A weight for each feature and each label, labels by their text; the last row is a bias.

    ``dense`` says that every question has every feature, in order: then none is looked up.
    """

    def __init__(self, size: int, dense: bool = False) -> None:
        self.dense = dense
        self.columns: dict[str, int] = {}
        self.values: Floats = np.zeros((size + 1, 4))
        self._chosen: dict[tuple[str, ...], NDArray[np.intp]] = {}

    def of(self, candidates: tuple[str, ...], features: Features) -> Floats:
        """Return the candidates' scores; one that has no weights scores 0."""
        if not self.columns:
            return np.zeros(len(candidates))
        indices, values = features
        rows = self.values[:-1] if self.dense else self.values.take(indices, axis=0)
        scores = values @ rows + self.values[-1]
        # The last column of all is nobody's: what is not known is looked up there.
        return np.append(scores, 0.0)[self._columns_of(candidates)]

    def _columns_of(self, candidates: tuple[str, ...]) -> NDArray[np.intp]:
        chosen = self._chosen.get(candidates)
        if chosen is None:
            chosen = np.array([self.columns.get(text, -1) for text in candidates], dtype=np.intp)
            self._chosen[candidates] = chosen
        return chosen

    def add(
        self, candidates: tuple[str, ...], features: Features, by: Floats, bias: Floats
    ) -> None:
        """Add to the candidates' weights, times each feature's value, and to their biases."""
        for text in candidates:
            self._column(text)
        indices, values = features
        columns = self._columns_of(candidates)
        if self.dense:  # whole rows: what is nobody's is 0, and stays so
            steps = np.zeros(self.values.shape[1])
            steps[columns] = by
            self.values[:-1] += values[:, None] * steps
        else:  # indices and columns are distinct, so indexed addition misses none
            self.values[np.ix_(indices, columns)] += np.outer(values, by)
        self.values[-1, columns] += bias

    def _column(self, text: str) -> None:
        if text in self.columns:
            return
        self._chosen.clear()
        self.columns[text] = len(self.columns)
        if len(self.columns) > self.values.shape[1]:
            self.values = np.concatenate([self.values, np.zeros_like(self.values)], axis=1)

    def pack(self) -> Any:
        """Return them as JSON values: the rows that are not zero."""
        values = self.values[:, : len(self.columns)]
        rows = np.flatnonzero(values.any(axis=1))
        return {
            "labels": list(self.columns),
            "rows": pack_array(rows.astype(np.int64)),
            "values": pack_array(values[rows]),
        }

    @staticmethod
    def unpack(packed: Mapping[str, Any], size: int, dense: bool = False) -> Weights:
        """Return the weights that were packed."""
        weights = Weights(size, dense)
        for text in packed["labels"]:
            weights._column(str(text))
        rows, values = unpack_array(packed["rows"]), unpack_array(packed["values"])
        if len(rows):
            weights.values[rows, : len(weights.columns)] = values
        return weights


class Logistic(TextExpert):
    """A linear model of a question's features, softmax over its candidates.

    The slow part is fitted on training streams. The private part, a bias and weights of the same
    features, takes a gradient step on each label that arrives, from nothing. With ``on`` it stands
    on something that answers, a state say: its log-probabilities take the place of the slow part.

    Parameters
    ----------
    extract, size
        From a question to its features, and how many there are.
    match
        A further feature of each candidate, with one slow weight for all of them: the only one that
        says anything of a candidate that no training stream had.
    name
        Under which name it answers.
    on
        What it stands on: returns probabilities for questions asked now.
    bias_rate, rate
        The private steps, of the bias and of the features; 0 for none. Fitting chooses them anew,
        with the way that the slow part is fitted.
    seed
        Of the order of training questions.
    """

    #: Whether every question has all features, in order.
    dense = False

    def __init__(
        self,
        extract: Extract,
        size: int,
        name: str = "LOGISTIC",
        *,
        match: Match | None = None,
        on: Reader | None = None,
        bias_rate: float = 0.1,
        rate: float = 0.3,
        seed: int = 0,
    ) -> None:
        if min(bias_rate, rate) < 0 or size < 1:
            raise LarcError("rates are 0 or more, and the size is above 0.")
        self.extract, self.size, self.match, self.on = extract, size, match, on
        self.match_weight = 0.0
        self.bias_rate, self.rate = float(bias_rate), float(rate)
        self.slow_fit, self.seed = SLOW_FITS[0], seed
        self._first = {"bias_rate": self.bias_rate, "rate": self.rate}
        self.weights = Weights(size, self.dense)
        self._known: dict[tuple[str, str], Features] = {}
        super().__init__(name)

    def forget(self) -> None:
        """Empty the private weights, and what is kept of questions that were asked."""
        self.private = Weights(self.size, self.dense)
        #: What it stood on when a question was asked, until its label arrives.
        self.stood: dict[str, Floats] = {}

    def features(self, question: Question) -> Features:
        """Return a question's features; those of a text are computed once."""
        key = (question.prompt, question.name if question.source is not None else "")
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[key] = self.extract(question)
        return known

    def probabilities(self, questions: Sequence[Question]) -> list[Floats]:
        """Return the model's probabilities, from the labels that have arrived."""
        if self.on is not None:
            for question, policy in zip(questions, self.on(questions), strict=True):
                # A probability of 0 in float32 is one that was too small for it.
                kept = np.log(np.maximum(np.asarray(policy, dtype=np.float64), 1e-12))
                self.stood[question.name] = kept
        return [softmax(self._logits(question)) for question in questions]

    def _logits(self, question: Question) -> Floats:
        features, candidates = self.features(question), question.candidates
        below = self.stood.get(question.name)
        if below is None:
            below = self._slow_logits(question, self.weights, self.match_weight)
        return below + self.private.of(candidates, features)

    def _slow_logits(self, question: Question, weights: Weights, match_weight: float) -> Floats:
        logits = weights.of(question.candidates, self.features(question))
        if self.match is not None and match_weight:
            logits = logits + match_weight * self.match(question)
        return logits

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Take one private step on each label, all of them from the weights before the batch."""
        if self.on is not None:  # a label of a question that was never asked here
            missing = [q for q, _ in labelled if q.name not in self.stood]
            if missing:
                self.probabilities(missing)
        steps = []
        for question, label in labelled:
            slope = -softmax(self._logits(question))
            slope[label] += 1.0
            steps.append((question, slope))
        for question, slope in steps:
            by, bias = self.rate * slope, self.bias_rate * slope
            self.private.add(question.candidates, self.features(question), by, bias)
            self.stood.pop(question.name, None)

    def fit(self, streams: Iterable[Sequence[Recorded]], horizon: int = 0) -> Self:
        """Choose how to fit the slow weights, and the private steps; then fit on all streams.

        Both are chosen on every second stream, with slow weights that the others were fitted on.
        """
        if self.on is not None:
            raise LarcError(
                "an expert that stands on a state has no slow part; train the state instead."
            )
        chosen = checked_streams(streams)
        if len(chosen) > 1:
            self._choose(chosen[::2], heads(chosen[1::2], horizon))
        self.weights, self.match_weight = self._fitted(chosen, self.slow_fit)
        self.forget()
        return self

    def _choose(self, fitted: list[list[Recorded]], replayed: list[list[Recorded]]) -> None:
        best = (np.inf, self.slow_fit, self.bias_rate, self.rate)
        for how in SLOW_FITS:
            self.weights, self.match_weight = self._fitted(fitted, how)
            self.rate = 0.0
            best_of(self, "bias_rate", _BIAS_RATES, replayed)
            loss = best_of(self, "rate", _RATES, replayed)
            best = min(best, (loss, how, self.bias_rate, self.rate))
        _, self.slow_fit, self.bias_rate, self.rate = best

    def _fitted(
        self, streams: list[list[Recorded]], how: tuple[float, int, float]
    ) -> tuple[Weights, float]:
        slow_rate, epochs, decay = how
        weights, squares = Weights(self.size, self.dense), Weights(self.size, self.dense)
        match_weight, match_squares = 0.0, 1e-8
        items = [item for stream in streams for item in stream]
        order = np.random.default_rng(self.seed)
        for _ in range(epochs):
            for index in order.permutation(len(items)):
                question = items[index].question
                slope = -softmax(self._slow_logits(question, weights, match_weight))
                slope[items[index].right] += 1.0
                features = self.features(question)
                _adagrad(weights, squares, question.candidates, features, slope, slow_rate, decay)
                if self.match is not None:
                    pull = float(slope @ self.match(question))
                    match_squares += pull**2
                    match_weight += slow_rate * pull / match_squares**0.5
        return weights, match_weight

    def facts(self) -> Mapping[str, Any]:
        """Return its settings."""
        return {
            "size": self.size,
            "stands": self.on is not None,
            "seed": self.seed,
            **self._first,
        }

    def slow(self) -> Any:
        """Return the slow weights, how they were fitted, and the private steps that were chosen."""
        return {
            "fit": list(self.slow_fit),
            "weights": self.weights.pack(),
            "match_weight": self.match_weight,
            "bias_rate": self.bias_rate,
            "rate": self.rate,
        }

    def restore_slow(self, slow: Any) -> None:
        """Go back to slow weights and private steps."""
        slow_rate, epochs, decay = slow["fit"]
        self.slow_fit = (float(slow_rate), int(epochs), float(decay))
        self.weights = Weights.unpack(slow["weights"], self.size, self.dense)
        self.bias_rate, self.rate = float(slow["bias_rate"]), float(slow["rate"])
        self.match_weight = float(slow["match_weight"])

    def state(self) -> Any:
        """Return the private weights, and what it stood on for questions without a label."""
        stood = {name: pack_array(policy) for name, policy in self.stood.items()}
        return {"weights": self.private.pack(), "stood": stood}

    def restore(self, state: Any) -> None:
        """Go back to private weights."""
        private = Weights.unpack(state["weights"], self.size, self.dense)
        stood = {str(name): unpack_array(policy) for name, policy in state["stood"].items()}
        self.private, self.stood = private, stood


def _adagrad(
    weights: Weights,
    squares: Weights,
    candidates: tuple[str, ...],
    features: Features,
    slope: Floats,
    rate: float,
    decay: float,
) -> None:
    """Take one step of AdaGrad on one question's gradient."""
    indices, values = features
    for text in candidates:
        weights._column(text)
        squares._column(text)
    columns = weights._columns_of(candidates)
    block = np.ix_(np.append(indices, -1), columns)  # the last row is the bias
    gradient = np.outer(np.append(values, 1.0), slope)
    squares.values[block] += gradient**2
    here = weights.values[block]
    step = rate / np.sqrt(squares.values[block] + 1e-8)
    weights.values[block] = here + step * (gradient - decay * here)
