"""Calibration: whether what is predicted at some probability happens that often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from larc.errors import LarcError
from larc.evaluation.checks import Floats, checked_labels, checked_probabilities, checked_weights
from larc.evaluation.weights import weighted_mean


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins of a reliability diagram.

    Parameters
    ----------
    edges
        The bounds of the bins, one more than there are bins.
    weight
        The share of the total weight in each bin; the shares sum to one.
    predicted, observed
        In each bin, the mean probability and how often the event happened; NaN in an empty bin.
    count
        How many predictions each bin holds, whatever they weigh.
    """

    edges: Floats
    weight: Floats
    predicted: Floats
    observed: Floats
    count: NDArray[np.intp]


def reliability(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    bins: int = 10,
    of_class: int | None = None,
) -> Reliability:
    """Sort predictions into equal-width bins of probability, each holding its upper edge.

    Parameters
    ----------
    probabilities
        Predictions, of shape ``[rows, classes]``.
    labels
        The index of the class that happened, one per row.
    weights
        One weight per row; rows weigh equally without it.
    bins
        How many bins divide the interval from zero to one.
    of_class
        The class whose probability and occurrence are compared. Without it, each row's most
        probable class (the first on a tie), whose probability is the row's confidence.

    Examples
    --------
    >>> result = reliability([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=2)
    >>> result.weight, result.predicted.round(3), result.observed.round(3)
    (array([0., 1.]), array([  nan, 0.767]), array([  nan, 0.667]))
    """
    predictions = checked_probabilities(probabilities)
    rows, classes = predictions.shape
    happened = checked_labels(labels, rows, classes)
    if bins < 1:
        raise LarcError(f"{bins} bins were asked for; ask for at least one.")
    if of_class is None:
        target = predictions.argmax(axis=1)
    elif 0 <= of_class < classes:
        target = np.full(rows, of_class)
    else:
        raise LarcError(f"class {of_class} is outside 0..{classes - 1}; give the index of a class.")
    share = checked_weights(np.ones(rows) if weights is None else weights, rows)
    share = share / share.sum()

    probability = predictions[np.arange(rows), target]
    # Dividing puts a decimal such as 0.3 exactly on its edge, where adding up steps would not.
    edges = np.arange(bins + 1) / bins
    bin_of = np.searchsorted(edges[1:-1], probability, side="left")

    def per_bin(amounts: Floats) -> Floats:
        return np.asarray(np.bincount(bin_of, amounts, minlength=bins), dtype=np.float64)

    weight = per_bin(share)
    empty = np.full(bins, np.nan)
    predicted = np.divide(per_bin(share * probability), weight, out=empty.copy(), where=weight > 0)
    observed = np.divide(
        per_bin(share * (happened == target)), weight, out=empty.copy(), where=weight > 0
    )
    count = np.bincount(bin_of, minlength=bins)
    return Reliability(edges, weight, predicted, observed, count)


def expected_calibration_error(bins: Reliability) -> float:
    """Return the weighted mean distance between what was predicted and what was observed.

    Examples
    --------
    >>> result = reliability([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    >>> expected_calibration_error(result)
    0.25
    """
    filled = bins.weight > 0
    gaps = np.abs(bins.predicted[filled] - bins.observed[filled])
    return float(weighted_mean(gaps, bins.weight[filled]))
