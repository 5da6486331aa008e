"""The thread that works through the inbox, beside the model's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.engine import Engine
from larc.service.github.answers import unanswered, write_answers
from larc.service.github.asking import Desk, NotYet, look_after, patience, receive
from larc.service.github.inbox import finish, waiting
from larc.service.github.settings import GitHubSettings
from larc.service.github.tables import job, repository
from larc.service.store.database import EVENTS, now
from larc.service.store.results import notify

LOG = logging.getLogger("larc.service.github")
#: The most deliveries of one transaction, so that nobody else waits for long.
_MOST = 16
#: How often it is looked for what nobody told us, in seconds.
_TICK_S = 0.5
#: How soon it is looked again whether the model has caught up.
_BEHIND_S = 0.02


class GitHubWorker:
    """Works through deliveries in the order in which they came, each exactly once.

    Parameters
    ----------
    engine
        The service.
    settings
        What the operator says.
    """

    def __init__(self, engine: Engine, settings: GitHubSettings) -> None:
        self.engine, self.settings = engine, settings
        self._changed = threading.Event()
        self._behind: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="larc-github", daemon=True)

    def start(self) -> None:
        """Begin, with what was left; without a hook nothing ever comes."""
        if self.settings.hooks:
            self._thread.start()

    def stop(self) -> None:
        """Finish the transaction under way; what is left stays in the inbox."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Say that there is a new delivery."""
        self._changed.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait(_BEHIND_S if self._behind else _TICK_S)
            self._changed.clear()
            self._behind.clear()
            try:
                while not self._stopping.is_set() and self._round():
                    pass
            except Exception as error:  # of the database: what was to be done stays to be done
                LOG.warning("the inbox could not be worked through: %s", type(error).__name__)
                self._stopping.wait(_TICK_S)

    def _round(self) -> bool:
        """Take one step; returns whether there may be more to do."""
        shards = self.engine.leases.current()
        with self.engine.database.reading() as connection:
            rows = waiting(connection, shards, _MOST, self._behind)
            tired = _tired(connection, self.settings, shards)
            told = connection.execute(unanswered().limit(1)).first() is not None
        if rows:
            self.write(lambda desk: self._receive(desk, rows))
        for number in tired:
            if number not in self._behind:
                self.write(partial(self._look_after, number))
        if told:
            shown = self.settings.output != "none"
            self.engine.writer.submit(lambda c: write_answers(c, shown=shown)).result()
        return bool(rows)

    def _receive(self, desk: Desk, rows: Sequence[Row[Any]]) -> None:
        """Let deliveries take effect; those of a repository whose model is behind wait."""
        for row in rows:
            if row.repository in self._behind:
                continue
            try:
                with desk.trying():
                    receive(desk, row)
            except NotYet:
                self._behind.add(row.repository)
            except sa.exc.SQLAlchemyError:
                raise
            except Exception as error:  # one that breaks holds no other up
                LOG.exception("a delivery broke")
                finish(desk.connection, row.seq, f"it broke: {type(error).__name__}.")

    def _look_after(self, number: int, desk: Desk) -> None:
        try:
            with desk.trying():
                look_after(desk, number)
        except NotYet:
            self._behind.add(number)

    def write(self, work: Callable[[Desk], object]) -> None:
        """Do something in a transaction, and wake the streams that got something to do."""
        streams: set[int] = set()

        def working(connection: Connection) -> None:
            desk = Desk(connection, self.engine.models, self.settings, now(connection))
            work(desk)
            notify(connection, EVENTS, [str(number) for number in sorted(desk.streams)])
            streams.clear()
            streams.update(desk.streams)

        self.engine.writer.submit(working, alone=True).result()
        self.engine.wake(streams)


def _tired(connection: Connection, settings: GitHubSettings, shards: object) -> list[int]:
    """Return repositories with labels or jobs that have waited long enough."""
    at = now(connection)
    over = (job.c.state == "held") & (job.c.seen_at <= at - settings.settle_s)
    over |= (job.c.state == "joining") & (job.c.seen_at <= at - patience(settings))
    query = (
        sa.select(job.c.repository)
        .join(repository, repository.c.id == job.c.repository)
        .where(job.c.state.in_(["joining", "held"]), over)
        .where(repository.c.shard.in_(sorted(shards)))  # type: ignore[call-overload]
        .distinct()
    )
    return list(connection.execute(query).scalars())
