"""Four additive label biases, fitted on history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

PENALTY = 1e-4
ITERATIONS = 100
EVALUATIONS = 125


def fit_offsets(
    probabilities: NDArray[np.float64], labels: Sequence[int], weights: NDArray[np.float64]
) -> tuple[float, ...]:
    """Return the biases of the candidates' energies that fit weighted labels best, of mean zero.

    Weighted cross-entropy with an l2 penalty, minimised by L-BFGS in float64 on the CPU.

    Examples
    --------
    >>> even = np.full((4, 2), 0.5)
    >>> offsets = fit_offsets(even, [0, 0, 0, 1], np.full(4, 0.25))
    >>> round(offsets[0] - offsets[1], 2)     # three to one, but for the penalty: log 3 = 1.10
    1.1
    """
    energies = torch.from_numpy(np.log(probabilities))
    targets = torch.tensor(labels)
    shares = torch.from_numpy(weights / weights.sum())
    bias = torch.zeros(energies.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [bias],
        max_iter=ITERATIONS,
        max_eval=EVALUATIONS,
        tolerance_grad=1e-10,
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        optimizer.zero_grad()
        losses = torch.nn.functional.cross_entropy(energies + bias, targets, reduction="none")
        loss = shares @ losses + PENALTY * bias.square().sum()
        loss.backward()
        return float(loss.detach())

    with torch.enable_grad():
        optimizer.step(closure)
    fitted = bias.detach()
    return tuple((fitted - fitted.mean()).tolist())
