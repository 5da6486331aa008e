"""Prompts that show recent labelled cases of the stream before the question."""

from __future__ import annotations

from collections.abc import Callable

from larc.stream.question import Labelled, Question


class Cases:
    r"""What prompts of several streams show: the most recent cases that fit, latest last.

    Parameters
    ----------
    streams
        How many streams there are.
    most
        How many cases a prompt shows.
    fits
        Says whether a prompt is short enough; the oldest cases go until it is.

    Examples
    --------
    >>> cases = Cases(1, most=2, fits=lambda prompt: len(prompt) < 40)
    >>> question = Question("a", ("bank", "shop"), prompt="Lost card\nAnswer: ")
    >>> cases.prompt(0, question)
    'Lost card\nAnswer: '
    >>> cases.learn(0, Labelled(question, 0))
    >>> print(cases.prompt(0, Question("b", ("bank", "shop"), prompt="No tea\nAnswer: ")))
    Lost card
    Answer: bank
    <BLANKLINE>
    No tea
    Answer:
    """

    def __init__(self, streams: int, most: int, fits: Callable[[str], bool]) -> None:
        self.most, self.fits = most, fits
        self.shown: list[list[str]] = [[] for _ in range(streams)]

    def prompt(self, stream: int, question: Question) -> str:
        """Return a question's prompt with the cases that are known now."""
        shown = self.shown[stream]
        for first in range(len(shown)):
            prompt = "\n\n".join([*shown[first:], question.prompt])
            if self.fits(prompt):
                return prompt
        return question.prompt

    def copied(self, stream: int) -> Cases:
        """Return the cases of one stream as they are now; the others' are empty."""
        other = Cases(len(self.shown), self.most, self.fits)
        other.shown[stream] = list(self.shown[stream])
        return other

    def learn(self, stream: int, labelled: Labelled) -> None:
        """Remember a case whose label has arrived."""
        question, label = labelled
        case = question.prompt + question.candidates[label]
        self.shown[stream] = [*self.shown[stream], case][-self.most :]
