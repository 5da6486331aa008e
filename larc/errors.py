"""The errors this package raises on purpose: `LarcError` and its kinds."""

from __future__ import annotations


class LarcError(ValueError):
    """Something was refused before any work was done; the sentence says what to do about it.

    Every deliberate refusal of this package is a ``LarcError`` (and so a ``ValueError``), raised
    with the states involved left exactly as they were.

    Examples
    --------
    >>> raise LarcError("two candidates are the same text; give each candidate once.")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: two candidates are the same text; give each candidate once.
    """


def reason(error: BaseException) -> str:
    r"""Return the first line of what somebody else's error says, to be part of a sentence.

    Examples
    --------
    >>> reason(OSError("the disk is gone\nat line 7")), reason(KeyError())
    ('the disk is gone', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class LabelRefused(LarcError):
    """A label that was not learned; ``name`` is the name of the question it came for.

    Each of the four reasons is a class of its own, so that a program can tell a label that was
    delivered twice (nothing to do) from one that says something else than before (to be corrected).

    Examples
    --------
    >>> try:
    ...     raise DuplicateLabel("a", "the label of 'a' is learned already.")
    ... except LabelRefused as refusal:
    ...     print(refusal.name, "-", refusal)
    a - the label of 'a' is learned already.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name

    def __reduce__(self) -> tuple[type[LabelRefused], tuple[str, str]]:
        return type(self), (self.name, str(self))


class NeverAsked(LabelRefused):
    """A label came for a name that was never asked, was dropped, or is long forgotten."""


class DuplicateLabel(LabelRefused):
    """A label came again, the same as before: it is learned already."""


class ConflictingLabel(LabelRefused):
    """A label came again, another than before: it is a correction."""


class NotACandidate(LabelRefused):
    """A label is neither an index nor a text of the candidates, nor a loss for each."""


class StalePlan(LarcError):
    """What was planned no longer holds, since its session has changed meanwhile: plan it again."""
