"""A server and a history that happens in it now, for somebody who wants to look."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import httpx

from larc.domains.ci.jobs import Job
from larc.errors import LarcError
from larc.service.github.replay import backfill, moved, replay_webhooks
from larc.service.github.settings import GitHubSettings, HookSettings
from larc.service.server import ServerSettings, log_to_stderr, running
from larc.service.starts import load_models


def live(
    jobs: Sequence[Job],
    *,
    data: Path,
    port: int,
    speed: float,
    substrate: str,
    say: Callable[[str], None] = print,
    stop: threading.Event | None = None,
) -> None:
    """Serve until Ctrl-C; the first jobs are known, the others come as webhooks.

    Parameters
    ----------
    jobs
        The history; its times are moved, so that its last third begins now.
    data, port, substrate
        The server's.
    speed
        How many of its seconds pass in one.
    say
        Told what is to be seen where.
    stop
        Ends it without Ctrl-C.
    """
    stop = stop or threading.Event()
    if threading.current_thread() is threading.main_thread():
        ending = stop
        signal.signal(signal.SIGTERM, lambda number, frame: ending.set())
    if (data / "larc.db").exists():
        raise LarcError(
            f"{data} has the streams of an earlier time, and this history happens anew; remove "
            "it, or give another --data."
        )
    secret = secrets.token_urlsafe(32)
    settings = ServerSettings(
        data=data,
        port=port,
        token_file=data / "token",
        github=GitHubSettings(hooks=[HookSettings(secrets=[secret])]),
    )
    data.mkdir(parents=True, exist_ok=True)
    models = load_models([substrate], [], "")
    log_to_stderr()
    with running(settings, models) as address:
        token = (data / "token").read_text().strip()
        history, just_before, now = parts(jobs, time.time(), speed)
        if history:
            backfill(address, token, history)
        say(f"the dashboard is {address}/ and the token to log in with is {token}")
        say(f"{len(history)} jobs are known; {len(just_before)} more come as webhooks at once")
        sys.stdout.flush()
        replay_webhooks(address, secret, just_before, stop=stop)
        _wait_for_inbox(address, token, {job.repository for job in just_before}, stop)
        say(f"{len(now)} jobs happen now, {speed:g} times as fast as they did; Ctrl-C ends it")
        sys.stdout.flush()
        begins = min(job.started_at for job in now)
        replay_webhooks(address, secret, moved(now, begins, time.time(), 1.0), speed=1.0, stop=stop)
        if not stop.is_set():
            say("all of it has happened; the dashboard stays until Ctrl-C")
            sys.stdout.flush()
        stop.wait()


def _wait_for_inbox(
    address: str, token: str, names: Collection[str], stop: threading.Event
) -> None:
    """Wait until the server has worked through what was delivered of some repositories."""
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30.0) as client:
        for name in names:
            while not stop.wait(0.5):
                view = client.get(f"{address}/v1/github/repositories/{name}").raise_for_status()
                if not view.json()["counts"]["waiting"]:
                    break


def parts(jobs: Sequence[Job], at: float, speed: float) -> tuple[list[Job], list[Job], list[Job]]:
    """Return what is told, what comes at once and what happens from a time on, all moved to it.

    What is told has ended when the others begin. Jobs between that had not are left out.

    Examples
    --------
    >>> job = Job("o/r", 5, None, "CI", "push", "build", "aa", 0, 30, 1, 7, 3, 1)
    >>> jobs = [job._replace(started_at=60 * n, completed_at=60 * n + 30) for n in range(9)]
    >>> [[one.started_at for one in part] for part in parts(jobs, at=1000.0, speed=60.0)]
    [[994, 995, 996, 997], [998, 999], [1000, 1001, 1002]]
    """
    ordered = sorted(jobs, key=lambda job: (job.started_at, job.job_id))
    middle = ordered[len(ordered) // 2].started_at
    late = ordered[2 * len(ordered) // 3].started_at
    history = [job for job in ordered if job.completed_at < middle]
    between = [job for job in ordered if middle <= job.started_at and job.completed_at < late]
    rest = [job for job in ordered if job.started_at >= late]
    told, sent, now = (moved(part, late, at, speed) for part in (history, between, rest))
    return told, sent, now
