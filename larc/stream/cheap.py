"""Experts for any stream that read only the text: the last label, and a hashed linear model.

`larc.experts` has their like with a slow part. These need no training streams, and their size does
not grow: a `larc.experts.WordLogistic` of four labels holds 262 KB and saves 227 KB after 200
tickets, and grows with every new label, where `HashedLogistic` holds 32 KB and saves at most 65,
whatever is asked. A service that keeps a state for whoever asks needs such a limit.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.stream.question import Labelled, Question

LAST = "LAST"
HASHED = "HASHED"
_WORD = re.compile(r"\w+")


class RepeatedLabel:
    """The last label comes again, as often as labels have come again so far.

    Examples
    --------
    >>> expert, question = RepeatedLabel(), Question("a", ("up", "down"))
    >>> expert.ask([question])
    {'LAST': [[0.5, 0.5]]}
    >>> expert.learn([Labelled(question, 0), Labelled(question, 0)])
    >>> [round(p, 3) for p in expert.ask([question])["LAST"][0]]
    [0.667, 0.333]
    """

    names = (LAST,)

    def __init__(self) -> None:
        self.last: str | None = None
        self.repeated = self.changed = 0

    def ask(self, questions: Sequence[Question]) -> dict[str, list[list[float]]]:
        """Return the chance of a repetition for the last label; the others share the rest."""
        again = (1 + self.repeated) / (2 + self.repeated + self.changed)
        policies = []
        for question in questions:
            count = len(question.candidates)
            if count == 1 or self.last not in question.candidates:
                policies.append([1 / count] * count)
                continue
            rest = (1 - again) / (count - 1)
            policies.append([again if text == self.last else rest for text in question.candidates])
        return {LAST: policies}

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Remember the last of the labels, and whether each was the one before it."""
        for question, label in labelled:
            right = question.candidates[label]
            if self.last in question.candidates:
                self.repeated += right == self.last
                self.changed += right != self.last
            self.last = right

    def state(self) -> Any:
        """Return the last label and the two counts."""
        return [self.last, self.repeated, self.changed]

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""
        self.last, self.repeated, self.changed = state


class HashedLogistic:
    """Logistic regression on the prompt's words and pairs of words, each with each candidate.

    Weights are found by a hash, so any word of any language has one, and two may share one.
    They follow AdaGrad on the log loss, one step for each label.

    Parameters
    ----------
    size
        How many weights there are.
    step_size
        How far the first step of a weight goes.

    Examples
    --------
    >>> expert = HashedLogistic()
    >>> bill = Question("a", ("billing", "support"), prompt="my invoice is wrong")
    >>> expert.learn([Labelled(bill, 0)] * 3)
    >>> again = Question("b", ("billing", "support"), prompt="about the invoice")
    >>> expert.ask([again])["HASHED"][0][0] > 0.6
    True
    """

    names = (HASHED,)

    def __init__(self, size: int = 4096, step_size: float = 0.3) -> None:
        self.step_size = step_size
        self.weights: NDArray[np.float32] = np.zeros(size, dtype=np.float32)
        self.squares: NDArray[np.float32] = np.zeros(size, dtype=np.float32)

    def ask(self, questions: Sequence[Question]) -> dict[str, list[list[float]]]:
        """Return the model's probabilities."""
        return {HASHED: [self._policy(self._features(one)).tolist() for one in questions]}

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Take one step for each label."""
        for question, label in labelled:
            features = self._features(question)
            residuals = self._policy(features)
            residuals[label] -= 1.0
            step = np.zeros(len(self.weights))
            for used, residual in zip(features, residuals.tolist(), strict=True):
                np.add.at(step, used, residual / np.sqrt(len(used)))
            moved = np.flatnonzero(step)
            self.squares[moved] += step[moved] ** 2
            self.weights[moved] -= self.step_size * step[moved] / np.sqrt(self.squares[moved])

    def state(self) -> Any:
        """Return the weights that were ever moved: where they are, and both numbers, as text."""
        moved = np.flatnonzero(self.squares).astype("<u4")
        return [_packed(moved), _packed(self.weights[moved]), _packed(self.squares[moved])]

    def restore(self, state: Any) -> None:
        """Go back to saved weights."""
        where, weights, squares = (
            np.frombuffer(base64.b64decode(text), kind)
            for text, kind in zip(state, ("<u4", "<f4", "<f4"), strict=True)
        )
        if (
            not len(where) == len(weights) == len(squares)
            or (len(where) and where.max() >= len(self.weights))
            or not (np.isfinite(weights).all() and np.isfinite(squares).all())
        ):
            raise LarcError("the saved weights of a hashed expert are damaged or of another size.")
        self.weights, self.squares = np.zeros_like(self.weights), np.zeros_like(self.squares)
        self.weights[where], self.squares[where] = weights, squares

    def _features(self, question: Question) -> list[NDArray[np.intp]]:
        words = [word.lower() for word in _WORD.findall(question.prompt)][-512:]
        pairs = [f"{first} {second}" for first, second in pairwise(words)]
        seen = sorted({"", *words, *pairs})
        return [
            np.array(
                [zlib.crc32(f"{text}\0{one}".encode()) % len(self.weights) for one in seen],
                dtype=np.intp,
            )
            for text in question.candidates
        ]

    def _policy(self, features: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
        sums = [float(self.weights[used].sum(dtype=np.float64)) for used in features]
        scores = np.array(sums) / np.sqrt([len(used) for used in features])
        odds = np.exp(scores - scores.max())
        policy: NDArray[np.float64] = odds / odds.sum()
        return policy


def _packed(values: NDArray[Any]) -> str:
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()
