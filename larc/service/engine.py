"""The engine: takes events in, lets them take effect in order, and tells those who wait."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Collection, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from larc.errors import LarcError
from larc.service.evaluating import Running, adopt_evaluations, begin_evaluation, evaluate
from larc.service.leasing import Leases
from larc.service.listening import Listener
from larc.service.live import Live, revive
from larc.service.metrics import Metrics
from larc.service.problems import Problem
from larc.service.protocol import EvaluationBody
from larc.service.replaying import relearn
from larc.service.rounds import LONG, play, refusal
from larc.service.store.database import EVENTS, Database
from larc.service.store.log import Command, Taken, take
from larc.service.store.offers import offered
from larc.service.store.reading import any_running, expired, outcomes_of
from larc.service.store.results import (
    Step,
    Work,
    behind,
    commit,
    load_state,
    load_work,
    notify,
)
from larc.service.templates import Models
from larc.service.waiters import Waiters
from larc.service.writer import Writer

LOG = logging.getLogger("larc.service")


@dataclass(frozen=True)
class EngineSettings:
    """How the engine works.

    Attributes
    ----------
    live
        The most streams kept in memory.
    together
        The most streams of one round.
    lease_s
        How long another process waits before it takes over the shards of one that died.
    queue
        The most events waiting, beyond which requests are told to come later.
    owns
        Whether it owns streams; otherwise it only takes in what other processes let take effect.
    """

    live: int = 1000
    together: int = 128
    lease_s: float = 5.0
    queue: int = 10_000
    owns: bool = True


Job = Generator[None, None, Any]


class Engine:
    """One process's part of a service: a writer, a compute thread and the leases.

    Parameters
    ----------
    database
        The log and the states.
    models
        The frozen model and the slow state.
    settings
        How it works.
    metrics
        What is counted.
    """

    def __init__(
        self,
        database: Database,
        models: Models,
        settings: EngineSettings | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.database, self.models = database, models.with_offers(partial(offered, database))
        self.settings = settings or EngineSettings()
        self.metrics = metrics or Metrics()
        self.worker = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self.waiters = Waiters()
        self.writer = Writer(database, _announce)
        self.leases = Leases(
            self.writer, self.worker, self.settings.lease_s, alone=not database.shared
        )
        self._lives: OrderedDict[int, Live] = OrderedDict()
        self._busy: set[int] = set()
        self._woken: dict[int, None] = {}
        self._jobs: deque[tuple[Job, Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._backoff = 0.0
        self._listener: Listener | None = None
        self._compute = threading.Thread(target=self._run, name="larc-compute", daemon=True)
        self._clock = threading.Thread(target=self._tick, name="larc-clock", daemon=True)

    # From the outside, any thread ----------------------------------------------------------------

    def start(self) -> None:
        """Take shards, go on with what was left, and begin."""
        if not (self.settings.owns or self.database.shared):
            raise LarcError("nobody else is at SQLite; give a PostgreSQL to share.")
        if self.settings.owns:
            self.leases.renew()
            self._look()
            self._adopt()
        if self.database.shared:
            self._listener = Listener(self.database, self._heard, self._resolve)
        self._compute.start()
        self._clock.start()

    def stop(self, drain_s: float = 8.0) -> None:
        """Finish what was begun, give the shards up and stop; what is left stays in the log."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        self._compute.join(drain_s)
        self._clock.join()
        if self._listener is not None:
            self._listener.close()
        try:
            self.leases.leave()
        except LarcError:
            LOG.warning("the leases could not be given up; they run out by themselves")
        self.writer.close()

    @property
    def waiting(self) -> int:
        """How many streams have something to do."""
        return len(self._woken)

    def submit(self, command: Command) -> Future[Taken]:
        """Put a command into the log; it is durable once the future is done."""
        future = self.writer.submit(
            lambda connection: take(connection, command), order=command.stream
        )
        future.add_done_callback(self._taken)
        return future

    def _taken(self, future: Future[Taken]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._heard([(future.result().stream, future.result().shard)])

    def _heard(self, told: Collection[tuple[int, int | None]]) -> None:
        """Look after those of some streams whose shards are this process's."""
        shards = self.leases.current()
        self.wake([number for number, shard in told if shard is None or shard in shards])

    def wake(self, streams: Collection[int]) -> None:
        """Say that streams have something to do."""
        if streams and self.settings.owns:
            with self._changed:
                self._woken.update(dict.fromkeys(streams))
                self._changed.notify_all()

    def run(self, job: Job) -> Future[Any]:
        """Run a job in the compute thread, a step at a time between the rounds."""
        future: Future[Any] = Future()
        with self._changed:
            if self._stopping.is_set():
                future.set_exception(Problem("stopping", "the service is stopping."))
            else:
                self._jobs.append((job, future))
                self._changed.notify_all()
        return future

    def evaluate(self, stream: str, wish: EvaluationBody) -> Future[str]:
        """Begin an evaluation; its id is there once it is written down."""
        me = self.worker if self.settings.owns else None
        begun = self.writer.submit(lambda c: begin_evaluation(c, me, stream, wish))
        number: Future[str] = Future()

        def committed(done: Future[Running]) -> None:
            error = done.exception()
            if error is not None:
                number.set_exception(error)
            else:
                if self.settings.owns:
                    self._begin(done.result())
                number.set_result(done.result().id)

        begun.add_done_callback(committed)
        return number

    def _begin(self, evaluation: Running) -> None:
        self.run(evaluate(self.models, self.database, self.writer, evaluation))

    @property
    def stopping(self) -> bool:
        """Whether the engine is about to end."""
        return self._stopping.is_set()

    @property
    def healthy(self) -> bool:
        """Whether both threads live and the leases are held."""
        alive = self._compute.is_alive() and self._clock.is_alive()
        return alive and bool(self.leases.current() or self.database.shared)

    # The compute thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._backoff and not self._stopping.is_set():
                    self._changed.wait(self._backoff)
                while not (self._woken or self._jobs or self._stopping.is_set()):
                    self._changed.wait()
                if self._stopping.is_set() and (not self._woken or self._backoff):
                    break
                chosen = list(self._woken)[: self.settings.together]
                for number in chosen:
                    del self._woken[number]
            try:
                self._round(chosen)
                self._backoff = 0.0
            except Exception as error:  # of the database: what was to be done stays to be done
                LOG.warning("a round failed: %s", type(error).__name__)
                self._lives.clear()
                self._backoff = min(max(2 * self._backoff, 0.1), 2.0)
                with self._changed:
                    self._woken = {**dict.fromkeys(chosen), **self._woken}
            self._slice()
        for _, future in self._jobs:
            future.set_exception(Problem("stopping", "the service is stopping."))

    def _round(self, chosen: Sequence[int]) -> None:
        if not chosen:
            return
        began = time.perf_counter()
        epochs = self.leases.current()
        with self.database.reading() as connection:
            works = [
                work
                for work in load_work(connection, chosen)
                if work.stream.shard in epochs and work.stream.id not in self._busy
            ]
            pairs = self._awake(connection, works)
        steps: list[Step] = []
        together: list[tuple[Live, Work]] = []
        for live, work in pairs:
            if work.events[0].kind in LONG:
                self._busy.add(live.number)
                self._jobs.append((self._long(live, work), Future()))
            elif live.template.solo:
                steps += self._played([(live, work)])
            else:
                together.append((live, work))
        steps += self._played(together)
        if not steps:
            return
        self._commit(steps, epochs)
        self.metrics.round(len(steps), time.perf_counter() - began)
        ends = {step.stream: step.applied for step in steps}
        self.wake(
            [
                w.stream.id
                for w in works
                if ends.get(w.stream.id, w.stream.last_seq) < w.stream.last_seq
            ]
        )

    def _awake(self, connection: Connection, works: Sequence[Work]) -> list[tuple[Live, Work]]:
        """Return streams in memory, read from the database where they are not."""
        pairs = []
        for work in works:
            row, live = work.stream, self._lives.pop(work.stream.id, None)
            if live is None or live.applied != row.applied_seq:
                try:
                    live = revive(self.models, row, load_state(connection, row.id))
                except LarcError as error:
                    # Not refused: the log keeps what waits until somebody mends it.
                    LOG.error("stream %d cannot go on: %s", row.id, error)
                    self.metrics.stuck.inc()
                    continue
            self._lives[row.id] = live
            pairs.append((live, work))
        while len(self._lives) > max(self.settings.live, len(pairs)):
            self._lives.popitem(last=False)
        self.metrics.live.set(len(self._lives))
        return pairs

    def _played(self, pairs: Sequence[tuple[Live, Work]]) -> list[Step]:
        """Play a round; if something breaks that nobody refused, each stream by itself."""
        if not pairs:
            return []
        try:
            return play(pairs)
        except Exception as error:
            LOG.exception("a batch of %d streams broke", len(pairs))
            with self.database.reading() as connection:
                for live, work in pairs:
                    again = revive(self.models, work.stream, load_state(connection, live.number))
                    live.__dict__.update(again.__dict__)
            if len(pairs) > 1:
                return [step for pair in pairs for step in self._played([pair])]
            ((live, work),) = pairs
            broken = LarcError(f"the service could not compute it ({type(error).__name__}).")
            first = refusal(work.events[0], broken)
            live.applied = first.seq
            return [Step(live.number, live.shard, work.stream.applied_seq, first.seq, [first])]

    def _commit(self, steps: Sequence[Step], epochs: dict[int, int]) -> None:
        refused = self.writer.submit(
            lambda connection: commit(connection, steps, epochs, self.worker, self.models.versions),
            alone=True,
        ).result()
        for step in steps:
            if step.stream in refused:
                self._lives.pop(step.stream, None)
                self.leases.lose([step.shard])
                self.metrics.fenced.inc()
                continue
            self.waiters.resolve({(step.stream, one.seq): one for one in step.outcomes})
            for one in step.outcomes:
                self.metrics.outcome(one)

    def _slice(self) -> None:
        """Take one step of the job that has waited longest."""
        if not self._jobs:
            return
        job, future = self._jobs.popleft()
        try:
            next(job)
            self._jobs.append((job, future))
        except StopIteration as done:
            future.set_result(done.value)
        except Exception as error:
            if not isinstance(error, LarcError):
                LOG.exception("a job broke")
            future.set_exception(error)

    def _long(self, live: Live, work: Work) -> Job:
        """Let an event take effect that replays the log; meanwhile the stream waits."""
        try:
            event = work.events[0]
            epochs = self.leases.current()
            try:
                step = yield from relearn(self.models, self.database, live, event)
            except LarcError as error:
                step = Step(live.number, live.shard, live.applied, event.seq)
                step.outcomes.append(refusal(event, error))
                live.applied = event.seq
            self._commit([step], epochs)
        except Exception:
            self._lives.pop(live.number, None)
            raise
        finally:
            self._busy.discard(live.number)
            self.wake([live.number])

    # The clock -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Once a second: renew leases, look for what nobody told us, expire questions."""
        renewed = time.monotonic()
        while not self._stopping.wait(min(1.0, self.settings.lease_s / 3)):
            try:
                owns = self.settings.owns
                if owns and time.monotonic() - renewed >= self.settings.lease_s / 3:
                    self.leases.renew()
                    self._adopt()
                    renewed = time.monotonic()
                if owns:
                    self._look()
                self._resolve(self.waiters.open())
                if owns:
                    self._expire()
            except Exception as error:
                LOG.warning("the database does not answer: %s", type(error).__name__)

    def _adopt(self) -> None:
        """Begin evaluations again that ended with their processes."""
        alone = not self.database.shared
        with self.database.reading() as connection:
            if not any_running(connection):
                return
        adopted = self.writer.submit(
            lambda connection: adopt_evaluations(connection, self.worker, alone=alone), alone=True
        ).result()
        for one in adopted:
            self._begin(one)

    def _look(self) -> None:
        with self.database.reading() as connection:
            left = behind(connection, self.leases.current())
        self.wake(left)

    def _resolve(self, keys: list[tuple[int, int]]) -> None:
        keys = self.waiters.open(keys)
        if keys:
            with self.database.reading() as connection:
                self.waiters.resolve(outcomes_of(connection, keys))

    def _expire(self) -> None:
        with self.database.reading() as connection:
            late = expired(connection, self.leases.current())
        for command in late:
            self.submit(command)


def _announce(connection: Connection, results: list[Any]) -> None:
    """Tell other processes about new events, in the transaction that makes them."""
    new = {(one.stream, one.shard) for one in results if isinstance(one, Taken) and one.new}
    notify(connection, EVENTS, [f"{number}:{shard}" for number, shard in sorted(new)])
