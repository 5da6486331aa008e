"""Two Ray nodes on this machine, each with a raylet of its own; gone afterwards with all theirs."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

import httpx

from larc.errors import LarcError

#: In the environment of everything that a cluster starts: what is found by it may be ended.
TAG = "LARC_NODES"
REPLICA = "ray::ServeReplica:larc:"


def free_port():
    """Return a port that nobody has, and that nobody is given: what uses it starts much later."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        # Ray's own are below.
        port = random.randrange(20_000, first if first > 21_000 else 2**16)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def answers(address):
    """Whether a service answers at an address."""
    try:
        return httpx.get(f"{address}/healthz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def ancestors(process):
    """Return the processes that a process comes from."""
    above = []
    with suppress(OSError):
        while process > 1:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            process = int(fields[1])
            above.append(process)
    return above


class Nodes:
    """A head and a second node; the proxies of Ray Serve listen on a port of each."""

    def __init__(self, cpus=4, environment=None):
        self.tag = uuid.uuid4().hex
        self.directory = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets: a short path
        self.address = f"127.0.0.1:{free_port()}"
        self.ports = [free_port(), free_port()]
        self.environment = {
            **os.environ,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",  # a cluster of its own has a token of its own
            "RAY_AUTH_TOKEN": uuid.uuid4().hex,
            "RAY_SERVE_WORKER_PROXY_HTTP_PORT": str(self.ports[1]),
            # A replica that ends is noticed soon, also on a busy machine.
            "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive",
            "LARC_LOG": "warning",
            "RAY_worker_niceness": "0",  # as the processes of any other server
            **(environment or {}),
            TAG: self.tag,
        }
        self.nodes = []
        self.guard = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.nodes", self.tag, str(self.directory)],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            start_new_session=True,
        )
        port = self.address.split(":")[1]
        try:
            self.start(cpus, "--head", f"--port={port}", f"--temp-dir={self.directory}")
            self.start(cpus, f"--address={self.address}")
            self.wait(self.started, "the Ray nodes did not start")
        except BaseException:
            self.close()
            raise

    def start(self, cpus, *options):
        program = str(Path(sys.executable).with_name("ray"))
        command = [program, "start", "--block", *options, "--node-ip-address=127.0.0.1"]
        command += [f"--num-cpus={cpus}", "--num-gpus=0", f"--object-store-memory={100 * 2**20}"]
        command += ["--disable-usage-stats"]
        for name in ("dashboard-agent-listen-port", "dashboard-agent-grpc-port"):
            command.append(f"--{name}={free_port()}")
        if "--head" in options:
            command += ["--include-dashboard=false", f"--ray-client-server-port={free_port()}"]
        log = (self.directory / f"node{len(self.nodes)}.log").open("w+")
        node = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.environment,
            start_new_session=True,
        )
        self.nodes.append((node, log))

    def started(self):
        texts = [Path(log.name).read_text() for _, log in self.nodes]
        if any(node.poll() is not None for node, _ in self.nodes):
            raise LarcError(f"a Ray node did not start: {texts}")
        return all("--block" in text for text in texts)

    def wait(self, condition, otherwise, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise LarcError(otherwise)
            time.sleep(0.1)

    def addresses(self):
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def processes(self, beginning=""):
        """Return processes of this cluster by how their titles begin."""
        return marked(self.tag, beginning)

    def replicas(self, name):
        """Return the processes of a deployment's replicas that have started."""
        begun = self.processes(f"{REPLICA}{name}")
        return sorted(set(begun) - set(self.processes(f"{REPLICA}{name}.initialize")))

    def head_proxy(self):
        """Return the process of the head's proxy; nothing while there is none."""
        head = self.nodes[0][0].pid
        mine = [one for one in self.processes("ray::ProxyActor") if head in ancestors(one)]
        return mine[0] if mine else None

    def serve(self, *options, timeout=480):
        """Deploy ``larc serve`` to the cluster; returns once it runs there."""
        command = [sys.executable, "-m", "larc.cli", "serve", "--engine", "ray"]
        command += ["--address", self.address, "--port", str(self.ports[0]), *options]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=timeout,
        )
        if done.returncode or not done.stdout.startswith("listening on "):
            raise LarcError(f"the service did not start: {done.stdout!r} {done.stderr[-2000:]!r}")
        try:
            self.wait(lambda: all(map(answers, self.addresses())), "a proxy did not start")
        except LarcError as error:
            raise LarcError(f"{error} (replicas on each node: {self.placed()})") from error

    def placed(self):
        """Return how many replicas each node has; one without any has no proxy."""
        above = [ancestors(one) for name in ("Worker", "Ingress") for one in self.replicas(name)]
        return [sum(node.pid in one for one in above) for node, _ in self.nodes]

    def close(self):
        self.guard.communicate()  # closes its input, as if this process had ended
        for node, log in self.nodes:
            node.wait()
            log.close()


def marked(tag, beginning=""):
    """Return processes with a mark in their environment, by how their titles begin."""
    numbers = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            mine = f"{TAG}={tag}".encode() in (entry / "environ").read_bytes().split(b"\0")
            if mine and title.startswith(beginning):
                numbers.append(int(entry.name))
    return sorted(numbers)


def session_of(process):
    """Return the session of a process; one that has ended has none, waited for or not."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        if fields[0] != "Z":
            return int(fields[3])
    return None


def guard(tag, directory):
    """Wait until the process that started a cluster ends, however it does, and end all of it.

    A node is a session of its own: some of Ray's processes write their titles over the mark.
    """
    sys.stdin.read()
    sessions = set()
    while True:
        left = marked(tag)
        sessions |= {one for one in left if session_of(one) == one}
        everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        left += [one for one in everyone if session_of(one) in sessions]
        if not left:
            break
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    guard(sys.argv[1], sys.argv[2])
