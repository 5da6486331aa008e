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
