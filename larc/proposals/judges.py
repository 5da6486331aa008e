"""Judges that run something else: a command with limits, for every text."""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Literal

from larc.checks import listed, number, text, whole_number
from larc.errors import LarcError
from larc.proposals import confining

_LAUNCHER = str(Path(confining.__file__).resolve())
_MOST_READ = 4096


@dataclass(frozen=True)
class SubprocessJudge:
    """A command that is given each text on its standard input and prints the text's loss.

    Every text gets a process of its own in an empty directory that is removed afterwards, with no
    environment but a path and a language, and with limits on time, memory, the size of files and
    their number; where the system allows it, without network. A command that fails, is stopped by a
    limit or prints no finite number has lost: ``failed``.

    These are limits and no sandbox: the command may read whatever its user may read, and write
    small files wherever that user may. Run what you do not trust in a container or a virtual
    machine of its own.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        How long it may run, by the clock; the time it may compute is as long, rounded up.
    patience
        How many times as long by the clock one that took too long may run when it is tried once
        more, so that a busy machine changes no loss; 1 for no second try.
    memory, file, files
        The most bytes of memory, the most bytes of a file it writes, and how many it may open.
    network
        ``"none"`` takes the network away and refuses to judge where the system does not allow that;
        ``"any"`` leaves it as it is; ``"try"`` takes it away where that can be done.
    failed
        The loss of a command that did not answer.
    late
        The texts whose commands took too long, also the second time.

    Examples
    --------
    >>> program = "import sys; print(abs(len(sys.stdin.read()) - 3))"
    >>> judge = SubprocessJudge([sys.executable, "-I", "-c", program])
    >>> judge(["ab", "abc"])
    [1.0, 0.0]
    >>> SubprocessJudge([sys.executable, "-c", "while True: pass"], seconds=0.2)(["a"])
    [1.0]
    """

    command: Sequence[str]
    seconds: float = 10.0
    patience: float = 1.0
    memory: int = 2**30
    file: int = 2**20
    files: int = 64
    network: Literal["none", "try", "any"] = "try"
    failed: float = 1.0
    late: list[str] = field(default_factory=list, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        words = listed(self.command, "the words of a command")
        if not words:
            raise LarcError("a command is a list: the program, and its arguments one by one.")
        first, *others = (text(str(part), "a word of a command") for part in words)
        program = None if "\0" in first else shutil.which(first)
        if program is None:
            raise LarcError(f"there is no program {first!r} to judge with.")
        object.__setattr__(self, "command", (program, *others))
        if self.network not in ["none", "try", "any"]:
            raise LarcError(f"network {self.network!r} is unknown; use none, try or any.")
        number(self.seconds, "the seconds of a judge", above=0)
        number(self.patience, "the patience of a judge", least=1)
        number(self.failed, "the loss of a text that failed")
        whole_number(self.memory, "the memory of a judge", least=1)
        whole_number(self.files, "the files of a judge", least=1)
        whole_number(self.file, "the file size of a judge")
        if self.network == "none" and not network_can_be_left():
            raise LarcError(
                "this system does not let a process leave the network; allow user namespaces, or "
                "give network='try' and run the judge where there is no network."
            )

    def __call__(self, texts: Sequence[str]) -> list[float]:
        """Return the loss of every text."""
        return [self._judged(text) for text in texts]

    def _judged(self, text: str) -> float:
        tries = [self.seconds] + [self.seconds * self.patience] * (self.patience > 1)
        for seconds in tries:
            loss = self._tried(text, seconds)
            if loss is not None:
                return loss if math.isfinite(loss) else self.failed
        self.late.append(text)
        return self.failed

    def _tried(self, text: str, seconds: float) -> float | None:
        """Return the number that was printed, NaN for none; nothing where it took too long."""
        away = self.network != "any" and network_can_be_left()
        limits = {
            "cpu": math.ceil(self.seconds),
            "memory": self.memory,
            "file": self.file,
            "files": self.files,
            "network": "none" if away else "any",
        }
        with (
            tempfile.TemporaryDirectory(prefix="larc-judge-") as directory,
            tempfile.TemporaryFile() as asked,
            tempfile.TemporaryFile() as answer,
        ):
            asked.write(text.encode("utf-8", "replace"))
            asked.seek(0)
            code = self._run(json.dumps(limits), directory, asked, answer, seconds)
            # The end of what was printed: the last number is the loss.
            answer.seek(max(answer.seek(0, os.SEEK_END) - _MOST_READ, 0))
            printed = answer.read().decode("utf-8", "replace").split()
        if code is None:
            return None
        try:
            return float(printed[-1]) if code == 0 and printed else math.nan
        except ValueError:
            return math.nan

    def _run(
        self, limits: str, directory: str, asked: IO[bytes], answer: IO[bytes], seconds: float
    ) -> int | None:
        """Return the exit code; nothing where the time was over first."""
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", _LAUNCHER, limits, *self.command],
            stdin=asked,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            cwd=directory,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        try:
            # Seen to have ended, and not yet reaped: until then nobody else can have its number.
            handle = os.pidfd_open(child.pid)
            try:
                waiting = select.poll()
                waiting.register(handle, select.POLLIN)
                ended = bool(waiting.poll(1000 * seconds))
            finally:
                os.close(handle)
        finally:
            # Whatever it started goes with it, as far as it stayed in its group.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
        return code if ended else None


@cache
def network_can_be_left() -> bool:
    """Whether this system lets a process without rights give up the network, found out by trying.

    Examples
    --------
    >>> network_can_be_left() in (True, False)
    True
    """
    code = f"import sys; sys.path.insert(0, {str(Path(_LAUNCHER).parent)!r}); import confining; "
    code += "sys.exit(not confining.leave_network())"
    tried = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, check=False, timeout=60
    )
    return tried.returncode == 0
