"""Servers as processes of their own, each on a free port, with data of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from larc.errors import LarcError


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    address: str
    token: str
    process: int

    def processor(self) -> float:
        """Return how many seconds of a processor the process has used."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return how many bytes of memory the process holds."""
        for line in Path(f"/proc/{self.process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise LarcError("the memory of a process is read from /proc; run this on Linux.")


@contextmanager
def serve(
    directory: Path, options: Sequence[str], *, free: bool = False, data: Path | None = None
) -> Iterator[Running]:
    """Run ``larc serve``, or the same with a model that costs nothing, while the block lasts."""
    program = ["benchmarks.serving.bare", "free"] if free else ["larc.cli"]
    token = directory / "token"
    command = ["-m", *program, "serve", "--data", str(data or directory / "data"), "--port", "0"]
    with _process([*command, "--token-file", str(token), *options]) as (address, number):
        yield Running(address, token.read_text().strip(), number)


@contextmanager
def serve_bare() -> Iterator[Running]:
    """Run a bare FastAPI route while the block lasts."""
    with _process(["-m", "benchmarks.serving.bare", "bare"]) as (address, number):
        yield Running(address, "none", number)


@contextmanager
def _process(command: Sequence[str]) -> Iterator[tuple[str, int]]:
    environment = {**os.environ, "LARC_LOG": "warning"}
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                raise LarcError(f"the server did not start: {line!r}")
            yield line.split()[-1], process.pid
        finally:
            process.terminate()
