"""Several processes on one PostgreSQL, and two Ray nodes: the same contract, and what faults do."""

import inspect
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress

import httpx
import pytest
import sqlalchemy as sa

from benchmarks.nodes import TAG, Nodes, session_of
from benchmarks.torture.cluster import UPDATE, Faults, Suffered, bear, replicas
from benchmarks.torture.service import Serving
from larc.service.cluster.connecting import connect
from larc.service.store.database import open_database
from larc.service.store.schema import metadata, stream
from tests.service import test_contract
from tests.service.conftest import ROOT, Server, until

CONTRACT = [
    function
    for name, function in inspect.getmembers(test_contract, inspect.isfunction)
    if name.startswith("test_")
]
#: What belongs to the processes and not to the streams.
KEPT = ("worker", "shard", "token")


class Turns(httpx.BaseTransport):
    """Sends each request to the next of several addresses."""

    def __init__(self, addresses):
        self.urls = itertools.cycle([httpx.URL(one) for one in addresses])
        self.transport = httpx.HTTPTransport()

    def handle_request(self, request):
        url = next(self.urls)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        return self.transport.handle_request(request)

    def close(self):
        self.transport.close()


class Several:
    """Several processes on one database, which is emptied for each test."""

    def __init__(self, database, addresses, token, nodes=None, postgres=None, options=()):
        self.database, self.addresses, self.token = database, addresses, token
        self.nodes, self.postgres, self.options = nodes, postgres, options

    def empty(self):
        opened = open_database(self.database)
        with opened.writing() as connection:
            for table in reversed(metadata.sorted_tables):
                if table.name not in KEPT:
                    connection.execute(sa.delete(table))
        opened.close()
        return Server(self.addresses[0], self.token, transport=Turns(self.addresses))


@pytest.fixture(scope="module")
def four(postgres, tmp_path_factory):
    """Four processes; each of them owns streams and takes requests in."""
    directory, database = tmp_path_factory.mktemp("four"), postgres.new()
    options = ("--database", database, "--lease", "2")
    servings = [Serving(directory / str(number), *options) for number in range(4)]
    started = []
    try:
        for one in servings:
            one.start()
            started.append(one)
        yield Several(database, [one.address for one in servings], servings[0].token)
    finally:
        for one in started:
            one.kill()


@pytest.fixture(scope="module")
def ray(postgres):
    """Two Ray nodes with two workers and two ingresses; a proxy on each."""
    # Minutes, and ports that Ray chooses: another cluster on the machine may be in the way.
    if not os.environ.get("LARC_CLUSTER"):
        pytest.skip("starts two Ray nodes; set LARC_CLUSTER=1, as every night")
    nodes, database = Nodes(), postgres.new()
    try:
        token = nodes.directory / "token"
        options = ("--database", database, "--lease", "2", "--token-file", str(token))
        options += ("--substrate", "tiny", "--threads", "1", "--worker-cpus", "0.5")
        nodes.serve(*options)
        secret = token.read_text().strip()
        yield Several(database, nodes.addresses(), secret, nodes, postgres, options)
    finally:
        nodes.close()


@pytest.fixture(params=["four", "ray"])
def several(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("contract", CONTRACT, ids=[one.__name__ for one in CONTRACT])
def test_the_contract_holds(several, contract):
    server = several.empty()
    try:
        contract(server)
    finally:
        server.http.close()


def test_faults_and_an_update_lose_nothing(ray):
    """A worker, the head's proxy and the database killed, and replicas replaced, under load."""
    ray.empty().http.close()
    faults = Faults(ray.nodes, ray.postgres, random.Random(1))
    suffered, order = Suffered(), ["worker", "proxy", "database", UPDATE]
    bear(ray.nodes, faults, order, ray.options, ray.token, suffered, limit=500)
    assert suffered.problems == []
    assert suffered.count == 3
    assert suffered.labels > 0


def test_a_worker_is_added_while_much_waits(ray):
    """What waits is an event that the log does not have: no worker is done with it too soon."""
    server = ray.empty()
    server.make("s")
    server.http.close()
    before = replicas(ray.nodes)
    ray.nodes.serve(*ray.options, "--most-workers", "3")
    try:
        until(lambda: not before & replicas(ray.nodes))
        assert len(ray.nodes.replicas("Worker")) == 2
        with closing(open_database(ray.database)) as opened, opened.writing() as connection:
            connection.execute(sa.update(stream).values(last_seq=200))
        until(lambda: len(ray.nodes.replicas("Worker")) == 3, 120)
    finally:
        ray.empty().http.close()
        ray.nodes.serve(*ray.options)


def test_all_of_a_node_ends_with_its_test(tmp_path):
    """Also what has no mark any more, as Ray's agents, whose titles are written over it."""
    directory = tmp_path / "ray"
    directory.mkdir()
    command = ["sh", "-c", "env -i sleep 600 & echo $!; sleep 600"]
    about = {"env": {**os.environ, TAG: "mine"}, "start_new_session": True}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **about) as node:
        child = int(node.stdout.readline())
        end = [sys.executable, "-m", "benchmarks.nodes", "mine", str(directory)]
        try:
            subprocess.run(end, input=b"", cwd=ROOT, check=True, timeout=60)
            until(lambda: session_of(child) is None)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
    assert not directory.exists()


def test_a_cluster_of_ones_own_is_nobody_elses(monkeypatch):
    """It is shut down at the end, so it must not be one that is there already."""
    import ray as library

    given = {}
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(library, "init", lambda **options: given.update(options))
    connect("")
    assert given["address"] == "local"
    connect("there:6379")
    assert given["address"] == "there:6379"


def test_a_job_of_the_cluster_trains_a_state(ray):
    """On the logs that are there; no stream has moved."""
    server = ray.empty()
    server.make("s")
    for number in range(4):
        server.ask("s", f"q{number}")
        server.label("s", f"q{number}", 0).raise_for_status()
    command = [sys.executable, "-m", "larc.cli", "serve", "retrain", "--engine", "ray", "--json"]
    command += ["--address", ray.nodes.address, "--database", ray.database, "--name", "night"]
    command += ["--substrate", "tiny", "--updates", "1", "--until", str(time.time() + 60)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=ray.nodes.environment, timeout=480
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (first, offer) = server.http.get("/v1/states").json()["states"]
    assert (offer["name"], offer["digest"]) == ("night", result["digest"])
    assert server.status("s")["slow"] == result["parent"] == first["digest"]
    server.http.close()
