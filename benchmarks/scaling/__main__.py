"""Measure the growth of a service: workers, streams stored, takeover, load of the database."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")

HEAD = (
    "| workers | streams | questions/s | times one worker | ms a question: workers | database | "
    "commits | log, KiB |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    option = parser.add_argument
    option("--substrate", default="tiny", help="whose states are stored [tiny]")
    option("--cost-of", default="smollm2-135m", help="whose time is slept [smollm2-135m]")
    option("--boundary", type=int, default=20, help="of the states whose cost is measured [20]")
    option("--costs", help="ms of a read, each, an update, each [measured first]")
    option("--workers", default="1,2,4,8", help="[1,2,4,8]")
    option("--streams", default="1000,100000,1000000", help="stored [1000,100000,1000000]")
    option("--rounds", type=int, default=2, help="questions of 64 streams a worker [2]")
    option("--lease", type=float, default=5.0, help="of a worker, in seconds [5]")
    option("--seed", type=int, default=1, help="[1]")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and so everything is ended

    from benchmarks.postgres import Postgres
    from benchmarks.scaling.costs import Costs, measure

    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    costs = Costs.parse(given.costs) if given.costs else measure(given.cost_of, given.boundary)
    print(
        f"states of `{given.substrate}`; slept: a read {1000 * costs.read:.1f} ms and "
        f"{1000 * costs.read_each:.1f} ms a question, an update {1000 * costs.update:.1f} ms and "
        f"{1000 * costs.update_each:.1f} ms a label (--costs {costs.text()})\n",
        flush=True,
    )
    cluster = Postgres()
    try:
        with tempfile.TemporaryDirectory(prefix="larc-scaling-") as name:
            grow(given, costs, cluster.new(), Path(name), say)
    finally:
        cluster.close()
    return 0


def grow(
    given: argparse.Namespace,
    costs: object,
    database: str,
    directory: Path,
    say: Callable[[str], None],
) -> None:
    """Fill the database step by step; at each, measure two workers, and at the last all numbers."""
    import psycopg

    from benchmarks.scaling.costs import Costs
    from benchmarks.scaling.measures import AT_ONCE, load, make_first, takeover, workers
    from benchmarks.scaling.stored import fill
    from benchmarks.serving.measures import Traffic

    assert isinstance(costs, Costs)
    traffic, chance = Traffic(given.seed), random.Random(given.seed)
    options = ["--substrate", given.substrate, "--lease", str(given.lease)]
    sizes = [int(size) for size in given.streams.split(",")]
    counts = [int(count) for count in given.workers.split(",")]
    with workers(1, directory, database, costs, options) as (running, token):
        make_first(running[0].address, token, traffic)
    print(HEAD, flush=True)
    stored, one = 0, 0.0
    for size in sizes:
        fill(database, size, stored)
        stored = size
        with psycopg.connect(database) as connection:
            row = connection.execute("select pg_database_size(current_database())").fetchone()
        assert row is not None
        say(f"{stored} streams are {row[0] / 2**30:.2f} GiB")
        for count in counts if size == sizes[-1] else [min(2, max(counts))]:
            with workers(count, directory, database, costs, options) as (running, token):
                # Streams that nobody has asked yet, one of each shard at a time.
                first = chance.randrange(max(1, stored - AT_ONCE * given.rounds * count))
                total = AT_ONCE * given.rounds * count
                names = [f"t{1 + (first + number) % stored}" for number in range(total)]
                now = load(running, token, database, names, traffic)
                one = now.rate if count == 1 else one
                times = f"{now.rate / one:.2f}" if one else ""
                print(
                    f"| {count} | {stored:,} | {now.rate:.2f} | {times} | "
                    f"{1000 * now.service:.1f} | {1000 * now.database:.1f} | "
                    f"{now.transactions:.1f} | {now.log / 1024:.0f} |",
                    flush=True,
                )
                if count == max(counts) > 1 and size == sizes[-1]:
                    say("one worker is killed under load")
                    print(
                        f"\ntakeover from one of {count} workers, lease {given.lease:g} s: every "
                        f"stream served again after {takeover(running, token):.1f} s"
                    )


if __name__ == "__main__":
    sys.exit(main())
