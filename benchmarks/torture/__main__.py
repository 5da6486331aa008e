"""``make torture``: kills survived, flips caught, inputs tried, records lost."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="of running processes [100]")
    parser.add_argument("--flips", type=int, default=10_000, help="changes of files [10000]")
    parser.add_argument("--inputs", type=int, default=20_000, help="damaged inputs [20000]")
    parser.add_argument("--calls", type=int, default=10_000, help="wrong arguments [10000]")
    parser.add_argument("--serve", type=int, default=100, help="kills of the service [100]")
    parser.add_argument("--requests", type=int, default=10_000, help="hostile ones [10000]")
    parser.add_argument("--seed", type=int, default=1, help="draws all of them [1]")
    given = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {text}", flush=True)

    directory = Path(tempfile.mkdtemp(prefix="larc-torture-"))
    problems = torture(directory, given.kills, given.flips, given.inputs, given.seed, say)
    problems += wrong_arguments(directory / "calls", given.calls, given.seed, say)
    problems += torture_service(directory, given.serve, given.requests, given.seed, say)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"what was left is in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    return 0


def torture(
    directory: Path, kills: int, flips: int, inputs: int, seed: int, say: Callable[[str], None]
) -> list[str]:
    """Do all of it, and print what came of it; returns what went wrong."""
    import torch

    from benchmarks.torture.flips import Flipped, flip_all
    from benchmarks.torture.inputs import Fed, feed_all
    from benchmarks.torture.kills import WORKLOADS, Killed, Killer

    torch.set_num_threads(1)
    killed, flipped, fed = Killed(), Flipped(), Fed()
    (directory / "kills").mkdir()
    for number, workload in enumerate(WORKLOADS):
        share = (kills * (number + 1)) // len(WORKLOADS) - (kills * number) // len(WORKLOADS)
        Killer(directory / "kills", seed, workload, fresh=True).torture(share, killed, say)
    published = Path(__file__).parents[2] / "results" / "programs-quick.larc"
    runs = [directory / "kills" / f"{name}-whole" for name in ("programs", "ci")]
    runs.append(directory / "published.larc")
    shutil.copyfile(published, runs[-1])
    for run in runs:
        flip_all(run, flips // len(runs), seed, flipped, say)
    feed_all(directory / "inputs", inputs, seed, fed, say)
    print(
        f"kills survived: {killed.kills} ({killed.in_writes} in the middle of a write; "
        f"{killed.runs} runs, {killed.resumed} starts that found something to go on from)"
    )
    print(f"flips caught: {flipped.caught} of {flipped.tried}")
    print(f"inputs tried: {fed.tried} ({fed.refused} refused, {len(fed.problems)} mistaken)")
    print(f"records lost: {killed.lost}")
    return [*killed.problems, *flipped.missed, *fed.problems]


def wrong_arguments(
    directory: Path, calls: int, seed: int, say: Callable[[str], None]
) -> list[str]:
    """Call everything public with wrong arguments; returns what went wrong."""
    from benchmarks.torture.arguments import Called, call_all

    called = Called()
    call_all(directory, calls, seed, called, say)
    print(
        f"calls tried: {called.tried} ({called.refused} refused, {len(called.problems)} problems)"
    )
    return called.problems


def torture_service(
    directory: Path, kills: int, requests: int, seed: int, say: Callable[[str], None]
) -> list[str]:
    """Do the same to the live service; returns what went wrong."""
    from benchmarks.torture.service import serve_all

    served = serve_all(directory / "service", kills, requests, seed, say)
    print(
        f"kills of the service under load: {served.kills}; labels acknowledged: {served.labels}; "
        f"hostile requests: {served.requests} ({served.statuses.get(500, 0)} times status 500); "
        f"mistakes: {len(served.problems)}"
    )
    return served.problems


if __name__ == "__main__":
    sys.exit(main())
