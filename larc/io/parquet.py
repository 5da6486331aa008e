"""Rows as Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from larc.errors import LarcError


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
        raise LarcError("studies need pyarrow; run `pip install 'larc-lm[studies]'`.") from error
    return pyarrow, pyarrow.parquet
