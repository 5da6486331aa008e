"""The live service: killed under load, fed hostile requests, its database taken away."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.postgres import Postgres, binaries
from larc.errors import LarcError
from larc.service import Client

STREAMS = 6
SECRET = "what-only-the-other-tenant-knows"


@dataclass
class Served:
    """What came of it."""

    kills: int = 0
    labels: int = 0
    requests: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Serving:
    """``larc serve`` as a process, again and again on the same data."""

    def __init__(self, place: Path, *options: str) -> None:
        self.place, self.options = place, options
        place.mkdir(parents=True, exist_ok=True)
        self.address = ""

    def start(self) -> None:
        command = [sys.executable, "-m", "larc.cli", "serve", "--data", str(self.place / "data")]
        command += ["--substrate", "tiny", "--port", "0", "--threads", "1"]
        command += ["--token-file", str(self.place / "token"), *self.options]
        environment = {**os.environ, "LARC_LOG": "error"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise LarcError(f"the service did not start: {line!r}")
        self.address = line.split()[-1]

    @property
    def token(self) -> str:
        return (self.place / "token").read_text().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def client(self, **more: Any) -> Client:
        return Client(self.address, self.token, **{"attempts": 1, "timeout": 20, **more})


class Load:
    """Threads that ask and label, and try the same again until it is acknowledged."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.stopping = threading.Event()
        self.answers: list[dict[str, list[float]]] = [{} for _ in range(STREAMS)]
        self.acknowledged: list[set[str]] = [set() for _ in range(STREAMS)]
        self.changed = 0
        self.threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(STREAMS)
        ]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _work(self, number: int) -> None:
        name, count = f"s{number}", 0
        while not self.stopping.is_set():
            address = self.serving.address
            with self.serving.client() as client:  # costs more than a request: one for each server
                while address == self.serving.address and not self.stopping.is_set():
                    try:
                        count = self._step(client, number, name, count)
                    except LarcError:
                        time.sleep(0.1)

    def _step(self, client: Client, number: int, name: str, count: int) -> int:
        """Ask and label once; whatever is not acknowledged is tried again as it was."""
        key = f"q{count}"
        if count == 0:
            client.stream(name)
        said = client.ask(name, f"Item {count % 5}: ", ["up", "down"], id=key)
        first = self.answers[number].setdefault(key, said.probabilities)
        self.changed += first != said.probabilities
        client.label(name, key, (count + number) % 2)
        self.acknowledged[number].add(key)
        return count + 1

    def check(self, client: Client) -> list[str]:
        """Return what is wrong with the logs, once everything has taken effect."""
        wrong = [f"{self.changed} answers changed"] if self.changed else []
        for number in range(STREAMS):
            name = f"s{number}"
            status = client.status(name)
            end = time.monotonic() + 60
            while status.applied_seq < status.last_seq and time.monotonic() < end:
                time.sleep(0.05)
                status = client.status(name)
            events: list[Any] = []
            while more := client.events(name, after=len(events)).events:
                events += more
            if [one["seq"] for one in events] != list(range(1, status.last_seq + 1)):
                wrong.append(f"{name}: the log has gaps")
            labels = [e["key"] for e in events if (e["kind"], e["status"]) == ("label", "applied")]
            lost = self.acknowledged[number] - set(labels)
            if lost:
                wrong.append(f"{name}: {len(lost)} acknowledged labels were lost")
            if len(labels) != len(set(labels)) or len(labels) != status.labelled:
                wrong.append(f"{name}: a label was learned twice")
            version = 0
            for one in events:
                if one["kind"] == "label":
                    version = one["seq"]
                elif one["answer"] is None:
                    wrong.append(f"{name}: question {one['key']} has no answer")
                elif one["answer"]["state_version"] != version:
                    wrong.append(f"{name}: event {one['seq']} was out of order")
                elif (
                    self.answers[number].get(one["key"], one["answer"]["probabilities"])
                    != (one["answer"]["probabilities"])
                ):
                    wrong.append(f"{name}: the answer of {one['key']} changed")
        return wrong


def kill_under_load(
    serving: Serving, kills: int, seed: int, served: Served, say: Callable[[str], None]
) -> None:
    """Kill a server again and again while clients work."""
    chance = random.Random(seed)
    serving.start()
    load = Load(serving)
    try:
        for number in range(kills):
            time.sleep(chance.uniform(0.05, 1.0))
            serving.kill()
            served.kills += 1
            serving.start()
            if (number + 1) % 20 == 0:
                say(f"{number + 1} kills of {serving.place.name}")
        time.sleep(2.0)
    finally:
        load.stop()
    with serving.client(attempts=8) as client:
        served.problems += [f"{serving.place.name}: {one}" for one in load.check(client)]
    served.labels += sum(map(len, load.acknowledged))
    serving.kill()


# Hostile requests --------------------------------------------------------------------------------

