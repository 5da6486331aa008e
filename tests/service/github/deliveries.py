"""Deliveries in GitHub's form, made up or read from real ones, and a server that takes them."""

import json
import os
import uuid
from pathlib import Path

import pytest

from larc.github.webhooks import DELIVERY, EVENT, SIGNATURE, signature
from larc.io.times import iso_time
from larc.service.github.settings import GitHubSettings, HookSettings
from tests.service.conftest import until

SECRET = "a secret of the tests"
REPOSITORY = {"id": 77, "full_name": "o/r"}
START = 1_767_312_000


def stamp(seconds):
    return iso_time(START + seconds)


def settings(**changes):
    quick = {"join_wait_s": 0.0, "settle_s": 0.0, "hooks": [HookSettings(secrets=[SECRET])]}
    return GitHubSettings(**(quick | changes))


def run_event(run=3, attempt=1, repository=REPOSITORY, **changes):
    about = {
        "id": run,
        "run_attempt": attempt,
        "workflow_id": 5,
        "path": ".github/workflows/ci.yml",
        "event": "push",
        "name": "CI",
        "run_started_at": stamp(0),
    }
    return {"action": "requested", "workflow_run": about | changes, "repository": repository}


def job_event(number=7, status="in_progress", repository=REPOSITORY, **changes):
    ended = status == "completed"
    about = {
        "id": number,
        "run_id": 3,
        "run_attempt": 1,
        "name": "build",
        "head_sha": "c0ffee",
        "head_branch": "main",
        "workflow_name": "CI",
        "html_url": f"https://github.com/o/r/actions/runs/3/job/{number}",
        "status": status,
        "conclusion": "success" if ended else None,
        "started_at": stamp(10),
        "completed_at": stamp(70) if ended else None,
        "runner_id": 1,
        "runner_name": "hosted",
        "steps": [{"name": "Set up job"}],
        "labels": ["ubuntu-latest"],
    }
    return {"action": status, "workflow_job": about | changes, "repository": repository}


def shared(name):
    """Return a real payload; a test without the data is skipped."""
    root = os.environ.get("LARC_SHARED_DATA")
    file = Path(root or "absent") / "github" / name
    if not file.exists():
        pytest.skip("LARC_SHARED_DATA has no GitHub payloads")
    return json.loads(file.read_text())


class Follower:
    """A server that follows repositories, and what is sent to it."""

    def __init__(self, server, hook="default", secret=SECRET):
        self.server, self.hook, self.secret = server, hook, secret

    def send(self, document, event=None, delivery=None, secret=None):
        event = event or ("workflow_job" if "workflow_job" in document else "workflow_run")
        body = json.dumps(document).encode()
        headers = {
            EVENT: event,
            DELIVERY: delivery or str(uuid.uuid4()),
            SIGNATURE: signature(secret or self.secret, body),
            "Content-Type": "application/json",
        }
        return self.server.http.post(
            f"/v1/github/webhook/{self.hook}", content=body, headers=headers
        )

    def send_all(self, *documents):
        for one in documents:
            assert self.send(one).status_code == 202

    def log(self, stream="github.o.r"):
        """Return the stream's events as kind, key and status; nothing where there is none."""
        answer = self.server.http.get(f"/v1/streams/{stream}/events")
        if answer.status_code == 404:
            return []
        events = answer.raise_for_status().json()["events"]
        return [(one["kind"], one["key"].lstrip("0"), one["status"]) for one in events]

    def view(self, name="o/r"):
        """Return what is shown of a repository, once the inbox is empty."""

        def settled():
            answer = self.server.http.get(f"/v1/github/repositories/{name}")
            if answer.status_code == 404:
                return None
            view = answer.raise_for_status().json()
            status = self.server.status(view["stream"])
            settled = not view["counts"]["waiting"] and status["last_seq"] == status["applied_seq"]
            return view if settled else None

        return until(settled)
