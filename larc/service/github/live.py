"""A server and a history that happens in it now, for somebody who wants to look."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

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
    told: float,
    say: Callable[[str], None] = print,
    stop: threading.Event | None = None,
) -> None:
    """Serve until Ctrl-C; the first jobs are told as history, the others come as webhooks.

    Parameters
    ----------
    jobs
        The history; its times are moved, so that what is not told beforehand begins now.
    data, port, substrate
        The server's.
    speed
        How many of its seconds pass in one.
    told
        The share of jobs that are told beforehand.
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
        ordered = sorted(jobs, key=lambda job: (job.started_at, job.job_id))
        first = ordered[int(told * len(ordered)) :][0]
        here = moved(ordered, first.started_at, time.time(), speed)
        # What had not ended when the first of the others starts is no history.
        begins = first.started_at
        history = [
            new
            for old, new in zip(ordered, here, strict=True)
            if old.completed_at < begins and old.started_at < begins
        ]
        rest = [new for old, new in zip(ordered, here, strict=True) if old.started_at >= begins]
        if history:
            backfill(address, token, history)
        say(f"the dashboard is {address}/ and the token to log in with is {token}")
        say(
            f"{len(history)} jobs are known, {len(rest)} happen now, {speed:g} times as fast as "
            "they did; Ctrl-C ends it"
        )
        sys.stdout.flush()
        replay_webhooks(address, secret, rest, speed=1.0, stop=stop)
        if not stop.is_set():
            say("all of it has happened; the dashboard stays until Ctrl-C")
            sys.stdout.flush()
        stop.wait()
