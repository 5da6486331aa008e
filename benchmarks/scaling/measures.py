"""Load on several workers of one PostgreSQL: throughput, takeover, and what the database does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.scaling.costs import Costs
from benchmarks.serving.load import Request, send
from benchmarks.serving.measures import Traffic
from benchmarks.torture.cluster import Traffic as Users
from larc.errors import LarcError

_TICKS = os.sysconf("SC_CLK_TCK")
#: How many streams ask at once: one of each shard, so that every worker has as many.
AT_ONCE = 64


@dataclass(frozen=True)
class Worker:
    """A process that owns streams and takes requests in."""

    process: subprocess.Popen[str]
    address: str


@dataclass(frozen=True)
class Measured:
    """What was measured while clients worked.

    Attributes
    ----------
    seconds, questions
        How long, and how many questions were answered and their labels applied.
    service, database
        Processor seconds a question: of the workers, and of PostgreSQL.
    transactions, log
        Of PostgreSQL a question: commits, and bytes of its write-ahead log.
    """

    seconds: float
    questions: int
    service: float
    database: float
    transactions: float
    log: float

    @property
    def rate(self) -> float:
        """Questions a second."""
        return self.questions / self.seconds


@contextmanager
def workers(
    count: int, directory: Path, database: str, costs: Costs, options: Sequence[str]
) -> Iterator[tuple[list[Worker], str]]:
    """Run so many workers while the block lasts; yields them and a token."""
    token = directory / "token"
    environment = {**os.environ, "LARC_LOG": "error", "OMP_NUM_THREADS": "1"}
    processes = []
    try:
        for number in range(count):
            command = [sys.executable, "-m", "benchmarks.scaling.slept", costs.text(), "serve"]
            command += ["--data", str(directory / str(number)), "--database", database]
            command += ["--port", "0", "--token-file", str(token), "--threads", "1", *options]
            processes.append(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            )
            if not number:  # it makes the token, and the tables
                first = _address(processes[0])
        rest = [Worker(one, _address(one)) for one in processes[1:]]
        time.sleep(6.0)  # until each has its part of the shards
        yield [Worker(processes[0], first), *rest], token.read_text().strip()
    finally:
        for one in processes:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        raise LarcError(f"a worker did not start: {line!r}")
    return line.split()[-1]


def load(
    running: Sequence[Worker], token: str, database: str, streams: Sequence[str], traffic: Traffic
) -> Measured:
    """Ask a question of each stream in turn, and label it; one of each shard at once."""
    chains = [traffic.chain(name, 1) for name in streams]
    share = max(1, AT_ONCE // len(running))
    before = _state(running, database)
    began = time.monotonic()
    with ThreadPoolExecutor(len(running)) as pool:
        sent = [
            pool.submit(send, one.address, token, chains[number :: len(running)], share)
            for number, one in enumerate(running)
        ]
        for one in sent:
            one.result()
    seconds = time.monotonic() - began
    used = [after - old for after, old in zip(_state(running, database), before, strict=True)]
    return Measured(seconds, len(chains), *(part / len(chains) for part in used))


def _state(running: Sequence[Worker], database: str) -> tuple[float, float, float, float]:
    """Return processor seconds of workers and database, its commits, and the bytes of its log."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select pg_stat_clear_snapshot()")
        row = connection.execute(
            "select pg_backend_pid(), xact_commit, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') "
            "from pg_stat_database where datname = current_database()"
        ).fetchone()
        assert row is not None
        postmaster = _fields(row[0])[1]
    workers_s = sum(_spent(one.process.pid) for one in running)
    backends = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    database_s = sum(_spent(one) for one in backends if _fields(one)[1:2] == [postmaster])
    return workers_s, database_s + _ended(int(postmaster)), float(row[1]), float(row[2])


def _fields(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []


def _spent(process: int) -> float:
    return sum(map(int, _fields(process)[11:13])) / _TICKS


def _ended(process: int) -> float:
    """Return what those children of a process have used that have ended."""
    return sum(map(int, _fields(process)[13:15])) / _TICKS


def takeover(running: Sequence[Worker], token: str) -> float:
    """Kill a worker under load; returns the seconds until every stream is served by the others."""
    users = Users([one.address for one in running[1:]], token)
    try:
        users.wait(time.monotonic())
        running[0].process.kill()
        return users.wait(time.monotonic())
    finally:
        users.stop()


def make_first(address: str, token: str, traffic: Traffic) -> None:
    """Make the stream that others are copied from, with a question and its label."""
    stream = Request("/v1/streams/first", {"template": "plain"}, "PUT")
    send(address, token, [[stream, *traffic.chain("first", 1)]], 1)
