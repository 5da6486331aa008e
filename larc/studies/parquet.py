"""Predictions and queries as Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from larc.errors import LarcError
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


def to_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Write rows as Parquet."""
    pyarrow, parquet = _pyarrow()
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), sink, compression="zstd")
    return sink.getvalue()


def from_parquet(content: bytes, name: str) -> list[dict[str, Any]]:
    """Read rows from Parquet, or say which file is damaged."""
    pyarrow, parquet = _pyarrow()
    try:
        rows: list[dict[str, Any]] = parquet.read_table(pyarrow.BufferReader(content)).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise LarcError(f"{name} cannot be read as Parquet; it is damaged or foreign.") from error
    return rows


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise LarcError("studies need pyarrow; run `pip install larc[studies]`.") from error
    return pyarrow, pyarrow.parquet
