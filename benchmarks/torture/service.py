"""The live service: killed under load, fed hostile requests, its database taken away."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.postgres import Postgres, binaries
from benchmarks.torture.hostile import hostile
from larc.cli import main
from larc.errors import LarcError
from larc.service import Client

STREAMS = 6


@dataclass
class Served:
    """What came of it."""

    kills: int = 0
    labels: int = 0
    requests: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


#: Processes that are forked from one that has imported everything: most of a start is imports.
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(["larc.cli.serve", "larc.service.server", "larc.service.starts"])


def _serve(arguments: list[str], told: Connection) -> None:
    """Be ``larc serve`` in a process of its own; the line it prints goes into a pipe."""
    os.environ["LARC_LOG"] = "error"
    sys.stdout = os.fdopen(os.dup(told.fileno()), "w", buffering=1)
    told.close()
    sys.exit(main(arguments))


class Serving:
    """``larc serve`` as a process, again and again on the same data."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory, self.options = directory, options
        directory.mkdir(parents=True, exist_ok=True)
        self.address = ""

    def start(self) -> None:
        arguments = ["serve", "--data", str(self.directory / "data"), *self.options]
        arguments += ["--substrate", "tiny", "--port", "0", "--threads", "1"]
        arguments += ["--token-file", str(self.directory / "token")]
        heard, told = _WARM.Pipe(duplex=False)
        self.process = _WARM.Process(target=_serve, args=(arguments, told), daemon=True)
        self.process.start()
        told.close()
        self.lines = os.fdopen(os.dup(heard.fileno()))  # open as long as the server may print
        heard.close()
        line = self.lines.readline()
        if not line.startswith("listening on "):
            raise LarcError(f"the service did not start: {line!r}")
        self.address = line.split()[-1]

    @property
    def token(self) -> str:
        return (self.directory / "token").read_text().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.lines.close()
        if self.process.exitcode != -signal.SIGKILL:
            raise LarcError(f"the service had ended by itself ({self.process.exitcode}).")

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
        answer = client.ask(name, f"Item {count % 5}: ", ["up", "down"], id=key)
        first = self.answers[number].setdefault(key, answer.probabilities)
        self.changed += first != answer.probabilities
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
                say(f"{number + 1} kills of {serving.directory.name}")
        time.sleep(2.0)
    finally:
        load.stop()
    with serving.client(attempts=8) as client:
        served.problems += [f"{serving.directory.name}: {one}" for one in load.check(client)]
    served.labels += sum(map(len, load.acknowledged))
    serving.kill()


def hostile_requests(
    serving: Serving, count: int, seed: int, served: Served, say: Callable[[str], None]
) -> None:
    """Send a server requests that nobody should send."""
    serving.start()
    try:
        result = hostile(serving.address, serving.token, count, seed, say)
    finally:
        serving.kill()
    served.requests, served.statuses = result.requests, result.statuses
    served.problems += result.problems


def serve_all(
    directory: Path, kills: int, requests: int, seed: int, say: Callable[[str], None]
) -> Served:
    """Kill the service on each database, and send it hostile requests."""
    served = Served()
    directory.mkdir(parents=True, exist_ok=True)
    kill_under_load(Serving(directory / "sqlite"), kills, seed, served, say)
    if binaries() is None:
        served.problems.append("no PostgreSQL is installed; its part was not tried")
    else:
        cluster = Postgres()
        try:
            options = ("--database", cluster.new(), "--lease", "1")
            kill_under_load(Serving(directory / "postgresql", *options), kills, seed, served, say)
        finally:
            cluster.close()
    hostile_requests(Serving(directory / "hostile"), requests, seed, served, say)
    shutil.rmtree(directory, ignore_errors=True)
    return served
