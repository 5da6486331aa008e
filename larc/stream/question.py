"""A question of a stream; its label comes later, by the question's name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from larc.checks import instance, listed
from larc.errors import LarcError, NotACandidate
from larc.feedback import checked_candidates

#: What a label may be: the index of the right candidate, its text, or a loss for each candidate.
LabelValue = int | str | Sequence[float]
#: What every label comes down to: the index of the right candidate, or a loss for each.
LabelIs = int | tuple[float, ...]


@dataclass(frozen=True)
class Question:
    """One question: a name, the candidates, and what is asked.

    Attributes
    ----------
    name
        A stable identifier, unique in its stream; its label comes by it.
    candidates
        The answers to choose among, two or more.
    prompt
        The question itself, for a prompter that puts it as it is.
    source
        What the prompter knows the question by, where a prompt alone does not say it.
    """

    name: str
    candidates: tuple[str, ...]
    prompt: str = ""
    source: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise LarcError(f"a question is called {self.name!r}; give its name as a text.")
        if not isinstance(self.prompt, str):
            raise LarcError(
                f"the prompt of {self.name!r} is of type {type(self.prompt).__name__}; give a text."
            )
        check_text(self.name, "name")
        check_text(self.prompt, f"prompt of {self.name!r}")
        object.__setattr__(self, "candidates", checked_candidates(self.candidates))

    def __repr__(self) -> str:
        known = "" if self.source is None else f", source={self.source!r}"
        prompt = self.prompt if len(self.prompt) <= 60 else f"{self.prompt[:57]}..."
        shown = f", prompt={prompt!r}" if self.prompt else ""
        return f"Question({self.name!r}, {list(self.candidates)}{shown}{known})"


def check_text(text: str, what: str) -> None:
    """Refuse a text that no UTF-8 file can hold.

    Examples
    --------
    >>> check_text("a", "name")
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LarcError(
            f"the {what} is no valid Unicode text; replace its lone surrogates."
        ) from None


class Labelled(NamedTuple):
    """A question whose label has arrived: the index of the right candidate."""

    question: Question
    label: int


@dataclass(frozen=True)
class Recorded:
    """An item of a replay: a question and its label side by side, and when each became known.

    Nothing live ever sees one: a replay takes it apart.

    Attributes
    ----------
    question
        What is asked.
    asked, arrives
        When it is asked and when its label arrives; ``None`` for never.
    label
        The index of the right candidate; ``None`` where it is not known and never arrives. Such a
        question is asked, teaches nothing, and is left out of every score.
    stream
        The stream it belongs to. Streams have clocks and states of their own.
    group
        Items of one group are averaged before groups are.
    """

    question: Question
    asked: float
    arrives: float | None
    label: int | None = None
    stream: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.question, Question):
            kind = type(self.question).__name__
            raise LarcError(f"a recorded item has a question of type {kind}; give larc.Question.")
        if self.label is None:
            if self.arrives is not None:
                raise LarcError(
                    f"{self.name!r} has no label, and it arrives at {self.arrives!r}; give the "
                    "label, or arrives=None."
                )
            return
        if isinstance(self.label, bool) or not isinstance(self.label, Integral):
            raise LarcError(f"the label of {self.name!r} is {self.label!r}; give an index.")
        if not 0 <= self.label < len(self.question.candidates):
            raise LarcError(f"the label of {self.name!r} names none of its candidates.")

    @property
    def name(self) -> str:
        """The question's name."""
        return self.question.name

    @property
    def right(self) -> int:
        """The label of an item that has one; refused where none is known."""
        if self.label is None:
            raise LarcError(f"{self.name!r} has no label; leave it out of what needs one.")
        return self.label

    def as_plain(self) -> Mapping[str, Any]:
        """Return it as the plain values that data are hashed by."""
        asked = self.question
        return {
            "name": asked.name,
            "asked": self.asked,
            "arrives": self.arrives,
            "candidates": list(asked.candidates),
            "label": self.label,
            "prompt": asked.prompt,
            "stream": self.stream,
            "group": self.group,
            "source": asked.source,
        }


def questions_of(items: Sequence[Recorded]) -> list[Question]:
    """Return what a replay's items ask."""
    return [item.question for item in items]


def with_labels(items: Sequence[Recorded]) -> list[Recorded]:
    """Return the items whose label is known, whether it arrives or not.

    Examples
    --------
    >>> asked = Question("a", ("up", "down"))
    >>> len(with_labels([Recorded(asked, 0, None), Recorded(asked, 0, None, label=1)]))
    1
    """
    return [item for item in items if item.label is not None]


def labels_of(items: Sequence[Recorded]) -> dict[str, int]:
    """Return the labels of a replay's items, by the names of their questions.

    Examples
    --------
    >>> labels_of([Recorded(Question("a", ("up", "down")), asked=0, arrives=5, label=1)])
    {'a': 1}
    """
    items = listed(items, "the items")
    for item in items:
        instance(item, "an item", Recorded)
    labels = {item.name: item.right for item in items}
    if len(labels) < len(items):
        names = [item.name for item in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise LarcError(f"the label of {twice!r} arrives twice in one batch.")
    return labels


def labels_by_text(items: Sequence[Recorded]) -> dict[str, str]:
    """Return the labels of a replay's items as the texts of their candidates.

    An item that arrives may order its candidates otherwise than its question did, so its index
    says nothing; its text does.

    Examples
    --------
    >>> labels_by_text([Recorded(Question("a", ("up", "down")), asked=0, arrives=5, label=1)])
    {'a': 'down'}
    """
    items = listed(items, "the items")
    indices = labels_of(items)
    return {item.name: item.question.candidates[indices[item.name]] for item in items}


def resolved(name: str, candidates: tuple[str, ...], label: LabelValue) -> LabelIs:
    """Return a label as an index or as losses, refusing one that is neither.

    Examples
    --------
    >>> [resolved("a", ("up", "down"), label) for label in ("down", 0, [0.25, 1])]
    [1, 0, (0.25, 1.0)]
    """
    if isinstance(label, str):
        if label in candidates:
            return candidates.index(label)
    elif isinstance(label, Integral) and not isinstance(label, bool):  # of numpy, too
        index = int(label)
        if 0 <= index < len(candidates):
            return index
    elif isinstance(label, Sequence) or hasattr(label, "__array__"):
        with suppress(TypeError, ValueError, OverflowError):
            losses = tuple(float(loss) for loss in np.asarray(label, dtype=np.float64))
            finite = all(math.isfinite(loss) for loss in losses)
            if finite and len(losses) == len(candidates) and not isinstance(label, bytes):
                return losses
    raise NotACandidate(
        name,
        f"the label {label!r} of {name!r} is none of its candidates; give the index of one of "
        f"{list(candidates)}, its text, or a finite loss for each.",
    )
