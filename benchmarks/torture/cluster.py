"""Two Ray nodes under load: replicas, the head's proxy and the database killed in random order.

``python -m benchmarks.torture.cluster`` prints what came of it. At the end each stream's log has to
have every label that was acknowledged, once, and every answer as it was given. A stream waits from
one label that was acknowledged until the next.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.nodes import Nodes
from benchmarks.postgres import Postgres
from benchmarks.torture.service import STREAMS, Load
from larc.errors import LarcError
from larc.service import Client

#: How soon every stream has to be served again.
LIMIT_S = 30.0
KINDS = ("worker", "ingress", "proxy", "database")
UPDATE = "rolling update"


@dataclass
class Suffered:
    """What was done, how soon every stream was served again, and what was wrong."""

    recovered: dict[str, list[float]] = field(default_factory=dict)
    labels: int = 0
    longest: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many processes were killed."""
        return sum(len(times) for kind, times in self.recovered.items() if kind != UPDATE)


class Traffic(Load):
    """Threads that ask and label at either proxy, the other one whenever one does not answer."""

    def __init__(self, addresses: list[str], token: str) -> None:
        self.addresses, self.token = addresses, token
        self.began = [0.0] * STREAMS
        self.ended = [time.monotonic()] * STREAMS
        self.longest = 0.0
        super().__init__(None)  # type: ignore[arg-type]  # no single server is behind it

    def _work(self, number: int) -> None:
        count, turn = 0, number
        with ExitStack() as stack:
            clients = [
                stack.enter_context(Client(one, self.token, attempts=1, timeout=20))
                for one in self.addresses
            ]
            while not self.stopping.is_set():
                began = time.monotonic()
                try:
                    count = self._step(clients[turn % len(clients)], number, f"s{number}", count)
                except LarcError:
                    turn += 1
                    time.sleep(0.05)
                    continue
                now = time.monotonic()
                self.longest = max(self.longest, now - self.ended[number])
                self.began[number], self.ended[number] = began, now

    def served_since(self, moment: float) -> bool:
        """Whether each stream was asked and labelled since, from beginning to end."""
        return min(self.began) > moment

    def wait(self, moment: float, most: float = 16 * LIMIT_S) -> float:
        """Return how long it took until each stream was served again."""
        while not self.served_since(moment) and time.monotonic() < moment + most:
            time.sleep(0.02)
        return time.monotonic() - moment


class Faults:
    """Kills one thing of a cluster at a time; of replicas, where another of its kind works."""

    def __init__(self, nodes: Nodes, postgres: Postgres, chance: random.Random) -> None:
        self.nodes, self.postgres, self.chance = nodes, postgres, chance

    def inflict(self, kind: str) -> float:
        """Kill something of a kind; returns when, as soon as it may work again."""
        if kind == "database":
            moment = time.monotonic()
            self.postgres.stop("immediate")  # as a crash: nothing is written, all are cut off
            time.sleep(self.chance.uniform(0.0, 2.0))
            self.postgres.start()
            return moment
        victim = self._victim(kind)  # for which it may have to wait
        os.kill(victim, signal.SIGKILL)
        return time.monotonic()

    def _victim(self, kind: str) -> int:
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if kind == "proxy":
                proxy = self.nodes.head_proxy()
                if proxy is not None:
                    return int(proxy)
            else:
                alive = self.nodes.replicas(kind.capitalize())
                if len(alive) > 1:
                    return int(self.chance.choice(alive))
            time.sleep(0.2)
        raise LarcError(f"no {kind} came back within five minutes.")


def replicas(nodes: Nodes) -> set[int]:
    """Return the processes of all replicas."""
    return {one for kind in ("Worker", "Ingress") for one in nodes.replicas(kind)}


def torture_cluster(
    kills: int, updates: int, seed: int, suffered: Suffered, say: Callable[[str], None]
) -> None:
    """Kill parts of a cluster while clients work, update it in between, and check the logs."""
    chance = random.Random(seed)
    order = [*(KINDS[number % len(KINDS)] for number in range(kills)), *[UPDATE] * updates]
    chance.shuffle(order)
    postgres = Postgres()
    with ExitStack() as stack:
        stack.callback(postgres.close)
        nodes = Nodes()
        stack.callback(nodes.close)
        token = nodes.directory / "token"
        shared = ("--database", postgres.new(), "--lease", "2", "--token-file", str(token))
        options = (*shared, "--substrate", "tiny", "--threads", "1", "--worker-cpus", "0.5")
        nodes.serve(*options)
        say("two nodes serve")
        faults, secret = Faults(nodes, postgres, chance), token.read_text().strip()
        bear(nodes, faults, order, options, secret, suffered, say)


def bear(
    nodes: Nodes,
    faults: Faults,
    order: list[str],
    options: tuple[str, ...],
    token: str,
    suffered: Suffered,
    say: Callable[[str], None] = lambda _: None,
    *,
    limit: float = LIMIT_S,
) -> None:
    """Inflict faults one after the other under load, and check what is left."""
    traffic = Traffic(nodes.addresses(), token)
    try:
        traffic.wait(time.monotonic())
        for number, kind in enumerate(order, start=1):
            time.sleep(faults.chance.uniform(0.1, 2.0))
            before = replicas(nodes)
            if kind == UPDATE:
                nodes.serve(*options)
                began = time.monotonic()
            else:
                began = faults.inflict(kind)
            over = time.monotonic()
            seconds = over - began + traffic.wait(over)
            suffered.recovered.setdefault(kind, []).append(seconds)
            if kind == UPDATE:
                nodes.wait(lambda old=before: not old & replicas(nodes), "an update left replicas")
            if seconds > limit:
                suffered.problems.append(f"{kind}: {seconds:.0f} s until every stream was served")
            say(f"{number} of {len(order)}: {kind}, served again after {seconds:.1f} s")
    finally:
        traffic.stop()
    suffered.longest = traffic.longest
    suffered.labels = sum(map(len, traffic.acknowledged))
    with Client(nodes.addresses()[1], token, timeout=60) as client:
        suffered.problems += traffic.check(client)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture.cluster")
    parser.add_argument("--kills", type=int, default=50, help="[50]")
    parser.add_argument("--updates", type=int, default=2, help="rolling updates between [2]")
    parser.add_argument("--seed", type=int, default=1, help="draws the order [1]")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and so everything is ended
    began, suffered = time.monotonic(), Suffered()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {text}", flush=True)

    torture_cluster(given.kills, given.updates, given.seed, suffered, say)
    for kind, times in sorted(suffered.recovered.items()):
        print(
            f"{kind}: {len(times)}; every stream served again after "
            f"{statistics.median(times):.1f} s (median), {max(times):.1f} s (longest)"
        )
    print(
        f"kills: {suffered.count}; labels acknowledged: {suffered.labels}; longest wait of a "
        f"stream: {suffered.longest:.1f} s; mistakes: {len(suffered.problems)}"
    )
    for problem in suffered.problems:
        print(problem, file=sys.stderr)
    return 1 if suffered.problems else 0


if __name__ == "__main__":
    sys.exit(main())
