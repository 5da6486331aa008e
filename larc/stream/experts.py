"""Experts: predictors beside the states of a stream, which need no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from larc.errors import LarcError
from larc.plugins import is_object_name, load_object
from larc.stream.cheap import HashedLogistic, RepeatedLabel
from larc.stream.question import Labelled, Question

PRIOR = "PRIOR"


class Expert(Protocol):
    """Answers the questions of a stream at the times at which the states do.

    One object may answer under several names.
    """

    @property
    def names(self) -> Sequence[str]:
        """Who answers."""

    def ask(self, questions: Sequence[Question]) -> Mapping[str, Sequence[Sequence[float]]]:
        """Return probabilities for questions asked now, by the name of who gives them."""

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Learn from labels that arrive together."""

    def state(self) -> Any:
        """Return everything the next event depends on, as JSON values."""

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""


class LabelFrequency:
    """How often each candidate was right so far, by its text, with one added to every count.

    Examples
    --------
    >>> prior = LabelFrequency()
    >>> question = Question("a", ("up", "down"))
    >>> prior.ask([question])
    {'PRIOR': [[0.5, 0.5]]}
    >>> prior.learn([Labelled(question, 0), Labelled(question, 0)])
    >>> prior.ask([question])
    {'PRIOR': [[0.75, 0.25]]}
    """

    names = (PRIOR,)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def ask(self, questions: Sequence[Question]) -> dict[str, list[list[float]]]:
        """Return the frequencies of each question's candidates among the labels so far."""
        policies = []
        for question in questions:
            counts = [1 + self.counts.get(text, 0) for text in question.candidates]
            policies.append([count / sum(counts) for count in counts])
        return {PRIOR: policies}

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Count labels."""
        for question, label in labelled:
            right = question.candidates[label]
            self.counts[right] = self.counts.get(right, 0) + 1

    def state(self) -> Any:
        """Return the counts."""
        return self.counts

    def restore(self, state: Any) -> None:
        """Go back to saved counts."""
        self.counts = dict(state)


EXPERTS: dict[str, Callable[[], Expert]] = {
    "prior": LabelFrequency,
    "last": RepeatedLabel,
    "hashed": HashedLogistic,
}


def make_expert(text: str) -> Expert:
    """Return the expert of a registered name, or of ``module:Class``.

    Examples
    --------
    >>> make_expert("prior").names
    ('PRIOR',)
    """
    if text in EXPERTS:
        return EXPERTS[text]()
    if not is_object_name(text):
        raise LarcError(
            f"there is no expert {text!r}; give one of {', '.join(EXPERTS)}, or module:Class."
        )
    expert: Expert = load_object(text, "expert")()
    return expert
