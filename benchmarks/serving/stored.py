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
    with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :count)
"""


def copy_stream(file: Path, count: int) -> None:
    """Copy the one stream of a database, with log, answers and state, so many times."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma synchronous = off")
        first = connection.execute("select id from stream").fetchone()[0]
        for table, named in (
            ("stream", True),
            ("event", False),
            ("answer", False),
            ("state", False),
        ):
            columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            values = {"id" if named else "stream": f"{first} + n"}
            if named:
                values |= {"name": "'t' || n", "shard": "n % 64"}
            chosen = ", ".join(values.get(one, f"x.{one}") for one in columns)
            whose = "id" if named else "stream"
            connection.execute(
                f"insert into {table} ({', '.join(columns)}) {_COUNTING} "
                f"select {chosen} from numbers, {table} x where x.{whose} = :first",
                {"count": count, "first": first},
            )
        connection.commit()


def memory(
    directory: Path, stored: int, live: int, say: Callable[[str], None]
) -> list[tuple[str, int]]:
    """Return the bytes of a server's memory: empty, with streams stored, live, and after more."""
    options = ["--substrate", "tiny", "--threads", "1", "--live", str(live)]
    traffic = Traffic(SEED)
    rows = []
    with serve(directory, options) as server:
        make_streams(server, ["s"])
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
    return rows
