"""The memory of a server with very many streams on disk, and few of them live."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.serving.load import send
from benchmarks.serving.measures import SEED, Traffic, make_streams
from benchmarks.serving.servers import serve

_COUNTING = """
    with recursive numbers(n) as (select :low union all select n + 1 from numbers where n < :high)
"""
#: How many streams are copied in one transaction.
_PART = 50_000


def copy_stream(file: Path, count: int) -> None:
    """Copy the one stream of a database, with log, answers and state, so many times.

    Row by row as the service wrote it, by SQL and not over HTTP: a million streams would take the
    model a day.
    """
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma synchronous = off")
        first = connection.execute("select id from stream").fetchone()[0]
        for low in range(1, count + 1, _PART):
            high = min(low + _PART - 1, count)
            for table in ("stream", "event", "answer", "state"):
                _copy_rows(connection, table, {"low": low, "high": high, "first": first})
            connection.commit()
            connection.execute("pragma wal_checkpoint(truncate)")  # else it is on disk twice


def _copy_rows(connection: sqlite3.Connection, table: str, values: dict[str, int]) -> None:
    columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
    whose = "id" if table == "stream" else "stream"
    changed = {whose: ":first + n"}
    if table == "stream":
        changed |= {"name": "'t' || n", "shard": "n % 64"}
    chosen = ", ".join(changed.get(one, f"x.{one}") for one in columns)
    connection.execute(
        f"insert into {table} ({', '.join(columns)}) {_COUNTING} "
        f"select {chosen} from numbers, {table} x where x.{whose} = :first",
        values,
    )


def memory(
    directory: Path, stored: int, live: int, say: Callable[[str], None]
) -> list[tuple[str, int]]:
    """Return the bytes of a server's memory: empty, with streams stored, live, and after more."""
    options = ["--substrate", "tiny", "--threads", "1", "--live", str(live)]
    traffic = Traffic(SEED)
    rows = []
    with serve(directory, options) as server:
        make_streams(server, ["s"], "plain")
        send(server.address, server.token, [traffic.chain("s", 3)], 1)
        rows.append(("one stream", server.memory()))
    file = directory / "data" / "larc.db"
    copy_stream(file, stored)
    say(f"{stored} streams are {file.stat().st_size / 2**30:.1f} GiB")
    with serve(directory, options) as server:
        chain = [traffic.chain("t1", 1)]
        send(server.address, server.token, chain, 1)
        rows.append((f"{stored:,} streams stored, one asked", server.memory()))
        for first in (0, 1, 2):
            names = [f"t{1 + live * first + number}" for number in range(live)]
            chains = [traffic.chain(name, 1) for name in names]
            send(server.address, server.token, chains, 64)
            what = f"{live:,} of them live" if not first else f"{live * (first + 1):,} asked by now"
            rows.append((what, server.memory()))
            say(f"{what}: {rows[-1][1] / 2**20:.0f} MiB")
        names = [f"d{number}" for number in range(live)]
        make_streams(server, names)
        send(server.address, server.token, [traffic.chain(name, 1) for name in names], 64)
        rows.append((f"{live:,} of the template `default` live instead", server.memory()))
    return rows
