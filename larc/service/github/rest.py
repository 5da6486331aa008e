"""The thread that talks to GitHub: what no event said, what events lost, and what is shown there.

Only the address that the operator configured is ever asked. What it answers goes through the inbox,
as deliveries do, so that it takes effect once and in order.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.errors import LarcError
from larc.github.apps import AppTokens
from larc.github.client import GitHub, NotFound
from larc.io.times import iso_time
from larc.service.github.asking import Desk
from larc.service.github.inbox import put
from larc.service.github.joining import change
from larc.service.github.outbox import NAME, Shown, compose
from larc.service.github.repositories import WHO, by_number
from larc.service.github.tables import job, output, repository
from larc.service.github.worker import GitHubWorker
from larc.service.store.database import now
from larc.service.store.log import Command

LOG = logging.getLogger("larc.service.github")
#: How often it is looked for something to do, in seconds.
_TICK_S = 1.0
#: How far back runs are listed beyond the last time, in seconds: some last for days.
_BACK_S = 86_400
#: The longest that GitHub may let one question wait, in seconds.
_PATIENCE_S = 60.0
_PAGE = 100
_MOST_PAGES = 20


class RestWorker:
    """Asks GitHub and tells it, beside everything else.

    Parameters
    ----------
    worker
        The one that works through the inbox.
    """

    def __init__(self, worker: GitHubWorker) -> None:
        self.worker, self.settings, self.engine = worker, worker.settings, worker.engine
        settings = self.settings
        self.app: AppTokens | None = None
        if settings.app_id:
            self.app = AppTokens(
                settings.api, settings.app_id, settings.installation_id, settings.app_key_file
            )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="larc-github-rest", daemon=True)

    def start(self) -> None:
        """Begin, if GitHub is to be asked at all."""
        if self.settings.asks:
            self._thread.start()

    def stop(self) -> None:
        """End the question under way, and stop."""
        self._stopping.set()
        if self.settings.asks:
            self._thread.join()

    def client(self, full_name: str) -> GitHub:
        """Return a client for one repository."""
        token = self.settings.token if self.app is None else self.app.token()
        return GitHub(
            full_name,
            self.settings.api,
            token or None,
            sleep=self._sleep,
            longest_wait=_PATIENCE_S,
        )

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise LarcError("the service is stopping.")

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            for work in (self._join, self._reconcile, self._show):
                try:
                    work()
                except LarcError as error:
                    LOG.warning("GitHub: %s", error)
                except Exception:
                    LOG.exception("GitHub could not be asked")

    # In ------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Look runs up whose events never came, for the jobs that wait for them."""
        with self.engine.database.reading() as connection:
            at = now(connection)
            query = (
                sa.select(job.c.run, job.c.attempt, repository.c.id, repository.c.full_name)
                .join(repository, repository.c.id == job.c.repository)
                .where(job.c.state == "joining", job.c.run.is_not(None))
                .where(job.c.seen_at <= at - self.settings.join_wait_s)
                .where(repository.c.shard.in_(sorted(self.engine.leases.current())))
                .distinct()
                .limit(20)
            )
            rows = connection.execute(query).all()
        for row in rows:
            with self.client(row.full_name) as github:
                path = f"actions/runs/{row.run}"
                try:
                    run = github.document(f"{path}/attempts/{row.attempt}")
                except NotFound:
                    run = github.document(path)
            self._heard(row, "workflow_run", {**run, "id": row.run, "run_attempt": row.attempt})

    def _heard(self, about: Any, event: str, payload: Mapping[str, Any]) -> None:
        """Put what GitHub answered into the inbox, once for each status."""
        attempt, status = payload.get("run_attempt"), payload.get("status")
        name = f"{event}:{about.id}:{payload['id']}:{attempt}:{status}"
        document = {
            "action": "reconciled",
            event: payload,
            "repository": {"id": about.id, "full_name": about.full_name},
        }
        body = json.dumps(document).encode()
        self.engine.writer.submit(
            lambda c: put(c, "rest", f"rest:{name}"[:100], event, body)
        ).result()
        self.worker.wake()

    def _reconcile(self) -> None:
        """Find what webhooks lost, of every repository whose turn it is."""
        with self.engine.database.reading() as connection:
            at = now(connection)
            query = sa.select(repository).where(
                repository.c.id >= 0,
                repository.c.reconciled_at <= at - self.settings.reconcile_s,
                repository.c.shard.in_(sorted(self.engine.leases.current())),
            )
            rows = connection.execute(query.limit(20)).all()
        for row in rows:
            with self.client(row.full_name) as github:
                self._overdue(github, row, at)
                self._lost(github, row, at)
            done = sa.update(repository).where(repository.c.id == row.id)
            self._write(done.values(reconciled_at=at))

    def _overdue(self, github: GitHub, about: Row[Any], at: float) -> None:
        """Ask what became of jobs that run for longer than any before them."""
        with self.engine.database.reading() as connection:
            longest = sa.select(sa.func.max(job.c.completed_at - job.c.started_at)).where(
                job.c.repository == about.id, job.c.label.is_not(None)
            )
            usual = connection.execute(longest).scalar() or 0
            patience = max(self.settings.overdue_s, float(usual))
            query = sa.select(job).where(
                job.c.repository == about.id, job.c.state == "asked", job.c.seen_at <= at - patience
            )
            rows = connection.execute(query.limit(100)).all()
        for row in rows:
            try:
                payload = github.document(f"actions/jobs/{row.id}")
            except NotFound:
                self.worker.write(lambda desk, row=row: _gone(desk, row))  # type: ignore[misc]
                continue
            if payload.get("status") == "completed":
                self._heard(about, "workflow_job", payload)

    def _lost(self, github: GitHub, about: Row[Any], at: float) -> None:
        """List runs since the last time, and the jobs of those not known to have ended."""
        since = max(int(about.reconciled_at) - _BACK_S, 1)
        created = f"{iso_time(since)}..{iso_time(int(at) + 60)}"
        for run in _listed(github, "actions/runs", "workflow_runs", {"created": created}):
            self._heard(about, "workflow_run", {**run, "status": None})
            with self.engine.database.reading() as connection:
                known = _known_to_have_ended(connection, about.id, run)
            if known:
                continue
            path = f"actions/runs/{run['id']}/jobs"
            for payload in _listed(github, path, "jobs", {"filter": "all"}):
                if payload.get("status") in ("in_progress", "completed"):
                    self._heard(about, "workflow_job", payload)

    # Out -----------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Bring what GitHub shows up to date, commit by commit."""
        if self.settings.output == "none":
            return
        with self.engine.database.reading() as connection:
            at = now(connection)
            query = (
                sa.select(output, repository.c.full_name)
                .join(repository, repository.c.id == output.c.repository)
                .where(output.c.changed > output.c.shown, output.c.next_at <= at)
                .where(repository.c.shard.in_(sorted(self.engine.leases.current())))
                .order_by(output.c.next_at)
                .limit(20)
            )
            rows = connection.execute(query).all()
        for row in rows:
            with self.engine.database.reading() as connection:
                shown = compose(connection, row.repository, row.commit, self.settings.surprise)
            values: dict[str, Any] = {"shown": row.changed, "failures": 0}
            try:
                if shown is not None and shown.digest != row.sent:
                    values["check_run"] = self._sent(row, shown)
                    values |= {"sent": shown.digest, "next_at": at + self.settings.output_every_s}
            except LarcError as error:
                LOG.warning("GitHub: %s", error)
                wait = min(5.0 * 2**row.failures, 3600.0)
                values = {"failures": row.failures + 1, "next_at": at + wait}
            whose = (output.c.repository == row.repository) & (output.c.commit == row.commit)
            self._write(sa.update(output).where(whose).values(values))

    def _sent(self, row: Row[Any], shown: Shown) -> int | None:
        """Make or change what is shown of a commit; returns the check run's number."""
        with self.client(row.full_name) as github:
            if self.settings.output == "status":
                # A status of the same context replaces the one before it.
                body: dict[str, Any] = {
                    "state": "success",
                    "context": NAME,
                    "description": shown.title[:140],
                }
                github.send("POST", f"statuses/{row.commit}", body)
                return None
            body = {
                "name": NAME,
                "head_sha": row.commit,
                "external_id": NAME,
                "status": "completed",
                "conclusion": "neutral",
                "output": {"title": shown.title[:255], "summary": shown.summary[:65_000]},
            }
            number = row.check_run or self._own_check_run(github, row.commit)
            if number is None:
                answer = github.send("POST", "check-runs", body)
            else:
                del body["head_sha"]
                answer = github.send("PATCH", f"check-runs/{number}", body)
            return int(answer["id"])

    def _own_check_run(self, github: GitHub, commit: str) -> int | None:
        """Return the check run that was made before a crash kept us from noting it."""
        query = {"check_name": NAME, "app_id": self.settings.app_id, "filter": "latest"}
        for one in _listed(github, f"commits/{commit}/check-runs", "check_runs", query):
            if one.get("external_id") == NAME:
                return int(one["id"])
        return None

    def _write(self, statement: Any) -> None:
        self.engine.writer.submit(lambda connection: connection.execute(statement)).result()


def _listed(
    github: GitHub, path: str, name: str, query: Mapping[str, str | int]
) -> list[dict[str, Any]]:
    """Return the entries of a listing, page by page, up to a limit."""
    entries: list[dict[str, Any]] = []
    for number in range(1, _MOST_PAGES + 1):
        page = github.page(path, {**query, "per_page": _PAGE, "page": number}, name, dict)
        entries += page.items
        if not page.more:
            break
    return entries


def _known_to_have_ended(connection: Connection, number: int, run: Mapping[str, Any]) -> bool:
    """Whether a run has ended and so have all of its jobs that were heard of, one at least."""
    if run.get("status") != "completed":
        return False
    attempt = run.get("run_attempt") or 1
    rows = connection.execute(
        sa.select(job.c.status).where(
            job.c.repository == number, job.c.run == run["id"], job.c.attempt == attempt
        )
    ).all()
    return bool(rows) and all(row.status == "completed" for row in rows)


def _gone(desk: Desk, row: Row[Any]) -> None:
    """Drop the question about a job that GitHub does not know any more."""
    about = by_number(desk.connection, row.repository)
    if about is not None:
        desk.take(Command(about.stream, "drop", row.question, {}, WHO))
        change(desk.connection, row, state="left out", reason="gone")
