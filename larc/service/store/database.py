"""An open database: SQLite in a file, or PostgreSQL at an address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection, Engine

from larc.errors import LarcError, reason

#: How long SQLite waits for another writer before it gives up, in seconds.
BUSY_S = 5.0
#: How long PostgreSQL lets a process that has stopped keep what its transaction has locked.
IDLE_S = 5
EVENTS, DONE = "larc_events", "larc_done"


@dataclass(frozen=True)
class Database:
    """Two ways into one database: transactions that write, and those that only read.

    Examples
    --------
    >>> import tempfile
    >>> database = open_database(f"sqlite:///{tempfile.mkdtemp()}/larc.db")
    >>> with database.reading() as connection:
    ...     connection.execute(sa.text("select count(*) from shard")).scalar_one()
    64
    >>> database.close()
    """

    writer: Engine
    reader: Engine

    @property
    def shared(self) -> bool:
        """Whether several processes may work on it at once."""
        return self.writer.dialect.name == "postgresql"

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that is committed at the end of the block, or rolled back."""
        with self.writer.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection to read one consistent picture with."""
        with self.reader.connect() as connection:
            yield connection

    def forget(self) -> None:
        """Overwrite what was deleted wherever SQLite still keeps it: in its write-ahead log."""
        if not self.shared:
            opened: Any = self.writer.raw_connection()  # outside of any transaction
            try:
                opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                opened.close()

    def close(self) -> None:
        """Close every connection."""
        self.writer.dispose()
        self.reader.dispose()


def now(connection: Connection) -> float:
    """Return the time by the clock that every process on this database shares."""
    if connection.dialect.name == "postgresql":
        clock = sa.text("select extract(epoch from clock_timestamp())")
        return float(connection.execute(clock).scalar_one())
    return time.time()


def by_index(connection: Connection) -> None:
    """Let PostgreSQL use indices, until the transaction ends, for few rows among very many.

    It takes a third of all streams to have something waiting, and would read a million of them.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("set local enable_seqscan = off"))


def open_database(url: str) -> Database:
    """Open a database and bring its tables up to date, refusing one of a newer version."""
    if url.startswith("postgres://"):
        url = "postgresql://" + url.removeprefix("postgres://")
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    try:
        if url.startswith("sqlite:///"):
            database = _sqlite(url)
        elif url.startswith("postgresql+psycopg://"):
            # A statement is never prepared: a proxy between may not keep the connection.
            options: dict[str, Any] = {"pool_pre_ping": True, "hide_parameters": True}
            writer = sa.create_engine(url, pool_size=2, **options)
            # Not an option of the connection: the address may have some, and a proxy refuse any.
            patience = f"set local idle_in_transaction_session_timeout = '{IDLE_S}s'"
            sa.event.listen(writer, "begin", _beginning(patience))
            reader = sa.create_engine(url, pool_size=8, max_overflow=24, **options)
            database = Database(writer, reader)
        else:
            raise LarcError("the database has an address of an unknown kind; give postgresql://...")
        with database.writer.connect() as connection:
            migrate(connection)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise LarcError(f"the database cannot be opened ({reason(error)[:200]}).") from error
    return database


def migrate(connection: Connection) -> None:
    """Bring the tables up to date."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        # Two processes that start together: one makes the tables, the other waits for it.
        connection.execute(sa.text("select pg_advisory_xact_lock(20260929)"))
    scripts = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in {one.revision for one in scripts.walk_revisions()}:
        raise LarcError(
            f"the database was written by a newer larc (tables of version {current}); use the "
            "version that wrote it."
        )
    if current != scripts.get_current_head():
        command.upgrade(config, "head")
    connection.commit()


def _sqlite(url: str) -> Database:
    options: dict[str, Any] = {
        "connect_args": {"timeout": BUSY_S, "check_same_thread": False},
        "hide_parameters": True,  # a statement's are prompts; no error is to quote them
    }
    writer = sa.create_engine(url, pool_size=2, **options)
    reader = sa.create_engine(url, pool_size=8, max_overflow=24, **options)
    for engine, begin in ((writer, "BEGIN IMMEDIATE"), (reader, "BEGIN")):
        sa.event.listen(engine, "connect", _prepared)
        sa.event.listen(engine, "begin", _beginning(begin))
    return Database(writer, reader)


def _prepared(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so, not where it guesses
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "secure_delete=ON",  # what was deleted is overwritten
        "cell_size_check=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _beginning(statement: str) -> Any:
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin
