"""What every measure checks first: finite numbers, true probabilities, one label per row."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from larc.errors import LarcError

Floats = NDArray[np.float64]

# A float32 softmax over a handful of candidates misses one by a few 1e-7; a forgotten candidate or
# a row of energies misses it by far more than this.
SUM_TOLERANCE = 1e-5


def finite_array(values: ArrayLike, name: str, ndim: int | None = None) -> Floats:
    """Return the values as float64, refusing an empty, misshapen or non-finite array.

    Examples
    --------
    >>> finite_array([1, 2], "risk", ndim=1)
    array([1., 2.])
    >>> finite_array([1, float("nan")], "risk")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: risk holds a value that is not finite; give finite numbers only.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LarcError(
            f"{name} is not an array of numbers; give numbers in rows of equal length."
        ) from error
    if ndim is not None and array.ndim != ndim:
        raise LarcError(f"{name} has {array.ndim} dimensions; give an array with {ndim}.")
    if array.size == 0:
        raise LarcError(f"{name} is empty; give at least one value.")
    if not np.isfinite(array).all():
        raise LarcError(f"{name} holds a value that is not finite; give finite numbers only.")
    return array


def checked_probabilities(values: ArrayLike) -> Floats:
    """Return probabilities of shape ``[rows, classes]``, refusing rows that do not sum to one.

    Examples
    --------
    >>> checked_probabilities([[0.5, 0.4]])
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: row 0 of the probabilities sums to 0.9; normalise each row to one.
    """
    array = finite_array(values, "the array of probabilities", ndim=2)
    if (array < 0).any():
        row = int(np.flatnonzero((array < 0).any(axis=1))[0])
        raise LarcError(
            f"row {row} of the probabilities has a negative entry; "
            "give probabilities, not energies."
        )
    sums = array.sum(axis=1)
    wrong = np.abs(sums - 1) > SUM_TOLERANCE
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise LarcError(
            f"row {row} of the probabilities sums to {sums[row]:.6g}; normalise each row to one."
        )
    return array


def checked_labels(labels: ArrayLike, rows: int, classes: int) -> NDArray[np.intp]:
    """Return one class index per row, refusing a wrong number of them or one out of range.

    Examples
    --------
    >>> checked_labels([0, 4], rows=2, classes=4)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: label 4 is outside 0..3; give the index of a class.
    """
    array = np.asarray(labels)
    if array.shape != (rows,):
        raise LarcError(
            f"labels of shape {array.shape} were given for {rows} rows; give one label per row."
        )
    if array.dtype.kind not in "iu":
        raise LarcError(f"labels have type {array.dtype}; give integer class indices.")
    outside = (array < 0) | (array >= classes)
    if outside.any():
        raise LarcError(
            f"label {array[outside][0]} is outside 0..{classes - 1}; give the index of a class."
        )
    return array.astype(np.intp)


def checked_weights(weights: ArrayLike, rows: int) -> Floats:
    """Return one weight per row, refusing negative ones and a total of zero.

    Examples
    --------
    >>> checked_weights([0.5, 0.5], rows=3)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 2 weights were given for 3 rows; give one weight per row.
    """
    array = finite_array(weights, "the array of weights", ndim=1)
    if len(array) != rows:
        raise LarcError(
            f"{len(array)} weights were given for {rows} rows; give one weight per row."
        )
    if (array < 0).any() or array.sum() <= 0:
        raise LarcError("weights are negative or all zero; give weights with a positive total.")
    return array
