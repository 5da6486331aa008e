import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import larc
from benchmarks.postgres import Postgres, binaries
from larc.service.engine import EngineSettings
from larc.service.github.settings import GitHubSettings
from larc.service.http.context import HttpSettings
from larc.service.server import ServerSettings, running
from larc.service.templates import Models, Start
from tests.service.visits import Visit

ROOT = Path(__file__).parents[2]
CRASHING = Path(__file__).with_name("crashing.py")


@pytest.fixture(scope="session")
def postgres():
    if binaries() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "no PostgreSQL is installed; `apt install postgresql` brings one"
        )
    cluster = Postgres()
    yield cluster
    cluster.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    """The address of an empty database of each kind; empty for SQLite in the data directory."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres").new()


def options(database):
    """The options of `larc serve` for a database."""
    return ("--database", database, "--lease", "1") if database else ()


@pytest.fixture(scope="session")
def models(tiny):
    return Models([Start(tiny, larc.SlowState.initial(tiny, seed=1, boundary=2), "tiny", "first")])


class Server:
    """A server in this process, and a client that may do everything."""

    def __init__(self, address, token, stop=None, transport=None):
        self.address, self.token, self.stop = address, token, stop
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=address, headers=headers, timeout=60, transport=transport)

    def token_for(self, scopes, streams):
        body = {"scopes": scopes, "streams": streams}
        return self.http.post("/v1/tokens", json=body).raise_for_status().json()["token"]

    def make(self, name, **body):
        return self.http.put(f"/v1/streams/{name}", json=body)

    def ask(self, stream, name, prompt="Next: ", candidates=("up", "down"), **more):
        body = {"id": name, "prompt": prompt, "candidates": list(candidates), **more}
        return self.http.post(f"/v1/streams/{stream}/questions", json=body)

    def label(self, stream, name, label=None, wait=True, **body):
        if label is not None:
            body["label"] = label
        query = {"wait": "applied"} if wait else {}
        return self.http.post(
            f"/v1/streams/{stream}/questions/{name}/label", json=body, params=query
        )

    def status(self, stream):
        return self.http.get(f"/v1/streams/{stream}").raise_for_status().json()

    def events(self, stream):
        return self.http.get(f"/v1/streams/{stream}/events").raise_for_status().json()["events"]


@pytest.fixture
def start(tmp_path, models):
    """Starts servers in this process, each with its own threads and connections."""
    with ExitStack() as stack:

        def starting(
            database="",
            data="data",
            http=None,
            engine=None,
            models=models,
            connections=2000,
            github=None,
        ):
            file = tmp_path / f"{data}-token"
            settings = ServerSettings(
                tmp_path / data,
                database,
                port=0,
                token_file=file,
                connections=connections,
                http=http or HttpSettings(),
                engine=engine or EngineSettings(),
                github=github or GitHubSettings(),
            )
            mine = stack.enter_context(ExitStack())
            address = mine.enter_context(running(settings, models))
            server = Server(address, file.read_text().strip(), mine.close)
            mine.callback(server.http.close)
            return server

        yield starting


@pytest.fixture
def server(start, database):
    return start(database)


@pytest.fixture
def sqlite_server(start):
    return start()


class Process:
    """``larc serve`` as a process of its own, which can be killed."""

    def __init__(self, data, *options, script=None, environment=None):
        self.data, self.options, self.script = data, options, script
        self.environment = environment or {}
        self.token_file = data.parent / f"{data.name}-token"
        self.process = None

    def start(self):
        program = ["-m", "larc.cli"] if self.script is None else [str(self.script)]
        command = [sys.executable, *program, "serve", "--data", str(self.data)]
        if "--substrate" not in self.options:
            command += ["--substrate", "tiny"]
        command += ["--port", "0", "--threads", "1"]
        command += ["--token-file", str(self.token_file), *self.options]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "LARC_LOG": "warning",
            **self.environment,
        }
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, cwd=self.data.parent
        )
        line = self.process.stdout.readline()
        host = "0.0.0.0" if "--host" in self.options else "127.0.0.1"
        assert line.startswith(f"listening on http://{host}:"), line
        self.address = line.split()[-1].replace("0.0.0.0", "127.0.0.1")
        self.server = Server(self.address, self.token_file.read_text().strip())
        return self.server

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.ended()

    def ended(self, timeout=60):
        code = self.process.wait(timeout)
        self.process.stdout.close()
        self.server.http.close()
        self.process = None
        return code

    def close(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()


@pytest.fixture
def processes(tmp_path):
    """Makes processes; whatever still runs at the end is killed."""
    started = []

    def starting(data="data", *options, **more):
        started.append(Process(tmp_path / data, *options, **more))
        return started[-1]

    yield starting
    for process in started:
        process.close()


@pytest.fixture
def visit():
    visits = []

    def visiting(server, token=None):
        visits.append(Visit(server, token))
        return visits[-1]

    yield visiting
    for one in visits:
        one.http.close()


def until(condition, seconds=60):
    """Wait until something holds; fails if it does not come to hold."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.02)
    return value
