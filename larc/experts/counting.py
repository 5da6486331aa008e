"""Experts that look at labels alone: how often each came, and which came last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from larc.errors import LarcError
from larc.experts.base import (
    Floats,
    TextExpert,
    checked_streams,
    events_of,
    heads,
    replayed_loss,
)
from larc.stream.question import Labelled, Question, Recorded
from larc.stream.queue import Ask

# How many labels for each candidate the shares of training streams may count as.
_STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)


class LabelFrequencies(TextExpert):
    """How often each candidate was right so far, by its text.

    The slow part is how often it is right in training streams; it counts as much as ``strength``
    labels for each candidate, which fitting chooses. Not fitted, it is one label each: add-one
    smoothing.

    Examples
    --------
    >>> expert = LabelFrequencies()
    >>> question = Question("a", ("up", "down"))
    >>> expert.learn([Labelled(question, 0), Labelled(question, 0)])
    >>> expert.ask([question])
    {'FREQUENCIES': [[0.75, 0.25]]}
    """

    def __init__(self, name: str = "FREQUENCIES", *, strength: float = 1.0) -> None:
        if not strength > 0:
            raise LarcError(f"strength {strength} was given; give a positive number.")
        self.strength = self.first_strength = float(strength)
        self.shares: dict[str, float] = {}
        super().__init__(name)

    def forget(self) -> None:
        """Empty the counts."""
        self.counts: dict[str, int] = {}

    def probabilities(self, questions: Sequence[Question]) -> list[Floats]:
        """Return the smoothed frequencies of each question's candidates."""
        return [self._policy(question.candidates) for question in questions]

    def _policy(self, candidates: Sequence[str]) -> Floats:
        prior = np.array([self.shares.get(text, 0.0) for text in candidates])
        # What no training stream had counts as what was rarest there.
        known = prior[prior > 0]
        prior = np.where(prior > 0, prior, known.min() if len(known) else 1.0)
        prior *= self.strength * len(candidates) / prior.sum()
        counts = prior + np.array([self.counts.get(text, 0) for text in candidates])
        policy: Floats = counts / counts.sum()
        return policy

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Count labels."""
        for question, label in labelled:
            right = question.candidates[label]
            self.counts[right] = self.counts.get(right, 0) + 1

    def fit(self, streams: Iterable[Sequence[Recorded]], horizon: int = 0) -> Self:
        """Take how often each label was right where it was a candidate, streams counting alike.

        How much that counts is chosen on every second stream, from what the others say.
        """
        chosen = checked_streams(streams)
        if len(chosen) > 1:
            self._count(chosen[::2])
            best_of(self, "strength", _STRENGTHS, heads(chosen[1::2], horizon))
        self._count(chosen)
        self.forget()
        return self

    def _count(self, streams: list[list[Recorded]]) -> None:
        right: Counter[str] = Counter()
        offered: Counter[str] = Counter()
        for items in streams:
            for item in items:
                candidates = item.question.candidates
                right[candidates[item.right]] += 1 / len(items)  # type: ignore[assignment]
                for text in candidates:
                    offered[text] += 1 / len(items)  # type: ignore[assignment]
        self.shares = {text: right[text] / offered[text] for text in offered if right[text]}

    def facts(self) -> Mapping[str, Any]:
        """Return its settings: the strength from before a fit."""
        return {"strength": self.first_strength}

    def slow(self) -> Any:
        """Return the shares of training labels, and how much they count."""
        return {"shares": dict(self.shares), "strength": self.strength}

    def restore_slow(self, slow: Any) -> None:
        """Go back to shares of training labels."""
        self.strength = float(slow["strength"])
        self.shares = {str(text): float(share) for text, share in slow["shares"].items()}

    def state(self) -> Any:
        """Return the counts."""
        return dict(self.counts)

    def restore(self, state: Any) -> None:
        """Go back to saved counts."""
        self.counts = {str(text): int(count) for text, count in state.items()}


class LastLabel(TextExpert):
    """The last label that arrived, with a trust in it that is fitted on training streams.

    What is not given to the last label is shared by the others alike; before any label arrives,
    and where the last one is no candidate, all are alike.

    Examples
    --------
    >>> expert = LastLabel(trust=0.7)
    >>> question = Question("a", ("a", "b", "c", "d"))
    >>> expert.learn([Labelled(question, 1)])
    >>> [round(p, 9) for p in expert.ask([question])["LAST"][0]]
    [0.1, 0.7, 0.1, 0.1]
    """

    def __init__(self, name: str = "LAST", *, trust: float = 0.7) -> None:
        if not 0 < trust < 1:
            raise LarcError(f"trust {trust} was given; give a number between 0 and 1.")
        self.trust = self.first_trust = float(trust)
        super().__init__(name)

    def forget(self) -> None:
        """Forget the last label."""
        self.last: str | None = None

    def probabilities(self, questions: Sequence[Question]) -> list[Floats]:
        """Return a policy that expects the last label again."""
        policies = []
        for question in questions:
            candidates = question.candidates
            policy = np.full(len(candidates), 1 / len(candidates))
            if self.last in candidates and len(candidates) > 1:
                policy[:] = (1 - self.trust) / (len(candidates) - 1)
                policy[candidates.index(self.last)] = self.trust
            policies.append(policy)
        return policies

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Take the last of the labels that arrive together."""
        for question, label in labelled:
            self.last = question.candidates[label]

    def fit(self, streams: Iterable[Sequence[Recorded]], horizon: int = 0) -> Self:
        """Take how often the last label that had arrived was right again."""
        again = asked = 1.0  # as if it had been right once, and wrong once
        asked += 1.0
        for items in checked_streams(streams):
            fresh = self.begin()
            for event in events_of(items):
                if isinstance(event, Ask):
                    for item in event.items:
                        if fresh.last in item.question.candidates:
                            asked += 1
                            again += item.question.candidates[item.right] == fresh.last
                else:
                    fresh.learn([Labelled(item.question, item.right) for item in event.items])
        self.trust = again / asked
        self.forget()
        return self

    def facts(self) -> Mapping[str, Any]:
        """Return its settings: the trust from before a fit."""
        return {"trust": self.first_trust}

    def slow(self) -> Any:
        """Return the trust in the last label."""
        return {"trust": self.trust}

    def restore_slow(self, slow: Any) -> None:
        """Go back to a fitted trust."""
        self.trust = float(slow["trust"])

    def state(self) -> Any:
        """Return the last label."""
        return {"last": self.last}

    def restore(self, state: Any) -> None:
        """Go back to a last label."""
        self.last = None if state["last"] is None else str(state["last"])


def best_of(expert: TextExpert, name: str, values: Sequence[Any], streams: list[Any]) -> float:
    """Give a setting the value that has the lowest loss along training streams, and return that."""
    losses = []
    for value in values:
        setattr(expert, name, value)
        losses.append(replayed_loss(expert, streams))
    setattr(expert, name, values[int(np.argmin(losses))])
    return min(losses)
