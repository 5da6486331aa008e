"""One thread that writes: what many requests ask for at once is one transaction, one fsync."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from larc.errors import LarcError
from larc.service.problems import Problem
from larc.service.store.database import Database

T = TypeVar("T")
#: The most jobs of one transaction.
GROUP = 128
#: How often a transaction is tried again that the database itself asks to repeat.
TRIES = 5


@dataclass(frozen=True)
class _Job(Generic[T]):
    work: Callable[[Connection], T]
    order: str
    alone: bool
    future: Future[T]


class Writer:
    """Runs jobs inside transactions, several jobs to a transaction, in the order they came.

    A job that raises a `LarcError` must have changed nothing, and harms no other. Jobs of one
    transaction that several processes might run at once are sorted by what they lock.

    Examples
    --------
    >>> import tempfile
    >>> from larc.service.store.database import open_database
    >>> writer = Writer(open_database(f"sqlite:///{tempfile.mkdtemp()}/larc.db"))
    >>> writer.submit(lambda connection: 1 + 1).result()
    2
    >>> writer.close()
    """

    def __init__(
        self, database: Database, committed: Callable[[Connection, list[Any]], None] | None = None
    ) -> None:
        self.database = database
        self._committed = committed
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="larc-writer", daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[Connection], T], *, order: str = "", alone: bool = False
    ) -> Future[T]:
        """Run a job; its result is there once it is committed.

        Parameters
        ----------
        work
            What to do with the connection.
        order
            What it locks: jobs of one transaction are run in this order.
        alone
            Give it a transaction to itself.
        """
        future: Future[T] = Future()
        if self._closed:
            future.set_exception(Problem("stopping", "the service is stopping; try again later."))
        else:
            self._jobs.put(_Job(work, order, alone, future))
        return future

    def close(self) -> None:
        """Do what is waiting, then stop."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()
        self.database.close()

    def _run(self) -> None:
        waiting: list[_Job[Any]] = []
        while True:
            if not waiting:
                job = self._jobs.get()
                if job is None:
                    return
                waiting.append(job)
            while len(waiting) < GROUP and not waiting[-1].alone:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    self._jobs.put(None)  # to be met again once everything before it is done
                    break
                waiting.append(job)
            alone = waiting[-1].alone
            group, waiting = (
                (waiting[:-1], waiting[-1:]) if alone and waiting[:-1] else (waiting, [])
            )
            self._perform(sorted(group, key=lambda one: one.order))

    def _perform(self, group: list[_Job[Any]]) -> None:
        results: list[Any] = []
        for attempt in range(TRIES):
            try:
                results = self._transaction(group)
                break
            except Exception as error:
                if _repeatable(error) and attempt + 1 < TRIES:
                    time.sleep(0.01 * 2**attempt)
                    continue
                if len(group) > 1 and not isinstance(error, sa.exc.OperationalError):
                    for job in group:  # one of them is to blame: each by itself
                        self._perform([job])
                    return
                for job in group:
                    job.future.set_exception(_as_problem(error))
                return
        for job, result in zip(group, results, strict=True):
            if isinstance(result, LarcError):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    def _transaction(self, group: list[_Job[Any]]) -> list[Any]:
        results: list[Any] = []
        with self.database.writing() as connection:
            for job in group:
                try:
                    results.append(job.work(connection))
                except LarcError as error:
                    results.append(error)
            if self._committed is not None:
                self._committed(connection, results)
        return results


def _repeatable(error: BaseException) -> bool:
    """Whether the same transaction is worth another try: a deadlock, or a row made meanwhile."""
    code = getattr(getattr(error, "orig", None), "sqlstate", None)
    return code in ("40001", "40P01", "23505")


def _as_problem(error: Exception) -> Exception:
    if isinstance(error, sa.exc.DBAPIError):
        return Problem(
            "database",
            "the database did not take the change, and nothing was changed; try again.",
            retry_after=1.0,
        )
    return error
