"""The symbolic rule: trust the observed losses and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from larc.errors import LarcError


def symbolic_choice(losses: Sequence[float]) -> int:
    """Return the index of the lowest loss, the first one where several are lowest.

    Examples
    --------
    >>> symbolic_choice([1, 0.25, 0.5, 0.25])
    1
    """
    if not losses:
        raise LarcError("there is nothing to choose from; give one loss per candidate.")
    return min(range(len(losses)), key=losses.__getitem__)
