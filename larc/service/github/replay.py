"""Play a recorded history into a running server, as signed webhooks or as history to be known."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from larc.domains.ci.jobs import LABELS, Job
from larc.domains.ci.seeding import causal_jobs
from larc.errors import LarcError
from larc.github.webhooks import (
    DELIVERY,
    EVENT,
    SIGNATURE,
    job_delivery,
    run_delivery,
    signature,
)

#: How many jobs of a history go into one request: each is told twice, as it starts and ends.
CHUNK = 1000
#: How often a request is sent that found nobody, and how long it waits before that.
_TRIES, _PAUSE_S = 8, 0.5


@dataclass(frozen=True)
class Played:
    """What a replay did: deliveries sent, those the server knew before, jobs they are of."""

    jobs: int
    deliveries: int
    duplicates: int


def _row(job: Job) -> dict[str, Any]:
    """Return a job as a flat row again."""
    # Several conclusions have the label other; this is one of them.
    conclusion = "neutral" if LABELS[job.label] == "other" else LABELS[job.label]
    return job._asdict() | {"conclusion": conclusion}


def recorded_deliveries(jobs: Sequence[Job]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield what GitHub would have delivered: the time, the event and the document, in order.

    Jobs that start in a second come before labels of that second, as in the studies. The event of
    a run comes before its first job.

    Examples
    --------
    >>> job = Job("o/r", 5, None, "CI", "push", "build", "aa", 10, 20, 1, 7, 3, 1)
    >>> [(time, event, document["action"]) for time, event, document in recorded_deliveries([job])]
    [(10, 'workflow_run', 'requested'), (10, 'workflow_job', 'in_progress'),
     (20, 'workflow_job', 'completed')]
    """
    runs = set()
    for kind, started_or_ended in causal_jobs(jobs):
        for job in started_or_ended:
            row = _row(job)
            at = job.started_at if kind == "ask" else job.completed_at
            run = (job.repository, job.run_id or job.job_id, job.run_attempt)
            if run not in runs:
                runs.add(run)
                yield at, "workflow_run", run_delivery(row)
            status = "in_progress" if kind == "ask" else "completed"
            yield at, "workflow_job", job_delivery(row, status)


def replay_webhooks(
    address: str,
    secret: str,
    jobs: Sequence[Job],
    *,
    hook: str = "default",
    speed: float = 0.0,
    live: bool = False,
    stop: threading.Event | None = None,
    say: Callable[[int, int], None] = lambda done, total: None,
    client: httpx.Client | None = None,
) -> Played:
    """Send a history to a running server as signed webhooks, in causal order.

    Parameters
    ----------
    address, hook, secret
        Where to, and how to sign.
    jobs
        The history; rows of several repositories may be mixed.
    speed
        How many of its seconds pass in one second; 0 for as fast as the server takes them.
    live
        Move its times, so that it begins now and happens at that speed.
    stop
        Ends it before its end.
    say
        Told how far it is.
    """
    if live and jobs:
        begins = min(job.started_at for job in jobs)
        jobs, speed = moved(jobs, begins, time.time(), speed or 1.0), 1.0
    stop = stop or threading.Event()
    deliveries = list(recorded_deliveries(jobs))
    began, first, duplicates = time.monotonic(), deliveries[0][0] if deliveries else 0.0, 0
    with client or httpx.Client(timeout=30.0) as sender:
        for number, (at, event, document) in enumerate(deliveries, start=1):
            wait = (at - first) / speed - (time.monotonic() - began) if speed else 0.0
            if stop.wait(wait) if wait > 0 else stop.is_set():
                return Played(len(jobs), number - 1, duplicates)
            body = json.dumps(document, separators=(",", ":")).encode()
            headers = {
                EVENT: event,
                # The same content is the same delivery: a replay that was stopped may go on.
                DELIVERY: hashlib.sha256(body).hexdigest(),
                SIGNATURE: signature(secret, body),
                "Content-Type": "application/json",
            }
            path = f"{address}/v1/github/webhook/{quote(hook)}"
            answer = _sent(lambda: sender.post(path, content=body, headers=headers))  # noqa: B023
            duplicates += answer.status_code == 200
            say(number, len(deliveries))
    return Played(len(jobs), len(deliveries), duplicates)


def moved(jobs: Sequence[Job], begins: int, now: float, speed: float) -> list[Job]:
    """Return jobs as if they happened now: what began at a time begins now, and all is faster.

    Examples
    --------
    >>> job = Job("o/r", 5, None, "CI", "push", "build", "aa", 40, 100, 1, 7, 3, 1)
    >>> [(one.started_at, one.completed_at) for one in moved([job], 10, now=1000.0, speed=60.0)]
    [(1000, 1001)]
    """

    def at(time: int) -> int:
        return int(now + (time - begins) / speed)

    return [
        job._replace(started_at=at(job.started_at), completed_at=at(job.completed_at))
        for job in jobs
    ]


def backfill(
    address: str,
    token: str,
    jobs: Sequence[Job],
    *,
    say: Callable[[int, int], None] = lambda done, total: None,
    client: httpx.Client | None = None,
) -> dict[str, int]:
    """Let the streams of repositories know a history; returns the jobs of each.

    In causal order, before the first question: cases and HEDGE4 learn it, states do not.
    """
    by_repository: dict[str, list[Job]] = {}
    for job in jobs:
        by_repository.setdefault(job.repository, []).append(job)
    headers = {"Authorization": f"Bearer {token}"}
    chunks = [
        (name, chunk)
        for name, history in sorted(by_repository.items())
        for chunk in _chunks(history)
    ]
    with client or httpx.Client(timeout=120.0) as sender:
        for number, (name, chunk) in enumerate(chunks, start=1):
            path = f"{address}/v1/github/repositories/{quote(name)}/history"
            body = {"events": chunk}
            _sent(lambda: sender.post(path, json=body, headers=headers))  # noqa: B023
            say(number, len(chunks))
    return {name: len(history) for name, history in sorted(by_repository.items())}


def _chunks(history: Sequence[Job]) -> Iterator[list[dict[str, Any]]]:
    """Yield a history in causal order, in parts that fit into a request.

    Labels of one second stay together, being one batch, unless they fill a request by themselves.
    """
    chunk: list[dict[str, Any]] = []
    size = 0
    for kind, jobs in causal_jobs(history):
        for at in range(0, len(jobs), CHUNK):
            part = [job._asdict() for job in jobs[at : at + CHUNK]]
            if chunk and size + len(part) > CHUNK:
                yield chunk
                chunk, size = [], 0
            chunk.append({"kind": kind, "jobs": part})
            size += len(part)
    if chunk:
        yield chunk


def _sent(send: Callable[[], httpx.Response]) -> httpx.Response:
    """Send a request, again where the server is not there or says so, and refuse a refusal."""
    for attempt in range(_TRIES):
        last = attempt + 1 == _TRIES
        try:
            answer = send()
        except httpx.TransportError as error:
            if last:
                raise LarcError(f"the server does not answer ({type(error).__name__}).") from None
        else:
            if answer.is_success:
                return answer
            if answer.status_code not in (429, 503) or last:
                raise LarcError(f"the server refused ({answer.status_code}): {_detail(answer)}")
        time.sleep(_PAUSE_S * 2**attempt)
    raise AssertionError


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])[:300]
    except (ValueError, KeyError, TypeError):
        return answer.text[:100]
