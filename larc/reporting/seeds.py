"""Rows by training seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from larc.reporting.tables import Cell


def short_seed(seed: int) -> str:
    """Return a seed as tables name it.

    Examples
    --------
    >>> short_seed(2026092811)
    '2811'
    """
    return str(seed)[-4:]


def seed_columns(seeds: Sequence[int], *first: str) -> tuple[str, ...]:
    """Return the columns of rows by seed, after those that say what a row is.

    Examples
    --------
    >>> seed_columns([2026092811], "Path")
    ('Path', '2811', 'Mean', 'Seed SD')
    """
    return (*first, *map(short_seed, seeds), "Mean", "Seed SD")


def seed_row(by_seed: NDArray[np.float64], *first: Cell) -> list[Cell]:
    """Return a row by seed with its mean and standard deviation; one seed deviates from none.

    Examples
    --------
    >>> seed_row(np.array([1.0, 3.0]), "CARRY")
    ['CARRY', 1.0, 3.0, 2.0, 1.414...]
    """
    deviation = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    return [*first, *map(float, by_seed), float(by_seed.mean()), deviation]
