"""Webhooks of GitHub: their signatures, and deliveries made from rows of a history."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from larc.io.times import iso_time

SIGNATURE = "X-Hub-Signature-256"
DELIVERY = "X-GitHub-Delivery"
EVENT = "X-GitHub-Event"


def signature(secret: str, body: bytes) -> str:
    """Return the signature of a delivery: HMAC-SHA256 over its bytes.

    Examples
    --------
    GitHub's published vector:

    >>> signature("It's a Secret to Everybody", b"Hello, World!")
    'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
    """
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed(secrets: Iterable[str], body: bytes, given: bytes) -> bool:
    r"""Whether a signature is that of a body under one of the secrets, in constant time.

    Bytes are compared: a header may hold any.

    Examples
    --------
    >>> signed(["a", "b"], b"{}", signature("b", b"{}").encode()), signed(["a"], b"{}", b"\xe9")
    (True, False)
    """
    results = [hmac.compare_digest(signature(one, body).encode(), given) for one in secrets]
    return any(results)


def repository_number(name: str) -> int:
    """Return a number for a repository of a history that does not say GitHub's own."""
    return zlib.crc32(name.encode())


def job_delivery(row: Mapping[str, Any], status: str) -> dict[str, Any]:
    """Return what GitHub would deliver when the job of a flat row reaches a status.

    Examples
    --------
    >>> row = {"repository": "o/r", "job_id": 7, "job_name": "build", "head_sha": "aa",
    ...        "started_at": 10, "completed_at": 20, "conclusion": "failure"}
    >>> delivery = job_delivery(row, "in_progress")
    >>> delivery["action"], delivery["workflow_job"]["conclusion"], "event" in str(delivery)
    ('in_progress', None, False)
    """
    ended = status == "completed"
    job = {
        "id": row["job_id"],
        "run_id": row.get("run_id") or row["job_id"],
        "run_attempt": row.get("run_attempt") or 1,
        "workflow_name": row.get("workflow_name"),
        "head_branch": row.get("head_branch"),
        "head_sha": row["head_sha"],
        "status": status,
        "conclusion": row["conclusion"] if ended else None,
        "started_at": _stamp(row["started_at"]),
        "completed_at": _stamp(row["completed_at"]) if ended else None,
        "name": row["job_name"],
        "steps": [],
        "labels": ["recorded"],
        "runner_id": 1,
        "runner_name": "recorded",
    }
    return {"action": status, "workflow_job": job, "repository": _repository(row)}


def run_delivery(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what GitHub would deliver about the run of a job, when it is requested.

    Examples
    --------
    >>> row = {"repository": "o/r", "job_id": 7, "head_sha": "aa", "started_at": 10,
    ...        "workflow_id": 5, "workflow_path": "ci.yml", "event": "push"}
    >>> run_delivery(row)["workflow_run"]["path"]
    'ci.yml'
    """
    run = {
        "id": row.get("run_id") or row["job_id"],
        "run_attempt": row.get("run_attempt") or 1,
        "workflow_id": row.get("workflow_id"),
        "path": row.get("workflow_path"),
        "name": row.get("workflow_name"),
        "event": row.get("event"),
        "head_sha": row["head_sha"],
        "head_branch": row.get("head_branch"),
        "status": "queued",
        "conclusion": None,
        "run_started_at": _stamp(row["started_at"]),
    }
    return {"action": "requested", "workflow_run": run, "repository": _repository(row)}


def _repository(row: Mapping[str, Any]) -> dict[str, Any]:
    name = row["repository"]
    return {"id": row.get("repository_id") or repository_number(name), "full_name": name}


def _stamp(value: Any) -> Any:
    return iso_time(value) if isinstance(value, int) else value
