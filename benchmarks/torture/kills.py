"""Processes killed at random moments, started again until they finish, compared with one let be."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from larc.errors import LarcError
from larc.io.files import is_aside
from larc.io.hashes import sha256
from larc.runs.run import Run
from larc.studies.running import verify_run

_STUDY = ("--preset", "smoke", "--seeds", "2026092811")
_PROGRAMS = (
    *("study", "programs", *_STUDY, "--objectives", "adapted", "--resamples", "200"),
    *("--updates", "16", "--training-groups", "1", "--development-groups", "1"),
)
_CI = ("study", "ci", *_STUDY, "--train", "6", "--audit", "12", "--batch", "1")
#: What is killed: a name, and the arguments of ``larc`` without the directory.
WORKLOADS: dict[str, tuple[str, ...]] = {
    "programs": _PROGRAMS,
    "ci": _CI,
    "live": (),
    "workers": (*_PROGRAMS, "--workers", "2"),
}
#: After so many kills a run is let be, so that it ends.
_MOST_KILLS = 12
#: Which parts of a unit do not depend on the clock.
_EXACT = ("*.parquet", "*.safetensors", "curve.json", "ledger.json")
#: Every so many starts, a fresh interpreter in place of a fork of one that has loaded everything.
_FRESH = 10


@dataclass
class Killed:
    """What came of it."""

    kills: int = 0
    in_writes: int = 0
    runs: int = 0
    resumed: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)


class Killer:
    """Starts one workload again and again, and kills it."""

    def __init__(self, directory: Path, seed: int, workload: str, fresh: bool = False) -> None:
        self.directory, self.workload, self.fresh = directory, workload, fresh
        self.stream = random.Random(f"{seed} {workload}")
        self.starts = 0
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(
            [
                "larc.studies.ci.units",
                "larc.studies.episodic.units",
                "larc.studies.reports",
                __name__,
            ]
        )
        self.seconds = 1.0

    def reference(self) -> dict[str, bytes]:
        """Let one be, and return what it wrote; the time it took is what kills are spread over."""
        whole = self.directory / f"{self.workload}-whole"
        warm = self.context.Process(target=_nothing)
        warm.start()  # loads what later ones find loaded
        warm.join()
        began = time.monotonic()
        process = self._start(whole)
        process.join()
        self.seconds = time.monotonic() - began
        if process.exitcode != 0:
            raise SystemExit(f"{self.workload} does not run at all; see {self.directory / 'log'}")
        return exact_files(whole)

    def torture(self, kills: int, outcome: Killed, say: Callable[[str], None]) -> None:
        """Kill the workload so often, in as many runs as that takes."""
        expected = self.reference()
        goal = outcome.kills + kills
        while outcome.kills < goal:
            out = self.directory / f"{self.workload}-{outcome.runs}"
            before = outcome.kills
            self._until_finished(out, goal, outcome)
            outcome.runs += 1
            problems = self._compare(out, expected)
            outcome.problems += [f"{out.name}: {problem}" for problem in problems]
            outcome.lost += len(problems)
            say(
                f"{self.workload}: a run after {outcome.kills - before} kills "
                f"{'differs' if problems else 'is the same'} ({outcome.kills} kills so far)"
            )
            if not problems:
                shutil.rmtree(out)

    def _until_finished(self, out: Path, goal: int, outcome: Killed) -> None:
        survived = 0
        kept: set[str] = set()
        while True:
            spare = outcome.kills >= goal or survived >= _MOST_KILLS
            outcome.resumed += any(out.rglob("*.safetensors")) if out.exists() else 0
            process = self._start(out)
            ended = self._wait(process, out, spare)
            now = set(records(out))
            outcome.lost += len(kept - now)
            outcome.problems += [f"{out.name}: {name} was lost" for name in sorted(kept - now)]
            kept = now
            if ended:
                if process.exitcode != 0:
                    outcome.lost += 1
                    outcome.problems.append(f"{out.name}: exit code {process.exitcode}")
                return
            survived += 1
            outcome.kills += 1
            outcome.in_writes += any(is_aside(path) for path in out.rglob(".*"))

    def _wait(self, process: Process, out: Path, spare: bool) -> bool:
        """Kill the process at some moment; whether it ended before that."""
        if spare:
            process.join()
            return True
        until = time.monotonic() + self.stream.uniform(0, self.seconds)
        if self.stream.random() < 0.5:  # in the middle of a write, the next one after that moment
            process.join(until - time.monotonic())
            until += 2 * self.seconds
            while time.monotonic() < until and process.is_alive() and not _writing(out):
                pass
        else:
            process.join(until - time.monotonic())
        if not process.is_alive():
            return True
        process.kill()
        process.join()
        return process.exitcode != -signal.SIGKILL  # it may have ended just before

    def _start(self, out: Path) -> Process:
        self.starts += 1
        arguments = (*WORKLOADS[self.workload], "--out", str(out))
        log = str(self.directory / "log")
        if self.fresh and self.starts % _FRESH == 0:
            command = [sys.executable, "-m", "larc.cli", *arguments]
            if self.workload == "live":
                command = [sys.executable, "-m", "benchmarks.torture.live", str(out)]
            return Fresh(command, log)
        target: Callable[..., None] = _larc
        given: tuple[str, ...] = arguments
        if self.workload == "live":
            target, given = _live, (str(out),)
        process = self.context.Process(target=target, args=(log, *given))
        process.start()
        return process

    def _compare(self, out: Path, expected: dict[str, bytes]) -> list[str]:
        files = exact_files(out)
        problems = [
            f"{name} differs from an uninterrupted run"
            for name in sorted(expected.keys() | files.keys())
            if expected.get(name) != files.get(name)
        ]
        if self.workload != "live":
            try:
                verify_run(out)
            except LarcError as error:
                problems.append(str(error))
        return problems


class Fresh:
    """A command in an interpreter of its own, with the face of a process."""

    def __init__(self, command: list[str], log: str) -> None:
        with Path(log).open("ab") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)

    def join(self, timeout: float | None = None) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(None if timeout is None else max(timeout, 0))

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()


Process = multiprocessing.process.BaseProcess | Fresh


def exact_files(out: Path) -> dict[str, bytes]:
    """Return what of a run must be the same each time: all but times, and what they are part of."""
    if (out / "answers.json").exists():
        return {"answers.json": (out / "answers.json").read_bytes()}
    units = [path for pattern in _EXACT for path in out.glob(f"units/*/{pattern}")]
    named = [out / "config.json", out / "evidence.jsonl", *units]
    return {str(path.relative_to(out)): path.read_bytes() for path in named if path.exists()}


def records(out: Path) -> Iterator[str]:
    """Name everything that is on record in a directory: units, evidence, answers."""
    for path in out.glob("units/*/done.json"):
        yield f"unit {path.parent.name} {sha256(path.read_bytes())}"
    if (out / "config.json").exists():
        for entry in Run(out).evidence():
            yield f"event {entry['event']} after {entry['previous'][:8]}"
    if (out / "session.safetensors").exists():
        from larc.stream.session_file import load_session

        answers = load_session(out / "session.safetensors").facts["notes"]["answers"]
        yield from (
            f"answer {name} {sha256(str(answer).encode())}" for name, answer in answers.items()
        )


def _writing(out: Path) -> bool:
    places = [out, *out.glob("units/*")] if out.exists() else []
    for directory in places:
        with suppress(OSError), os.scandir(directory) as entries:
            if any(entry.name.endswith(".part") for entry in entries):
                return True
    return False


def _quiet(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)


def _nothing() -> None:
    pass


def _larc(log: str, *arguments: str) -> None:
    from larc.cli import main

    _quiet(log)
    sys.exit(main(arguments))


def _live(log: str, directory: str) -> None:
    from benchmarks.torture.live import main

    _quiet(log)
    sys.exit(main(directory))
