"""A run's record changed in every way a disk or a person may change it: is it noticed?"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from larc.errors import LarcError
from larc.runs.run import Run
from larc.studies.running import verify_run


@dataclass
class Flipped:
    """What came of it."""

    tried: int = 0
    missed: list[str] = field(default_factory=list)

    @property
    def caught(self) -> int:
        return self.tried - len(self.missed)


def flip_all(
    run: Path, count: int, seed: int, outcome: Flipped, say: Callable[[str], None]
) -> None:
    """Change a verified run in so many ways, each file in turn, and put it back each time."""
    verify_run(run)
    stream = random.Random(f"{seed} {run.name}")
    files = recorded(run)
    for number in range(count):
        path = files[number % len(files)]
        # Each file first meets its boundary, then whatever is drawn.
        way = number // len(files)
        with changed(path, way, stream) as what:
            outcome.tried += 1
            problem = _unnoticed(run, path)
            if problem:
                outcome.missed.append(f"{what} of {path.relative_to(run)}: {problem}")
        if (number + 1) % 500 == 0:
            say(f"{run.name}: {number + 1} of {count} changes, {len(outcome.missed)} missed")
    verify_run(run)


def recorded(run: Path) -> list[Path]:
    """Return the files that a run's record is in: an archive is one; a report belongs to none."""
    if run.is_file():
        return [run]
    whole = Run(run)
    roles = ("evidence", "manifest")
    return [run / name for name in whole.store.names() if whole.role(name) in roles]


def _unnoticed(run: Path, path: Path) -> str:
    """Return what is wrong with how a change was noticed; empty if nothing is."""
    try:
        verify_run(run)
    except LarcError as error:
        # What differs is named: the file, or what was put beside it.
        near = {str(path), str(path.parent)}
        return "" if any(name in str(error) for name in near) else f"it was said that {error}"
    except Exception as error:
        return repr(error)
    return "it was not noticed"


@contextmanager
def changed(path: Path, way: int, stream: random.Random) -> Iterator[str]:
    """Change a file for a while; says what was done."""
    content = path.read_bytes()
    size = len(content)
    beside = path.with_name(f"{path.name}.{stream.randrange(1000)}")
    flips = {0: 0, 1: size - 1}  # the first byte, the last byte, then any
    kind = way if way < 7 else stream.choice([2, 2, 2, 2, 3, 4])
    if path.suffix == ".larc" and kind == 6:  # a file beside an archive is no part of it
        kind = 2
    try:
        if kind == 5:
            path.unlink()
            yield "removal"
        elif kind == 6:
            beside.write_bytes(content)
            yield "a file beside that"
        elif kind == 4:
            path.write_bytes(content + stream.randbytes(1))
            yield "one more byte"
        elif kind == 3 or size == 0:
            cut = stream.randrange(size) if size else 0
            path.write_bytes(content[:cut] if size else b"\n")
            yield f"the first {cut} bytes alone"
        else:
            index = flips.get(kind, stream.randrange(size))
            other = bytearray(content)
            other[index] ^= 1 << stream.randrange(8)
            path.write_bytes(other)
            yield f"byte {index}"
    finally:
        beside.unlink(missing_ok=True)
        path.write_bytes(content)
