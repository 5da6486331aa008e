"""A PostgreSQL with very many streams: one is made over HTTP, the others are copies of its rows."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

#: How many streams are copied in one transaction.
_PART = 20_000


def fill(address: str, count: int, already: int = 0) -> None:
    """Copy the stream ``first`` with its log, answers and state; copies are ``t1`` to ``tN``.

    Parameters
    ----------
    address
        The database.
    count, already
        How many copies there are to be, and are.
    """
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        row = connection.execute("select id from stream where name = 'first'").fetchone()
        assert row is not None
        for low in range(already + 1, count + 1, _PART):
            high = min(low + _PART - 1, count)
            with connection.transaction():
                for table in ("stream", "event", "answer", "state"):
                    _copy(connection, table, {"low": low, "high": high, "first": row[0]})
        # The numbers of streams made from now on come after the copies'.
        number = "pg_get_serial_sequence('stream', 'id')"
        connection.execute(f"select setval({number}, max(id)) from stream")
        connection.execute("vacuum analyze")  # else it comes by itself, while others are measured
        connection.execute("checkpoint")


def _copy(connection: psycopg.Connection[Any], table: str, values: dict[str, int]) -> None:
    described = connection.execute(
        "select column_name from information_schema.columns where table_name = %s "
        "and table_schema = 'public' order by ordinal_position",
        (table,),
    )
    columns = [one[0] for one in described]
    whose = "id" if table == "stream" else "stream"
    changed = {whose: sql.SQL("%(first)s + n")}
    if table == "stream":
        changed |= {"name": sql.SQL("'t' || n"), "shard": sql.SQL("n %% 64")}
    chosen = [changed.get(one, sql.SQL("x.") + sql.Identifier(one)) for one in columns]
    connection.execute(
        sql.SQL(
            "insert into {table} ({columns}) select {chosen} "
            "from generate_series(%(low)s::bigint, %(high)s::bigint) n, {table} x "
            "where x.{whose} = %(first)s"
        ).format(
            table=sql.Identifier(table),
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
            chosen=sql.SQL(", ").join(chosen),
            whose=sql.Identifier(whose),
        ),
        values,
    )
