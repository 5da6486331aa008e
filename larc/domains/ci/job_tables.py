"""Rows of a Parquet file, in the types that a JSON row has, as far as it can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from larc.errors import LarcError, reason

_COLUMNS = (
    *("repository", "workflow_id", "workflow_path", "workflow_name", "event", "job_name"),
    *("head_sha", "started_at", "completed_at", "conclusion", "status"),
    *("job_id", "run_id", "run_attempt"),
)


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows that a damaged row group still held, and what was wrong with it."""

    rows: int
    detail: str


def read_parquet(path: Path) -> Iterator[dict[str, object] | Lost]:
    """Yield the rows of a Parquet file; where a row group is damaged, how many were lost.

    Timestamps with a zone become epoch seconds, whole floats become integers. Only the columns
    of a job are read.

    Raises
    ------
    LarcError
        Where the file is no Parquet or ``pyarrow`` is not installed.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> path = Path(tempfile.mkdtemp()) / "jobs.parquet"
    >>> pq.write_table(pa.table({"job_id": [7.0, None], "else": [1, 2]}), path)
    >>> list(read_parquet(path))
    [{'job_id': 7}, {'job_id': None}]
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise LarcError("reading Parquet needs pyarrow; pip install 'larc-lm[studies]'.") from error
    try:
        table = pq.ParquetFile(path)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise LarcError(f"{path} cannot be read as Parquet: {reason(error)}.") from error
    with table:
        names = [name for name in _COLUMNS if name in table.schema_arrow.names]
        # One row group after another: damage in one does not take the others with it.
        for group in range(table.num_row_groups):
            left = table.metadata.row_group(group).num_rows
            try:
                for batch in table.iter_batches(columns=names, row_groups=[group]):
                    columns = [_values(batch.column(name)) for name in names]
                    # A file with none of the columns still has rows, each without an identity.
                    rows = zip(*columns, strict=True) if names else [()] * batch.num_rows
                    for row in rows:
                        yield dict(zip(names, row, strict=True))
                    left -= batch.num_rows
            except (OSError, pa.ArrowException) as error:
                yield Lost(left, reason(error))


def _values(column: Any) -> list[object]:
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return [_whole(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            # Without a zone it is nobody's time: as text it is left out under that reason.
            column = column.cast(pa.string())
        else:
            # Integers of epoch seconds: no year is out of range, no zone table is needed.
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
            ticks = column.cast(pa.int64()).to_pylist()
            return [None if tick is None else tick // per_second for tick in ticks]
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_decoded(value) for value in column]
    return values


def _whole(value: float | None) -> float | int | None:
    """Return an integer where the float is one: so pandas writes a column with gaps."""
    if value is None or value != value:
        return None
    # Beyond 2^53 a float no longer tells neighbouring integers apart: it stays one and is refused.
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value


def _decoded(value: Any) -> object:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        # Bytes are no text, and are left out as such.
        return b""
