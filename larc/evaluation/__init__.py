"""From saved predictions to a verdict: risks, weights, contrasts, intervals, the selection rule.

Everything here is arithmetic on arrays. It knows no model, draws nothing without a seed, and takes
risks and gains as fractions, not percentages.

Examples
--------
Four episodes in two families, the query risk of each in the four cells:

>>> import numpy as np
>>> from larc.evaluation import (
...     Cells, binding_gain, bootstrap_intervals, group_means, is_material, retention_gain
... )
>>> cells = Cells(
...     real_keep=[0.10, 0.20, 0.30, 0.20], real_reset=[0.60, 0.60, 0.50, 0.60],
...     sham_keep=[0.55, 0.65, 0.60, 0.60], sham_reset=[0.60, 0.60, 0.50, 0.60],
... )

Contrasts are taken per row, averaged within groups, and resampled together:

>>> columns = np.stack([retention_gain(cells), binding_gain(cells)], axis=1)
>>> means = group_means(columns, ["list", "list", "sum", "sum"], groups=[1, 2, 3, 4])
>>> result = bootstrap_intervals(means.values, means.families, seed=0)
>>> result.estimate.round(4), result.lower.round(4)
(array([0.375, 0.4  ]), array([0.3  , 0.375]))
>>> is_material(result.estimate[0], result.lower[0])
True
"""

from larc.evaluation.bootstrap import (
    LEAST_GROUPS,
    Intervals,
    bootstrap_intervals,
    bootstrap_means,
)
from larc.evaluation.brier import Verdict, brier_success, half_brier
from larc.evaluation.calibration import Reliability, expected_calibration_error, reliability
from larc.evaluation.contrasts import Cells, binding_gain, objective_gain, retention_gain
from larc.evaluation.risk import all_correct, expected_error, greedy_error
from larc.evaluation.selection import (
    Evidence,
    Selection,
    is_eligible,
    is_material,
    select_objective,
    worst_seed_gain,
)
from larc.evaluation.weights import (
    GroupMeans,
    group_means,
    group_weights,
    nested_mean,
    nested_weights,
    restrict_weights,
    weighted_mean,
)

__all__ = [
    "LEAST_GROUPS",
    "Cells",
    "Evidence",
    "GroupMeans",
    "Intervals",
    "Reliability",
    "Selection",
    "Verdict",
    "all_correct",
    "binding_gain",
    "bootstrap_intervals",
    "bootstrap_means",
    "brier_success",
    "expected_calibration_error",
    "expected_error",
    "greedy_error",
    "group_means",
    "group_weights",
    "half_brier",
    "is_eligible",
    "is_material",
    "nested_mean",
    "nested_weights",
    "objective_gain",
    "reliability",
    "restrict_weights",
    "retention_gain",
    "select_objective",
    "weighted_mean",
    "worst_seed_gain",
]
