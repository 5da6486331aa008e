"""Many private states: what one costs to hold, begin, read, move and save, beside how many."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from benchmarks.speed.setting import SEED, Setting
from benchmarks.speed.table import Measured, Row, Section, timed_row
from benchmarks.speed.timing import Spread
from larc.feedback import Label
from larc.learner import Episode, Learner
from larc.state import SlowState
from larc.substrate import load_substrate

SECTION = Section(
    "states",
    "11. Many private states",
    "Private states on `tiny`: 64 of them one at a time over all at once; then the cost of 64 of "
    "them where so many are held, over the cost where 64 are held. Beginning counts the states "
    "themselves; bytes are of a state that has moved, over the bytes of its numbers.",
)
AT_ONCE = 64
_ASKED = ("Is it even? ", ("yes", "no"))


def held_bytes(learner: Learner, count: int) -> float:
    """Return how many bytes of Python and of tensors one begun state takes, of so many."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        states = [learner.begin(seed) for seed in range(count)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    tensors = sum(4 * state.factors.numbers for state in states)
    return (after - before + tensors) / count


def rows(setting: Setting) -> list[Row]:
    """Measure 64 states among few and among many."""
    with tempfile.TemporaryDirectory() as directory:
        return _rows(setting, Path(directory))


def _rows(setting: Setting, directory: Path) -> list[Row]:
    tiny = load_substrate("tiny")
    learner = Learner(tiny, SlowState.initial(tiny, seed=SEED))
    most = [10 * AT_ONCE] if setting.quick else [100, 10_000, 1_000_000]
    few = [learner.begin(seed) for seed in range(AT_ONCE)]
    table_rows: list[Row] = []
    for case, run in _ways(learner, directory).items():
        times = setting.alternate({"few": _of(run, few), "single": _in_turn(run, few)})
        table_rows.append(
            timed_row(
                f"{case}, 1 state at a time",
                times,
                "single",
                "few",
                f"its time over that of {AT_ONCE} together",
                milliseconds_a_state=1e3 * times["single"].median / AT_ONCE,
            )
        )
    for count in most:
        many = [learner.begin(seed) for seed in range(max(count, AT_ONCE))]
        # Spread over all that are held, so that none is near another in memory.
        among = many[:: len(many) // AT_ONCE][:AT_ONCE]
        for case, run in _ways(learner, directory).items():
            times = setting.alternate({"few": _of(run, few), "among": _of(run, among)})
            table_rows.append(
                timed_row(
                    f"{case}, {AT_ONCE} states of {count:,}",
                    times,
                    "among",
                    "few",
                    f"its time over that of {AT_ONCE} held",
                    milliseconds_a_state=1e3 * times["among"].median / AT_ONCE,
                )
            )
        del many, among
    numbers = 4 * few[0].factors.numbers
    share = held_bytes(learner, min(most[-1], 10_000)) / numbers
    note = f"{numbers} bytes of numbers, rank {few[0].factors.rank} at width {tiny.width}"
    held = "its bytes over those of its numbers"
    return [*table_rows, Measured("a state that is held", Spread(share, share, share), held, note)]


def _of(run: Callable[[list[Episode]], object], states: list[Episode]) -> Callable[[], object]:
    return lambda: run(states)


def _in_turn(run: Callable[[list[Episode]], object], states: list[Episode]) -> Callable[[], object]:
    return lambda: [run([state]) for state in states]


def _ways(learner: Learner, directory: Path) -> dict[str, Callable[[list[Episode]], object]]:
    def save(states: list[Episode]) -> None:
        for number, state in enumerate(states):
            state.save(directory / str(number))

    return {
        "begin": lambda states: [learner.begin(state.seed) for state in states],
        "read": lambda states: learner.read_many([(state, *_ASKED) for state in states]),
        "update": lambda states: learner.update_many(
            [(state, Label(*_ASKED, 0)) for state in states]
        ),
        "save": save,
    }