_PIECES: list[Any] = [
    None, True, -1, 0, 1e400, 2**70, 0.5, "", "up", "\u0000", "\ud800", "x" * 5000, "../../etc",
    "' OR 1=1 --", "{{7*7}}", [], [[]], ["up", "up"], ["up"] * 100, [float("nan")] * 2, {},
    {"$ne": 1}, "os:system", {"version": 2**70},
]  # fmt: skip
_FIELDS = [
    "id", "prompt", "candidates", "label", "losses", "template", "mode", "expiry", "experts",
    "context", "occurred_at", "version", "replay", "model", "messages", "max_tokens", "questions",
    "scopes", "streams", "strategies", "rule", "given", "draws", "relearn", "larc", "echo",
]  # fmt: skip
_PATHS = [
    "/v1/streams/{s}", "/v1/streams", "/v1/streams/{s}/questions", "/v1/streams/{s}/questions/{q}",
    "/v1/streams/{s}/questions/{q}/label", "/v1/streams/{s}/questions/{q}/used",
    "/v1/streams/{s}/questions/{q}/correction", "/v1/streams/{s}/events",
    "/v1/streams/{s}/snapshots", "/v1/streams/{s}/snapshots/{q}/file", "/v1/streams/{s}/rollback",
    "/v1/streams/{s}/evaluations", "/v1/questions:batch", "/v1/tokens", "/v1/tokens/{q}",
    "/v1/templates/{q}", "/v1/audit", "/v1/models", "/v1/completions", "/v1/chat/completions",
    "/readyz", "/metrics", "/v1/{q}", "/{q}",
]  # fmt: skip
_NAMES = ["mine.a", "mine.b", "other.secret", "missing", "..", "%00", "a" * 300, "%2e%2e%2f", "ü"]


def hostile(
    serving: Serving, count: int, seed: int, served: Served, say: Callable[[str], None]
) -> None:
    """Send requests that nobody should send; none may break anything or show another's data."""
    serving.start()
    chance = random.Random(seed)
    with serving.client(attempts=8) as admin:
        for name in ("mine.a", "mine.b", "other.secret"):
            admin.stream(name)
        admin.ask("other.secret", SECRET, ["up", "down"], id="theirs")
    token = httpx.post(
        f"{serving.address}/v1/tokens",
        headers={"Authorization": f"Bearer {serving.token}"},
        json={"scopes": ["ask", "label", "read", "admin"], "streams": ["mine.*"]},
    ).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=serving.address, headers=headers, timeout=60) as http:
        for number in range(count):
            method = chance.choice(["GET", "POST", "PUT", "PATCH", "DELETE"])
            path = chance.choice(_PATHS).format(
                s=chance.choice(_NAMES), q=chance.choice(["theirs", "q", *_NAMES])
            )
            request = http.build_request(method, path, **_body(chance))
            if chance.random() < 0.1:
                request.headers["Authorization"] = chance.choice(["", "Bearer x", f"Basic {token}"])
            try:
                reply = http.send(request)
            except httpx.TransportError as error:
                served.problems.append(f"{method} {path}: {type(error).__name__}")
                break
            served.requests += 1
            status = reply.status_code
            served.statuses[status] = served.statuses.get(status, 0) + 1
            if status == 500:
                served.problems.append(f"{method} {path} {request.content[:200]!r}: 500")
            if SECRET in reply.text:
                served.problems.append(f"{method} {path} showed another's data")
            if (number + 1) % 2000 == 0:
                say(f"{number + 1} hostile requests")
    serving.kill()


def _body(chance: random.Random) -> dict[str, Any]:
    import json

    kind = chance.random()
    if kind < 0.1:
        return {}
    if kind < 0.2:
        return {"content": chance.randbytes(chance.randrange(200))}
    if kind < 0.22:
        return {"content": b"[" * 50_000}
    if kind < 0.23:
        return {"content": b" " * (2**20 + 10)}
    body: dict[str, Any] = {}
    if kind < 0.6:  # almost right
        body = chance.choice(
            [
                {"id": "q", "prompt": "Next: ", "candidates": ["up", "down"]},
                {"label": 0},
                {"losses": [0.0, 1.0]},
                {"version": 0},
                {"model": "larc:mine.a", "prompt": "x", "max_tokens": 1},
                {"model": "larc:other.secret", "prompt": "x", "echo": True, "max_tokens": 0},
                {"model": "larc:mine.a", "messages": [{"role": "user", "content": "x"}]},
            ]
        )
    changed = {chance.choice(_FIELDS): chance.choice(_PIECES) for _ in range(chance.randrange(4))}
    content = json.dumps({**body, **changed}).encode()
    return {"content": content, "headers": {"Content-Type": "application/json"}}


def serve_all(
    place: Path, kills: int, requests: int, seed: int, say: Callable[[str], None]
) -> Served:
    """Kill the service on each database, and send it hostile requests."""
    served = Served()
    place.mkdir(parents=True, exist_ok=True)
    kill_under_load(Serving(place / "sqlite"), kills, seed, served, say)
    if binaries() is None:
        served.problems.append("no PostgreSQL is installed; its part was not tried")
    else:
        cluster = Postgres()
        try:
            options = ("--database", cluster.new(), "--lease", "1")
            kill_under_load(Serving(place / "postgresql", *options), kills, seed, served, say)
        finally:
            cluster.close()
    hostile(Serving(place / "hostile"), requests, seed, served, say)
    shutil.rmtree(place, ignore_errors=True)
    return served
