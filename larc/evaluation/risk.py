"""What a policy costs on a query, one number per row: in expectation, and when it must decide."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from larc.errors import LarcError
from larc.evaluation.checks import Floats, checked_probabilities, finite_array


def expected_error(probabilities: ArrayLike, losses: ArrayLike) -> Floats:
    """Average the candidates' losses under the policy.

    Parameters
    ----------
    probabilities
        The policy, of shape ``[rows, candidates]``.
    losses
        The query loss of each candidate, of the same shape.

    Returns
    -------
    ndarray
        One risk per row.

    Examples
    --------
    >>> expected_error([[0.5, 0.25, 0.25]], [[0.0, 1.0, 0.5]])
    array([0.375])
    """
    policy, table = _paired(probabilities, losses)
    risk: Floats = (policy * table).sum(axis=1)
    return risk


def greedy_error(probabilities: ArrayLike, losses: ArrayLike) -> Floats:
    """Return the loss of the most probable candidate, the first of them on a tie.

    Examples
    --------
    >>> greedy_error([[0.4, 0.4, 0.2]], [[0.5, 0.0, 1.0]])
    array([0.5])
    """
    policy, table = _paired(probabilities, losses)
    chosen: Floats = table[np.arange(len(table)), policy.argmax(axis=1)]
    return chosen


def all_correct(probabilities: ArrayLike, losses: ArrayLike) -> Floats:
    """Return one where the most probable candidate loses nothing on the query, else zero.

    The result is a float, not a boolean, so that it can be weighted and subtracted like a risk.

    Examples
    --------
    >>> all_correct([[0.9, 0.1], [0.9, 0.1]], [[0.0, 1.0], [0.05, 0.0]])
    array([1., 0.])
    """
    return np.asarray(greedy_error(probabilities, losses) == 0, dtype=np.float64)


def _paired(probabilities: ArrayLike, losses: ArrayLike) -> tuple[Floats, Floats]:
    policy = checked_probabilities(probabilities)
    table = finite_array(losses, "the array of losses", ndim=2)
    if policy.shape != table.shape:
        raise LarcError(
            f"probabilities of shape {policy.shape} were given with losses of shape "
            f"{table.shape}; give one loss per candidate of each row."
        )
    return policy, table
