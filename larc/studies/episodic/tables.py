"""Predictions and queries of episodes as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from larc.io.parquet import to_parquet
from larc.tasks import Task


def predictions_content(
    arm: str,
    seed: int,
    names: Sequence[str],
    tasks: Sequence[Task],
    policies: Mapping[str, Sequence[Any]],
) -> bytes:
    """Return one row per task and cell: who it is, and the probability of each candidate."""
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "cell": cell,
            "name": name,
            "family": task.family,
            "group": task.group,
            "policy": np.asarray(policy, dtype=np.float64).tolist(),
        }
        for cell, reads in policies.items()
        for name, task, policy in zip(names, tasks, reads, strict=True)
    ]
    return to_parquet(rows)


def queries_content(
    names: Sequence[str], tasks: Sequence[Task], queries: Sequence[Sequence[float]]
) -> bytes:
    """Return one row per task: its support and query losses."""
    rows = [
        {
            "name": name,
            "family": task.family,
            "group": task.group,
            "support": list(task.support),
            "query": [float(loss) for loss in query],
        }
        for name, task, query in zip(names, tasks, queries, strict=True)
    ]
    return to_parquet(rows)
