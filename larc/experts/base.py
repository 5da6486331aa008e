"""What experts for text have in common: a slow part, a private part, and exact files of both."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from larc.errors import LarcError
from larc.io.states import load_state, save_state, whole
from larc.stream.question import Labelled, Question, Recorded, with_labels
from larc.stream.queue import Arrive, Ask, order_events

EXPERT_FILE = "larc expert, version 1"
Floats = NDArray[np.float64]
#: What answers questions: probabilities of the candidates of each.
Reader = Callable[[Sequence[Question]], Sequence[Sequence[float] | Floats]]
E = TypeVar("E", bound="TextExpert")


class TextExpert:
    """An expert with a slow part, fitted on training streams, and a private part, learned online.

    A subclass says what it answers (`probabilities`), how it learns (`learn`), what both parts are
    as plain values, and how the slow part is fitted.

    Parameters
    ----------
    name
        Under which name it answers.
    """

    def __init__(self, name: str) -> None:
        if not name:
            raise LarcError("an expert has no name; give one.")
        self.names: tuple[str, ...] = (name,)
        self.forget()

    # What a subclass says -------------------------------------------------------------------------

    def probabilities(self, questions: Sequence[Question]) -> list[Floats]:
        """Return the probabilities of each question's candidates, from what has arrived so far."""
        raise TypeError(f"{type(self).__name__} does not say what it answers")

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Learn from labels that arrive together."""
        raise TypeError(f"{type(self).__name__} does not say how it learns")

    def forget(self) -> None:
        """Empty the private part."""
        raise TypeError(f"{type(self).__name__} does not say what is private")

    def fit(self: E, streams: Iterable[Sequence[Recorded]], horizon: int = 0) -> E:
        """Fit the slow part on training streams, and empty the private part; returns itself.

        Settings are chosen by the half-Brier loss of the first ``horizon`` questions of a stream,
        or of so many that they are 2,000 in all.
        """
        raise TypeError(f"{type(self).__name__} does not say how it is fitted")

    def facts(self) -> Mapping[str, Any]:
        """Return its settings as JSON values; they are the same wherever its files are read."""
        raise TypeError(f"{type(self).__name__} does not say what decides it")

    def slow(self) -> Any:
        """Return the slow part as JSON values."""
        raise TypeError(f"{type(self).__name__} does not say what is slow")

    def restore_slow(self, slow: Any) -> None:
        """Go back to a slow part."""
        raise TypeError(f"{type(self).__name__} does not say what is slow")

    def state(self) -> Any:
        """Return the private part as JSON values."""
        raise TypeError(f"{type(self).__name__} does not say what is private")

    def restore(self, state: Any) -> None:
        """Go back to a private part."""
        raise TypeError(f"{type(self).__name__} does not say what is private")

    # What follows ---------------------------------------------------------------------------------

    def ask(self, questions: Sequence[Question]) -> dict[str, list[list[float]]]:
        """Return probabilities for questions asked now, by the expert's name."""
        return {self.names[0]: [policy.tolist() for policy in self.probabilities(questions)]}

    def begin(self: E) -> E:
        """Return an expert for another stream: the same slow part, and nothing private."""
        other = copy(self)
        other.forget()
        return other

    def save(self, path: str | Path) -> None:
        """Write both parts to one file."""
        facts = {
            "expert": type(self).__name__,
            "name": self.names[0],
            "settings": dict(self.facts()),
            "slow": self.slow(),
            "private": self.state(),
        }
        save_state(path, EXPERT_FILE, {}, facts)

    def load(self: E, path: str | Path) -> E:
        """Go back to both parts of a file, refusing one of another expert; returns itself."""
        _, facts = load_state(path, EXPERT_FILE)
        with whole(path, EXPERT_FILE):
            kind, settings = facts["expert"], facts["settings"]
            if kind != type(self).__name__ or settings != dict(self.facts()):
                raise LarcError(
                    f"{path} holds a {kind} of other settings ({settings}); make one like it first."
                )
            self.names = (str(facts["name"]),)
            self.restore_slow(facts["slow"])
            self.restore(facts["private"])
        return self


def load_expert(path: str | Path, expert: E) -> E:
    """Return an expert as it was saved, both parts bit for bit.

    Examples
    --------
    >>> import tempfile
    >>> from larc.experts import LastLabel
    >>> place, last = tempfile.mktemp(), LastLabel()
    >>> last.learn([Labelled(Question("a", ("up", "down")), 1)])
    >>> last.save(place)
    >>> load_expert(place, LastLabel()).state()
    {'last': 'down'}
    """
    return expert.load(path)


def events_of(items: Sequence[Recorded]) -> Iterator[Ask[Recorded] | Arrive[Recorded]]:
    """Return a training stream in causal order."""
    return order_events(
        items,
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    )


#: The most questions that settings are chosen on, where nobody says how many of a stream.
TUNED_ON = 2000


def heads(streams: Sequence[Sequence[Recorded]], horizon: int = 0) -> list[list[Recorded]]:
    """Return the first questions of each stream, that settings are chosen on."""
    share = horizon or max(2, TUNED_ON // len(streams))
    return [sorted(items, key=lambda i: (i.asked, i.name))[:share] for items in streams]


def replayed_loss(expert: TextExpert, streams: Sequence[Sequence[Recorded]]) -> float:
    """Return the half-Brier loss of an expert along streams, which weigh equally.

    Each begins with a private part of its own.
    """
    means = []
    for items in streams:
        losses: list[float] = []
        fresh = expert.begin()
        for event in events_of(items):
            if isinstance(event, Ask):
                answers = fresh.probabilities([item.question for item in event.items])
                losses += [
                    0.5 * float(policy @ policy - 2 * policy[item.right] + 1)
                    for policy, item in zip(answers, event.items, strict=True)
                ]
            else:
                fresh.learn([Labelled(item.question, item.right) for item in event.items])
        means.append(float(np.mean(losses)))
    return float(np.mean(means))


def checked_streams(streams: Iterable[Sequence[Recorded]]) -> list[list[Recorded]]:
    """Return training streams without what never gets a label, refusing what are none."""
    checked = [list(items) for items in streams]
    if not checked or not all(
        items and all(isinstance(item, Recorded) for item in items) for items in checked
    ):
        raise LarcError("an expert is fitted on streams; give lists of larc.Recorded, none empty.")
    labelled = [with_labels(items) for items in checked]
    if not all(labelled):
        raise LarcError("a stream to fit an expert on has no label; leave it out.")
    return labelled


def softmax(logits: Floats) -> Floats:
    """Return probabilities.

    Examples
    --------
    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    odds = np.exp(logits - logits.max())
    policy: Floats = odds / odds.sum()
    return policy


def pack_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as JSON values, bit for bit.

    Examples
    --------
    >>> unpack_array(pack_array(np.array([[0.1, 0.2]]))).tolist()
    [[0.1, 0.2]]
    """
    array = np.ascontiguousarray(array)
    data = base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def unpack_array(packed: Mapping[str, Any]) -> NDArray[Any]:
    """Return the array that was packed."""
    dtype = np.dtype(packed["dtype"])
    if dtype.kind not in "fiu":
        raise ValueError(f"an array of {dtype} is not one that was packed")
    values = np.frombuffer(base64.b64decode(packed["data"]), dtype.newbyteorder("<"))
    return values.astype(dtype).reshape(packed["shape"])
