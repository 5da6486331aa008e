"""The one error this package raises on purpose."""


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
