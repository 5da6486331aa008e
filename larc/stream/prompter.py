"""Prompters: how a question is put, and what its prompt shows of labels that have arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from larc.checks import instance
from larc.errors import LarcError
from larc.plugins import is_object_name, load_object
from larc.stream.question import Labelled, Question

PLAIN = "plain"


class Prompter(Protocol):
    """Puts questions: with what it remembers of labels that have arrived, or without."""

    def prompts(self, question: Question) -> Mapping[str, str]:
        """Return the question's prompt under each view, from what has arrived so far."""

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Take in labels that have just arrived, after every state has learned from them."""

    def pack(self, source: Any) -> Any:
        """Return a question's source as JSON values, for a session that is saved."""

    def unpack(self, packed: Any) -> Any:
        """Return the source that was packed."""

    def state(self) -> Any:
        """Return what the prompter remembers, as JSON values."""

    def restore(self, state: Any) -> None:
        """Go back to a remembered state."""

    @property
    def size(self) -> int:
        """Bytes of what the prompter remembers."""


class PlainPrompter:
    """A prompter without a memory: every question is put as it is.

    Examples
    --------
    >>> PlainPrompter().prompts(Question("a", ("yes", "no"), prompt="Well? "))
    {'plain': 'Well? '}
    """

    size = 0

    def prompts(self, question: Question) -> Mapping[str, str]:
        """Return the question's own prompt as its one view."""
        instance(question, "question", Question)
        return {PLAIN: question.prompt}

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Remember nothing."""

    def pack(self, source: Any) -> Any:
        """Return the source, which has to be made of JSON values."""
        return source

    def unpack(self, packed: Any) -> Any:
        """Return what was packed."""
        return packed

    def state(self) -> Any:
        """Return nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Need nothing."""


PROMPTERS: dict[str, Callable[[], Prompter]] = {PLAIN: PlainPrompter}


def make_prompter(text: str) -> Prompter:
    """Return the prompter of a registered name, or of ``module:Class``.

    Examples
    --------
    >>> make_prompter("plain")
    <larc.stream.prompter.PlainPrompter object at ...>
    >>> make_prompter("plian")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: there is no prompter 'plian'; give one of plain, or module:Class.
    """
    if text in PROMPTERS:
        return PROMPTERS[text]()
    if not is_object_name(text):
        raise LarcError(
            f"there is no prompter {text!r}; give one of {', '.join(PROMPTERS)}, or module:Class."
        )
    prompter: Prompter = load_object(text, "prompter")()
    return prompter
