"""Experts on the frozen model's own features: activations that a state's boundary needs anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from larc.errors import LarcError
from larc.experts.base import (
    Floats,
    TextExpert,
    checked_streams,
    heads,
    pack_array,
    unpack_array,
)
from larc.experts.counting import LabelFrequencies, best_of
from larc.experts.logistic import Features, Logistic, named_in_text
from larc.questions import Limits, ask
from larc.scoring import layout_for
from larc.stream.question import Labelled, Question, Recorded
from larc.substrate.frozen import Substrate

# Widths of a case's neighbourhood that fitting chooses among.
_WIDTHS = (0.05, 0.1, 0.2, 0.4, 0.8)


class PooledFeatures:
    """A question's prompt as one vector: the mean of its activations, and the last of them.

    They are those that enter a boundary. A substrate keeps them for the states there, so that
    reading them again costs no model time.

    Parameters
    ----------
    substrate, boundary
        The frozen model, and where; 0 would be the embeddings alone.
    limits
        The token limits of the states that read the same questions.
    """

    def __init__(self, substrate: Substrate, boundary: int, limits: Limits | None = None) -> None:
        substrate.check_boundary(boundary)
        self.substrate, self.boundary, self.limits = substrate, boundary, limits
        self.size = 2 * substrate.width_at(boundary)
        self.centre: Floats = np.zeros(self.size)
        self.spread: Floats = np.ones(self.size)

    def raw(self, question: Question) -> Floats:
        """Return the vector as the model gives it."""
        encoded = ask(self.substrate, question.prompt, question.candidates, self.limits)
        row = layout_for(self.substrate, encoded).rows[0]
        hidden = self.substrate.activations([row], self.boundary)[0, : len(encoded.prompt)].float()
        pooled = np.concatenate([hidden.mean(0).cpu().numpy(), hidden[-1].cpu().numpy()])
        return pooled.astype(np.float64)

    def __call__(self, question: Question) -> Floats:
        """Return the vector, centred and scaled, of length one."""
        vector = (self.raw(question) - self.centre) / self.spread
        return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12))

    def fit(self, questions: Sequence[Question]) -> None:
        """Take centre and spread from training questions."""
        vectors = np.stack([self.raw(question) for question in questions])
        self.centre, self.spread = vectors.mean(0), vectors.std(0) + 1e-6

    def pack(self) -> Any:
        """Return centre and spread as JSON values."""
        return {"centre": pack_array(self.centre), "spread": pack_array(self.spread)}

    def restore(self, packed: Any) -> None:
        """Go back to a centre and a spread."""
        centre, spread = unpack_array(packed["centre"]), unpack_array(packed["spread"])
        if centre.shape != (self.size,) or spread.shape != (self.size,):
            raise ValueError("the features are of another width")
        self.centre, self.spread = centre, spread

    @property
    def facts(self) -> dict[str, Any]:
        """What the features are of."""
        return {"substrate": self.substrate.identity.digest, "boundary": self.boundary}


class FeatureReadout(Logistic):
    """A linear read-out of the frozen model's features, slow and private.

    Examples
    --------
    >>> import larc
    >>> pooled = PooledFeatures(larc.load_substrate("tiny"), boundary=2)
    >>> expert = FeatureReadout(pooled, rate=3.0)
    >>> question = Question("a", ("up", "down"), prompt="Rain all day: ")
    >>> expert.learn([Labelled(question, 0)])
    >>> policy = expert.ask([question])["READOUT"][0]
    >>> policy[0] > policy[1]
    True
    """

    dense = True

    def __init__(
        self,
        pooled: PooledFeatures,
        name: str = "READOUT",
        *,
        bias_rate: float = 0.1,
        rate: float = 0.3,
        seed: int = 0,
    ) -> None:
        self.pooled = copy(pooled)  # its scale is fitted with this expert
        everything = np.arange(pooled.size)

        def extract(question: Question) -> Features:
            return everything, self.pooled(question)

        super().__init__(
            extract,
            pooled.size,
            name,
            match=named_in_text,
            bias_rate=bias_rate,
            rate=rate,
            seed=seed,
        )

    def fit(self, streams: Iterable[Sequence[Recorded]], horizon: int = 0) -> Self:
        """Fit centre and spread of the features, then the read-out."""
        chosen = checked_streams(streams)
        self._known.clear()
        self.pooled.fit([item.question for items in chosen for item in items])
        return super().fit(chosen, horizon)

    def facts(self) -> Mapping[str, Any]:
        """Return its settings, and what its features are of."""
        return {**super().facts(), **self.pooled.facts}

    def slow(self) -> Any:
        """Return the slow weights, and centre and spread of the features."""
        return {**super().slow(), "features": self.pooled.pack()}

    def restore_slow(self, slow: Any) -> None:
        """Go back to a slow part."""
        self.pooled.restore(slow["features"])
        self._known.clear()
        super().restore_slow(slow)


class NearestCases(TextExpert):
    """The labels of cases alike: labelled questions weigh by how near their features are.

    A case weighs ``exp((similarity - 1) / width)``; the frequencies of labels so far count as much
    as one case at no distance. Fitting chooses the width. Each stream has its own cases.

    Parameters
    ----------
    pooled
        The features.
    name
        Under which name it answers.
    cases
        The most cases that are kept; the oldest goes first.
    width
        How far a case reaches.

    Examples
    --------
    >>> import larc
    >>> expert = NearestCases(PooledFeatures(larc.load_substrate("tiny"), boundary=2))
    >>> cold, hot = (Question(t, ("a", "b"), prompt=t) for t in ("it is cold: ", "HOT HOT HOT: "))
    >>> expert.learn([Labelled(cold, 0), Labelled(hot, 1)])
    >>> [[p[0] > p[1] for p in expert.ask([q])["NEAREST"]] for q in (cold, hot)]
    [[True], [False]]
    """

    def __init__(
        self,
        pooled: PooledFeatures,
        name: str = "NEAREST",
        *,
        cases: int = 512,
        width: float = 0.2,
    ) -> None:
        if cases < 1 or not width > 0:
            raise LarcError("the cases kept are one or more, and the width is above 0.")
        self.pooled, self.cases = copy(pooled), cases  # its scale is fitted with this expert
        self.width = self.first_width = float(width)
        self.frequencies = LabelFrequencies()
        self._known: dict[str, Floats] = {}
        super().__init__(name)

    def forget(self) -> None:
        """Forget all cases."""
        #: Grown by doubling to as many rows as cases are kept, then written in turns.
        self._vectors = np.zeros((0, self.pooled.size), dtype=np.float32)
        self._codes = np.zeros(0, dtype=np.intp)
        self._code_of: dict[str, int] = {}
        self._learned = 0  # cases learned, forgotten ones among them
        self.frequencies = self.frequencies.begin()

    @property
    def _held(self) -> int:
        return min(self._learned, self.cases)

    def _features(self, question: Question) -> Floats:
        known = self._known.get(question.prompt)
        if known is None:
            if len(self._known) >= self.cases * 8:
                self._known.clear()
            known = self._known[question.prompt] = self.pooled(question)
        return known

    def probabilities(self, questions: Sequence[Question]) -> list[Floats]:
        """Return what the labels of near cases say."""
        policies = self.frequencies.probabilities(questions)
        held = self._held
        if not held or not questions:
            return policies
        vectors = np.stack([self._features(question) for question in questions])
        similar = vectors.astype(np.float32) @ self._vectors[:held].T
        nearness = np.exp((similar.astype(np.float64) - 1) / self.width)
        for policy, near, question in zip(policies, nearness, questions, strict=True):
            # One more than there are labels: a candidate that no case has is nobody's.
            sums = np.bincount(self._codes[:held], near, len(self._code_of) + 1)
            policy += sums[[self._code_of.get(text, -1) for text in question.candidates]]
            policy /= policy.sum()
        return policies

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Keep the cases."""
        self.frequencies.learn(labelled)
        for question, label in labelled:
            self._keep(self._features(question), question.candidates[label])

    def _keep(self, vector: Floats, label: str) -> None:
        """Keep a case in the place of the oldest, if there are as many as may be."""
        slot = self._learned % self.cases
        if slot >= len(self._codes):
            more = min(max(8, len(self._codes)), self.cases - len(self._codes))
            room = np.zeros((more, self.pooled.size), dtype=np.float32)
            self._vectors = np.concatenate([self._vectors, room])
            self._codes = np.concatenate([self._codes, np.zeros(more, dtype=np.intp)])
        self._vectors[slot] = vector
        self._codes[slot] = self._code_of.setdefault(label, len(self._code_of))
        self._learned += 1

    def fit(self, streams: Iterable[Sequence[Recorded]], horizon: int = 0) -> Self:
        """Fit the features' centre and spread and the frequencies, then choose the width."""
        chosen = checked_streams(streams)
        self._known.clear()
        self.pooled.fit([item.question for items in chosen for item in items])
        self.frequencies.fit(chosen, horizon)
        best_of(self, "width", _WIDTHS, heads(chosen, horizon))
        self.forget()
        return self

    def facts(self) -> Mapping[str, Any]:
        """Return its settings, and what its features are of."""
        return {"cases": self.cases, "width": self.first_width, **self.pooled.facts}

    def slow(self) -> Any:
        """Return the width, the frequencies of training labels, and the features' scale."""
        return {
            "width": self.width,
            "frequencies": self.frequencies.slow(),
            "features": self.pooled.pack(),
        }

    def restore_slow(self, slow: Any) -> None:
        """Go back to a slow part."""
        self.pooled.restore(slow["features"])
        self.frequencies.restore_slow(slow["frequencies"])
        self.width = float(slow["width"])
        self._known.clear()

    def state(self) -> Any:
        """Return the cases, and how many were learned: the next takes the oldest's place."""
        texts, held = list(self._code_of), self._held
        return {
            "vectors": pack_array(self._vectors[:held]),
            "labels": [texts[code] for code in self._codes[:held]],
            "learned": self._learned,
            "counts": self.frequencies.state(),
        }

    def restore(self, state: Any) -> None:
        """Go back to saved cases."""
        vectors, labels = unpack_array(state["vectors"]), [str(text) for text in state["labels"]]
        learned = int(state.get("learned", len(labels)))
        if vectors.shape != (len(labels), self.pooled.size) or len(labels) != min(
            learned, self.cases
        ):
            raise ValueError("cases and labels do not belong together")
        self.forget()
        for vector, label in zip(vectors, labels, strict=True):
            self._keep(vector, label)
        self._learned = learned
        self.frequencies.restore(state["counts"])
