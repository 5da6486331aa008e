"""Paired bootstrap: whole groups drawn with replacement within their family, columns together.

Notes
-----
A percentile interval from few groups is somewhat narrow: the resampled mean of ``g`` groups has a
standard deviation ``sqrt((g - 1) / g)`` of what an unbiased estimate gives, and a family of one
group adds no variation at all. Such a family is accepted; its interval speaks of the others only.
Fewer than `LEAST_GROUPS` groups give no interval, and neither do families of one group each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from larc.errors import LarcError
from larc.evaluation.checks import Floats, finite_array
from larc.evaluation.weights import Labels, nested_weights, weighted_mean

RESAMPLES = 10_000
# Five intervals at 99 % cover together at 95 % (Bonferroni): one objective contrast and two (G, D).
LEVEL = 0.99

#: Of fewer groups the lowest resample, one group drawn every time, is more probable than a tail of
#: a 99 % interval (``g ** -g > 0.005``): its ends would be the extreme groups themselves.
LEAST_GROUPS = 4

# Work arrays hold at most this many numbers (32 MiB of float64), whatever the study's size.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Intervals:
    """A point estimate and a percentile interval for each column.

    Parameters
    ----------
    estimate, lower, upper
        One number per column.
    level
        The nominal coverage of each interval on its own.

    Where the groups are too few, ``lower`` and ``upper`` are NaN and `known` is false.
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    level: float

    @property
    def known(self) -> bool:
        """Whether there were groups enough for intervals."""
        return not bool(np.isnan(self.lower).any())


def bootstrap_intervals(
    values: ArrayLike,
    families: Labels,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Intervals:
    """Give each column its mean and the percentile interval of its resampled means.

    Parameters
    ----------
    values
        Group averages, of shape ``[groups, columns]``; a vector is one column.
    families
        One label per group. Groups are drawn within their family; families weigh equally.
    seed
        Names the draws. Calls with the same seed and the same families in the same order draw the
        same groups, so columns stay paired even across calls.
    resamples
        How many times the groups are drawn.
    level
        The coverage of each interval.

    Examples
    --------
    >>> values = [[0.1, 0.0], [0.3, 0.2], [0.2, 0.1], [0.4, 0.3]]
    >>> result = bootstrap_intervals(values, ["list", "list", "sum", "sum"], seed=0)
    >>> result.estimate.round(4), result.lower.round(4), result.upper.round(4)
    (array([0.25, 0.15]), array([0.15, 0.05]), array([0.35, 0.25]))
    """
    if not 0 < level < 1:
        raise LarcError(f"the level is {level}; give a coverage between 0 and 1, such as 0.99.")
    table, labels, weights = _prepared(values, families, resamples)
    tails = [(1 - level) / 2, (1 + level) / 2]
    width = max(1, _BLOCK // resamples)
    bounds = np.full((2, table.shape[1]), np.nan)
    enough = len(table) >= LEAST_GROUPS and len(set(labels)) < len(labels)
    for start in range(0, table.shape[1] if enough else 0, width):
        # The same seed draws the same groups again for every block of columns.
        block = slice(start, start + width)
        means = bootstrap_means(table[:, block], labels, seed=seed, resamples=resamples)
        bounds[:, block] = np.quantile(means, tails, axis=0, method="linear")
    return Intervals(
        estimate=weighted_mean(table.T, weights), lower=bounds[0], upper=bounds[1], level=level
    )


def bootstrap_means(
    values: ArrayLike, families: Labels, *, seed: int, resamples: int = RESAMPLES
) -> Floats:
    """Return the mean of each column in each resample, of shape ``[resamples, columns]``.

    Examples
    --------
    >>> means = bootstrap_means([0.0, 1.0], ["list", "list"], seed=0)
    >>> np.unique(means)
    array([0. , 0.5, 1. ])
    """
    table, labels, weights = _prepared(values, families, resamples)
    # Each group's share of the mean is put into the values, so that resampling is counting.
    shares = weights[:, None] * table
    members = [
        np.array([index for index, label in enumerate(labels) if label == family])
        for family in dict.fromkeys(labels)
    ]
    # A stream per family: the draws depend neither on the block size nor on the other families.
    streams = np.random.default_rng(seed).spawn(len(members))
    means = np.zeros((resamples, table.shape[1]))
    height = max(1, _BLOCK // len(table))
    for start in range(0, resamples, height):
        block = means[start : start + height]
        for stream, rows in zip(streams, members, strict=True):
            # Drawing g of g groups with replacement: how often each comes up is multinomial.
            size = len(rows)
            counts = stream.multinomial(size, np.full(size, 1 / size), size=len(block))
            # Group by group: a matrix product would round as the processor likes.
            for count, share in zip(counts.T, shares[rows], strict=True):
                block += count[:, None] * share
    return means


def _prepared(
    values: ArrayLike, families: Labels, resamples: int
) -> tuple[Floats, list[object], Floats]:
    """Check the input; return the table, the family of each group and its equal weight."""
    if resamples < 1:
        raise LarcError(f"{resamples} resamples were asked for; ask for at least one.")
    array = finite_array(values, "the array of group values")
    if array.ndim not in (1, 2):
        raise LarcError(
            f"group values have {array.ndim} dimensions; give groups, or groups by columns."
        )
    labels = list(families)
    if len(labels) != len(array):
        raise LarcError(
            f"{len(labels)} families were given for {len(array)} groups; give one per group."
        )
    return array.reshape(len(array), -1), list(labels), nested_weights(labels)
