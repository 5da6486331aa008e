"""Hashed words and pairs of words: what a text says without a model."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from larc.experts.base import Floats, Reader
from larc.experts.logistic import WORD, Extract, Features, Logistic, named_in_text
from larc.learner import Episode
from larc.stream.question import Question


def hashed_words(size: int) -> Extract:
    """Return what turns a question's prompt into its words and pairs of neighbouring words.

    Lower case; each counts once, and a text of any length has length one. The index is CRC-32
    modulo the size: the same on every machine.

    Examples
    --------
    >>> indices, values = hashed_words(1024)(Question("a", ("x", "y"), prompt="Fix the build"))
    >>> len(indices), round(float(values @ values), 9)
    (5, 1.0)
    """

    def extract(question: Question) -> Features:
        words = WORD.findall(question.prompt.lower())
        texts = {*words, *(f"{first} {second}" for first, second in pairwise(words))}
        hashed = {zlib.crc32(text.encode()) % size for text in texts}
        indices = np.array(sorted(hashed), dtype=np.intp)
        return indices, np.full(len(indices), 1 / np.sqrt(max(1, len(indices))))

    return extract


class WordLogistic(Logistic):
    """Logistic regression on hashed words and pairs, with a private bias and private words.

    Parameters
    ----------
    name
        Under which name it answers.
    size
        How many indices words are hashed to.
    on
        What it stands on in place of a slow part: `reading` of a state's episode, say.
    bias_rate, rate, seed
        As of `Logistic`.

    Examples
    --------
    >>> expert = WordLogistic(rate=1.0)
    >>> def ticket(name, text):
    ...     return Question(name, ("billing", "fault"), prompt=text)
    >>> from larc.stream.question import Labelled
    >>> expert.learn([Labelled(ticket("1", "the lamp is dark"), 1),
    ...               Labelled(ticket("2", "charged twice"), 0)])
    >>> policy = expert.ask([ticket("3", "my lamp went dark")])["WORDS"][0]
    >>> policy[1] > policy[0]
    True
    """

    def __init__(
        self,
        name: str = "WORDS",
        *,
        size: int = 8192,
        on: Reader | None = None,
        bias_rate: float = 0.1,
        rate: float = 0.3,
        seed: int = 0,
    ) -> None:
        super().__init__(
            hashed_words(size),
            size,
            name,
            match=named_in_text,
            on=on,
            bias_rate=bias_rate,
            rate=rate,
            seed=seed,
        )


def reading(episode: Episode) -> Reader:
    """Return what answers questions with an episode's current state, for an expert to stand on.

    Examples
    --------
    >>> import larc
    >>> from larc.stream.question import Labelled
    >>> substrate = larc.load_substrate("tiny")
    >>> episode = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1)).begin()
    >>> expert = WordLogistic("ON_STATE", on=reading(episode))
    >>> question = Question("a", ("up", "down"), prompt="Next: ")
    >>> said = expert.ask([question])["ON_STATE"][0]
    >>> abs(said[0] - float(episode.read("Next: ", ("up", "down"))[0])) < 1e-6
    True
    >>> expert.learn([Labelled(question, 0)])
    >>> expert.ask([Question("b", ("up", "down"), prompt="Next: ")])["ON_STATE"][0][0] > said[0]
    True
    """

    def read(questions: Sequence[Question]) -> list[Floats]:
        asked = [(episode, question.prompt, question.candidates) for question in questions]
        return [policy.double().numpy() for policy in episode.learner.read_many(asked)]

    return read
