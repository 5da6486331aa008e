"""The Brier game: mix predictions so that the mixture's loss is within what was promised.

The loss is half-Brier, ``0.5 * |p - e(outcome)|**2``. Brier, twice that, is mixable at rate 1 for
any number of outcomes (Vovk and Zhdanov, "Prediction with expert advice for the Brier game", JMLR
10, 2009), so half-Brier is mixable at rate 2: for all weights ``v`` and predictions ``p_i`` there
is one prediction whose loss is, whatever the outcome, at most

    ``allowed(outcome) = -1/2 ln(sum_i v_i exp(-2 loss_i(outcome)))``.

:func:`substitute` returns it. The weighted average of the predictions does not do at this rate:
half-Brier is exp-concave only up to rate 1/2, so that an average may lose more than is allowed.

Examples
--------
>>> losses = outcome_losses(np.array([[1.0, 0.0], [0.0, 1.0]]))
>>> allowed = -np.log(np.array([0.9, 0.1]) @ np.exp(-RATE * losses)) / RATE
>>> mixed = outcome_losses(np.array([substitute(allowed.tolist())]))[0]
>>> average = outcome_losses(np.array([[0.9, 0.1]]))[0]
>>> bool((mixed <= allowed).all()), bool((average <= allowed).all())
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The largest rate at which half-Brier is mixable.
RATE = 2.0


def outcome_losses(predictions: Floats) -> Floats:
    """Return the half-Brier loss of each prediction under each outcome, both ``[rows, outcomes]``.

    Examples
    --------
    >>> outcome_losses(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[0.  , 1.  ],
           [0.25, 0.25]])
    """
    # |p - e|^2 / 2 = (|p|^2 + 1) / 2 - p(outcome)
    squares = np.einsum("ij,ij->i", predictions, predictions)
    losses: Floats = (0.5 * squares + 0.5)[:, None] - predictions
    return losses


def substitute(allowed: Sequence[float]) -> list[float]:
    """Return the probabilities whose loss under each outcome is within what is allowed there.

    They are ``max(level - allowed(outcome), 0)``, with the level that makes them sum to one: the
    substitution function of Vovk and Zhdanov, in units of half-Brier. It exists for whatever a
    mixture at rate 2, or lower, allows.

    Examples
    --------
    >>> substitute([0.0, 1.0, 1.0])
    [1.0, 0.0, 0.0]
    >>> substitute([0.25, 0.25])
    [0.5, 0.5]
    """
    ordered = sorted(allowed)
    total, level = 1.0, 0.0
    for count, value in enumerate(ordered, 1):
        total += value
        if total / count <= value:
            break
        level = total / count
    return [level - value if value < level else 0.0 for value in allowed]
