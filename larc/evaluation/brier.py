"""Half-Brier loss, and the rule that says whether one predictor beats another on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from larc.errors import LarcError
from larc.evaluation.checks import Floats, checked_labels, checked_probabilities, finite_array

# The smallest mean reduction in half-Brier loss that counts as success.
SUCCESS = 0.01


@dataclass(frozen=True)
class Verdict:
    """Whether a path beat its reference, by how much, and one sentence that says why.

    Parameters
    ----------
    success
        Whether the mean gain is large enough and every seed gains.
    gains
        Reference minus path, for each seed: positive is better.
    mean
        The mean of the gains.
    reason
        One sentence.
    """

    success: bool
    gains: tuple[float, ...]
    mean: float
    reason: str


def half_brier(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """Return half the squared distance between each prediction and what happened.

    Parameters
    ----------
    probabilities
        Predictions, of shape ``[rows, classes]``.
    labels
        The index of the class that happened, one per row.

    Returns
    -------
    ndarray
        One loss per row: zero for certainty in the right class, one in a wrong class.

    Examples
    --------
    >>> half_brier([[1, 0, 0, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]], [0, 1, 2])
    array([0.   , 1.   , 0.375])
    """
    predicted = checked_probabilities(probabilities)
    rows, classes = predicted.shape
    happened = checked_labels(labels, rows, classes)
    error = predicted.copy()
    error[np.arange(rows), happened] -= 1
    loss: Floats = 0.5 * (error**2).sum(axis=1)
    return loss


def brier_success(reference: ArrayLike, path: ArrayLike) -> Verdict:
    """Judge a path: its loss must be lower for every seed, and by at least 0.01 on average.

    Parameters
    ----------
    reference, path
        The mean half-Brier loss of each seed, in the same order. A reference without seeds is
        repeated.

    Examples
    --------
    >>> brier_success([0.20, 0.20], [0.15, 0.21])
    Verdict(success=False, gains=(0.05..., -0.0...), mean=0.02..., reason='the gain is 0.0200 on
    average, but -0.0100 for one seed.')
    """
    before = finite_array(reference, "the array of reference losses", ndim=1)
    after = finite_array(path, "the array of path losses", ndim=1)
    if before.shape != after.shape:
        raise LarcError(
            f"{len(before)} reference losses were given for {len(after)} path losses; "
            "give one of each per seed."
        )
    difference = before - after
    mean, worst = float(difference.mean()), float(difference.min())
    if mean < SUCCESS:
        reason = f"the gain is {mean:.4f} on average, under {SUCCESS}."
    elif worst <= 0:
        reason = f"the gain is {mean:.4f} on average, but {worst:.4f} for one seed."
    else:
        reason = f"the gain is {mean:.4f} on average and at least {worst:.4f} for every seed."
    gains = tuple(float(gain) for gain in difference)
    return Verdict(mean >= SUCCESS and worst > 0, gains, mean, reason)
