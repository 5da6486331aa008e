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
    """Return one row per task and cell: who it is, and the probability of each candidate.

    A task of many questions has a row for each, with the question's number.
    """
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "cell": cell,
            "name": name,
            "family": task.family,
            "group": task.group,
            **number,
            "policy": np.asarray(policy, dtype=np.float64).tolist(),
        }
        for cell, reads in policies.items()
        for name, task, read in zip(names, tasks, reads, strict=True)
        for policy, number in _numbered(read if task.many else [read], tasks)
    ]
    return to_parquet(rows)


def queries_content(
    names: Sequence[str], tasks: Sequence[Task], queries: Sequence[Sequence[Sequence[float]]]
) -> bytes:
    """Return one row per question: its query losses, and its support losses where it has them."""
    rows = [
        {
            "name": name,
            "family": task.family,
            "group": task.group,
            **number,
            "support": list(task.losses("support")),
            "query": [float(loss) for loss in losses],
        }
        for name, task, query in zip(names, tasks, queries, strict=True)
        for losses, number in _numbered(query, tasks)
    ]
    return to_parquet(rows)


def _numbered(values: Sequence[Any], tasks: Sequence[Task]) -> list[tuple[Any, dict[str, int]]]:
    """Return values with the numbers of their questions, if any task has more than one."""
    many = any(task.many for task in tasks)
    return [(value, {"question": n} if many else {}) for n, value in enumerate(values)]
