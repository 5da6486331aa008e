"""Measure the live service; every time is a ratio of things measured side by side."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    option = parser.add_argument
    option("--substrate", action="append", help="[tiny and smollm2-135m before layer 26]")
    option("--only", choices=["rates", "concurrency", "ingress", "memory"], help="one part [all]")
    option("--threads", type=int, default=1, help="of the model [1: the client has the other core]")
    option("--streams", type=int, default=64, help="that ask at once [64]")
    option("--rounds", type=int, default=2, help="questions of each, each time [2]")
    option("--repetitions", type=int, default=3, help="[3]")
    option("--ingress", type=int, default=2000, help="requests to a free model, each time [2000]")
    option("--stored", type=int, default=1_000_000, help="streams on disk [1000000]")
    option("--live", type=int, default=1000, help="streams in memory [1000]")
    option("--directory", type=Path, help="for what is stored [a temporary one]")
    given = parser.parse_args()

    import torch

    from benchmarks.serving.measures import Figure, Sizes, concurrency, ingress
    from benchmarks.serving.rates import rates
    from benchmarks.serving.stored import memory
    from larc.substrate import load_substrate

    torch.set_num_threads(given.threads)
    sizes = Sizes(given.streams, given.rounds, given.repetitions, given.ingress)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    def show(figures: Sequence[Figure], where: str = "") -> None:
        for one in figures:
            spread = f"{one.value.low:.3g} to {one.value.high:.3g}"
            print(f"| {where}{one.what} | **{one.value.value:.3g}** | {spread} |", flush=True)

    with tempfile.TemporaryDirectory(prefix="larc-serving-", dir=given.directory) as name:
        directory = Path(name)
        print("| | ratio | lowest to highest |\n| --- | --- | --- |", flush=True)
        for substrate in given.substrate or ["tiny", "smollm2-135m"]:
            boundary = min(26, load_substrate(substrate).layers - 1)
            where = f"`{substrate}` before layer {boundary}: "
            if given.only in (None, "rates"):
                show(rates(substrate, boundary, sizes.repetitions, say), where)
            if given.only in (None, "concurrency"):
                part = directory / substrate
                part.mkdir()
                show(concurrency(part, substrate, boundary, sizes, say), where)
        if given.only in (None, "ingress"):
            (directory / "ingress").mkdir()
            show(ingress(directory / "ingress", sizes, say))
        if given.only in (None, "memory"):
            (directory / "stored").mkdir()
            rows = memory(directory / "stored", given.stored, given.live, say)
            print("\n| memory of the process on `tiny` | MiB |\n| --- | --- |")
            for what, size in rows:
                print(f"| {what} | {size / 2**20:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
