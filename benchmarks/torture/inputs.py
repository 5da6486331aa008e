"""Damaged input for every reader: one clear sentence or the right answer, and nothing written."""

from __future__ import annotations

import os
import random
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.torture.damage import damaged
from benchmarks.torture.readers import READERS, Reader
from larc.errors import LarcError


@dataclass
class Fed:
    """What came of it."""

    tried: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)


def feed_all(
    directory: Path,
    count: int,
    seed: int,
    outcome: Fed,
    say: Callable[[str], None],
    readers: Sequence[Reader] = READERS,
) -> None:
    """Feed so many damaged inputs, shared out over the readers by their weights."""
    os.environ["LARC_CACHE"] = str(directory / "cache")  # nothing of this stays
    total = sum(reader.weight for reader in readers)
    for reader in readers:
        before, problems = outcome.refused, len(outcome.problems)
        share = max(1, round(count * reader.weight / total))
        for number in range(share):
            _feed(directory, reader, f"{seed} {reader.name} {number}", outcome)
        say(
            f"{reader.name}: {share} inputs, {outcome.refused - before} refused, "
            f"{len(outcome.problems) - problems} problems"
        )


def _feed(directory: Path, reader: Reader, seed: str, outcome: Fed) -> None:
    good, trial = directory / reader.name / "good", directory / reader.name / "trial"
    if not good.exists():
        good.mkdir(parents=True)
        reader.make(good)
    expected = reader.read(_copy(good, trial))
    stream = random.Random(seed)
    _copy(good, trial)
    files = sorted(path for path in trial.rglob("*") if path.is_file())
    path = stream.choice(files)
    content, forged = damaged(path.read_bytes(), stream)
    way = stream.random()
    if way < 0.03:
        path.unlink()
    elif way < 0.05:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content)
    before = snapshot(trial)
    outcome.tried += 1
    what = f"{reader.name}, seed {seed!r}, {path.name}"
    try:
        value = reader.read(trial)
    except LarcError as error:
        outcome.refused += 1
        if "\n" in str(error) or not str(error):
            outcome.problems.append(f"{what}: the refusal is no sentence: {str(error)!r}")
        if snapshot(trial) != before:
            outcome.problems.append(f"{what}: something was written before {error}")
        return
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of a native reader is one, too
        outcome.problems.append(f"{what}: {traceback.format_exc(limit=-3)}")
        return
    if reader.exact and not forged and value != expected:
        outcome.problems.append(f"{what}: another answer than that of the undamaged file")


def _copy(good: Path, trial: Path) -> Path:
    shutil.rmtree(trial, ignore_errors=True)
    shutil.copytree(good, trial)
    return trial


def snapshot(directory: Path) -> dict[str, Any]:
    """Return everything below a directory, by name."""
    return dict(_entries(directory))


def _entries(directory: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(directory.rglob("*")):
        yield str(path.relative_to(directory)), path.read_bytes() if path.is_file() else None
