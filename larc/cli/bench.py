"""``larc bench``: measure against what people would use instead, and against the machine."""

from __future__ import annotations

import argparse
import sys

from larc.cli.common import Commands, command


def add(commands: Commands) -> None:
    """Declare the command."""
    bench = command(commands, "bench", "Measure against other tools and the machine.", _bench)
    bench.add_argument("--quick", action="store_true", help="smaller sizes, two repetitions")
    bench.add_argument("--substrate", default="smollm2-135m", help="on which model [smollm2-135m]")
    bench.add_argument("--repetitions", type=int, metavar="N", help="how often each is run [3]")
    bench.add_argument(
        "--only", action="append", default=[], metavar="SECTION", help="one section; give it again"
    )
    bench.add_argument(
        "--out",
        default="runs/bench.md",
        metavar="FILE.md",
        help="where the table is saved, and JSON beside it [runs/bench.md]",
    )
    bench.add_argument(
        "--processor-time", action="store_true", help="for a busy machine; one thread is best then"
    )


def _bench(arguments: argparse.Namespace) -> None:
    import time
    from pathlib import Path

    from larc.errors import LarcError
    from larc.io.files import make_directory
    from larc.substrate import load_substrate

    try:
        from benchmarks.speed.running import chosen, measure
        from benchmarks.speed.setting import Setting
    except ImportError as error:
        raise LarcError(
            "the benchmark is no part of the installed package; run `make bench` in the source "
            "tree."
        ) from error
    chosen(arguments.only)
    repetitions = arguments.repetitions
    if repetitions is None:
        repetitions = 2 if arguments.quick else 3
    if repetitions < 1:
        raise LarcError(f"--repetitions {repetitions} measures nothing; give 1 or more.")
    out = Path(arguments.out)
    if out.suffix != ".md":
        raise LarcError(f"--out {out} is no Markdown file; give a name that ends with .md.")
    make_directory(out.parent)
    setting = Setting(
        load_substrate(arguments.substrate),
        repetitions,
        arguments.quick,
        time.process_time if arguments.processor_time else time.perf_counter,
    )
    table = measure(setting, arguments.only, say=lambda line: print(line, file=sys.stderr))
    print(table.to_markdown())
    print(f"the table is in {' and '.join(map(str, table.save(out)))}")
