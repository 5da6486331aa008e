"""What reads and updates of a model cost, alone and in a batch: a fixed part, and one for each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.serving.measures import CANDIDATES, SEED, Traffic
from larc.feedback import Label
from larc.learner import Episode, Learner
from larc.state import SlowState
from larc.substrate import load_substrate
from larc.substrate.frozen import rows_together


@dataclass(frozen=True)
class Costs:
    """Seconds of processor time: of a call, and of each question in it.

    Attributes
    ----------
    read, read_each
        Of reading one new prompt under a kept and an untouched state.
    update, update_each
        Of a step of the kept one.
    """

    read: float
    read_each: float
    update: float
    update_each: float

    def text(self) -> str:
        """Return them for a command line, in milliseconds."""
        parts = (self.read, self.read_each, self.update, self.update_each)
        return ",".join(f"{1000 * part:.2f}" for part in parts)

    @staticmethod
    def parse(text: str) -> Costs:
        """Return what `text` wrote."""
        return Costs(*(float(part) / 1000 for part in text.split(",")))


def measure(substrate: str, boundary: int, together: int = 16, repetitions: int = 3) -> Costs:
    """Measure both on one thread, for one question and for several of several streams."""
    torch.set_num_threads(1)
    model = load_substrate(substrate)
    slow = SlowState.initial(model, seed=SEED, boundary=min(boundary, model.layers - 1))
    learner, traffic = Learner(model, slow), Traffic(SEED)
    times: dict[tuple[str, int], list[float]] = {}
    for repetition in range(repetitions + 1):
        for count in (1, together):
            kept = [learner.begin(seed=number) for number in range(count)]
            texts = [traffic.ticket() for _ in range(count)]
            read = _timed(lambda k=kept, t=texts: _read(learner, k, t))  # type: ignore[misc]
            update = _timed(lambda k=kept, t=texts: _update(learner, k, t))  # type: ignore[misc]
            if repetition:  # the first uses everything once
                times.setdefault(("read", count), []).append(read)
                times.setdefault(("update", count), []).append(update)
    middle = {key: statistics.median(values) for key, values in times.items()}
    return Costs(*_line(middle, "read", together), *_line(middle, "update", together))


def _line(times: dict[tuple[str, int], float], what: str, together: int) -> tuple[float, float]:
    """Return the fixed part and the part of each, from one and from many."""
    each = max(0.0, (times[what, together] - times[what, 1]) / (together - 1))
    return max(0.0, times[what, 1] - each), each


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _read(learner: Learner, kept: list[Episode], texts: list[str]) -> None:
    untouched = learner.begin()
    pairs = zip(kept, texts, strict=True)
    with rows_together():
        learner.read_many(
            [(one, text, CANDIDATES) for state, text in pairs for one in (state, untouched)]
        )


def _update(learner: Learner, kept: list[Episode], texts: list[str]) -> None:
    pairs = zip(kept, texts, strict=True)
    with rows_together():
        learner.update_many([(one, [Label(text, CANDIDATES, 1)]) for one, text in pairs])
