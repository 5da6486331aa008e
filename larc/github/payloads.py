"""The raw forms of GitHub: answers of the runs and jobs endpoints, and webhook deliveries.

A job of the REST API does not say which workflow file it belongs to, nor what triggered it: its
run does. So the jobs of an answer become flat rows once the runs are known, and keep what they
say themselves where their run is not at hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REPOSITORY_IN_URL = re.compile(r"/repos/([^/]+/[^/]+)/actions/")


@dataclass(frozen=True, slots=True)
class Payload:
    """The jobs and runs of one document, each as GitHub wrote it, and the repository it names."""

    jobs: tuple[object, ...] = ()
    runs: tuple[object, ...] = ()
    repository: str | None = None


def read_payload(document: Mapping[str, object]) -> Payload | None:
    """Return what a document of GitHub holds, or ``None`` where it is none that is known here.

    Precomputed are: the answer of a jobs or a runs endpoint, one run, one job, and the deliveries
    ``workflow_job`` and ``workflow_run``.

    Examples
    --------
    >>> read_payload({"total_count": 1, "jobs": [{"id": 7}]})
    Payload(jobs=({'id': 7},), runs=(), repository=None)
    >>> read_payload({"workflow_job": {"id": 7}, "repository": {"full_name": "o/r"}})
    Payload(jobs=({'id': 7},), runs=(), repository='o/r')
    >>> read_payload({"message": "Not Found"}) is None
    True
    """
    jobs, runs = document.get("jobs"), document.get("workflow_runs")
    if isinstance(jobs, list):
        return Payload(jobs=tuple(jobs))
    if isinstance(runs, list):
        return Payload(runs=tuple(runs))
    job, run = document.get("workflow_job"), document.get("workflow_run")
    if isinstance(job, dict):
        return Payload(jobs=(job,), repository=_full_name(document))
    if isinstance(run, dict):
        return Payload(runs=(run,), repository=_full_name(document))
    if "jobs_url" in document and "id" in document:
        return Payload(runs=(document,))
    if "run_url" in document and "id" in document:
        return Payload(jobs=(document,))
    return None


def flat_row(
    job: Mapping[str, object],
    run: Mapping[str, object] | None = None,
    repository: str | None = None,
) -> dict[str, object]:
    """Return the flat row of a raw job, completed from its run where there is one.

    The repository is the run's, else the given one, else the one in the job's own address.

    Examples
    --------
    >>> job = {"id": 7, "run_id": 3, "name": "build", "head_sha": "c0ffee", "status": "queued",
    ...        "run_url": "https://api.github.com/repos/o/r/actions/runs/3"}
    >>> run = {"id": 3, "workflow_id": 5, "path": ".github/workflows/ci.yml", "event": "push"}
    >>> row = flat_row(job, run)
    >>> row["repository"], row["workflow_id"], row["event"], row["job_name"], row["job_id"]
    ('o/r', 5, 'push', 'build', 7)
    """
    run = {} if run is None else run
    return {
        "repository": _full_name(run) or repository or _repository_of(job),
        "workflow_id": run.get("workflow_id"),
        "workflow_path": run.get("path"),
        "workflow_name": job.get("workflow_name") or run.get("name"),
        "event": run.get("event"),
        "job_name": job.get("name"),
        "head_sha": job.get("head_sha"),
        "started_at": job.get("started_at"),
        "completed_at": job.get("completed_at"),
        "status": job.get("status"),
        "conclusion": job.get("conclusion"),
        "job_id": job.get("id"),
        "run_id": job.get("run_id"),
        "run_attempt": job.get("run_attempt"),
    }


def _full_name(document: Mapping[str, object]) -> str | None:
    repository = document.get("repository")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    return name if isinstance(name, str) else None


def _repository_of(job: Mapping[str, object]) -> str | None:
    for key in ("run_url", "url"):
        address = job.get(key)
        if isinstance(address, str) and (match := _REPOSITORY_IN_URL.search(address)):
            return match[1]
    return None
