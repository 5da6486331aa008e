"""How time and memory grow: sequence length, candidates, episodes in a batch, private states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.speed.setting import SEED, Setting
from benchmarks.speed.table import Measured, Row, Section
from benchmarks.speed.timing import Spread, exponent, growth, peak_bytes
from larc.feedback import CandidateLosses
from larc.learner import Learner
from larc.questions import Limits
from larc.state import SlowState
from larc.substrate import load_substrate

SECTION = Section(
    "growth",
    "6. Growth",
    "The slope of log time, and of log peak memory, against log size: 1 is linear. Updates of the "
    "model under test; those up to its longest row once, with activations computed again in the "
    "backward pass; private states are begun on it, and read in shared batches on `tiny`.",
)
_TIME, _MEMORY = "exponent of time", "exponent of peak memory"
_WIDE = Limits(prompt=4096, candidate=64)
Run = Callable[[], object]


def _update(learner: Learner, questions: Sequence[tuple[str, Sequence[str]]]) -> Run:
    feedback = []
    for number, (prompt, candidates) in enumerate(questions):
        losses = [float(index > 0) for index in range(len(candidates))]
        feedback.append((learner.begin(number), CandidateLosses(prompt, candidates, losses)))
    return lambda: learner.update_many(feedback)


def _text(learner: Learner, tokens: int) -> str:
    """Return a prompt of so many tokens."""
    tokenizer: Any = learner.substrate.tokenizer
    words = "one two three four five six seven eight nine ten " * tokens
    text: str = tokenizer.decode(tokenizer(words)["input_ids"][:tokens])
    return text


def updates(setting: Setting) -> dict[str, tuple[list[int], list[Run]]]:
    """Return what grows, at which sizes, and an update of each size."""
    learner = Learner(setting.substrate, setting.slow, limits=_WIDE)
    lengths, counts, batches = (
        ([32, 64, 128], [2, 4, 8], [1, 2, 4])
        if setting.quick
        else ([64, 128, 256, 512], [2, 4, 8, 16], [1, 2, 4, 8])
    )
    short = [f"number {n} of all" for n in range(max(counts))]
    prompt = _text(learner, 64)
    same = [(f"{number} {prompt}", short[:4]) for number in range(max(batches))]
    return {
        "sequence length": (
            lengths,
            [_update(learner, [(_text(learner, n), ["yes", "no"])]) for n in lengths],
        ),
        "candidates": (counts, [_update(learner, [(prompt, short[:n])]) for n in counts]),
        "episodes in a batch": (batches, [_update(learner, same[:n]) for n in batches]),
    }


def rows(setting: Setting) -> list[Row]:
    """Fit the growth of updates and of private states."""
    table_rows: list[Row] = []
    for what, (sizes, runs) in updates(setting).items():
        times = setting.alternate(dict(zip(map(str, sizes), runs, strict=True)))
        peaks = [peak_bytes(run) for run in runs]
        note = f"{sizes[0]} to {sizes[-1]}"
        spread = growth(sizes, [times[str(size)] for size in sizes])
        seconds = {name: timed.seconds for name, timed in times.items()}
        table_rows.append(Measured(f"update, {what}", spread, _TIME, note, {"seconds": seconds}))
        table_rows.append(_memory_row(f"update, {what}", sizes, peaks, note))
    return [*table_rows, *_to_the_limit(setting), *_states(setting)]


def _to_the_limit(setting: Setting) -> list[Row]:
    """Update on rows up to the longest that the model takes, keeping no activations."""
    substrate = setting.substrate
    longest = substrate.longest or 8192
    spare = 16  # for the candidates
    sizes = [64, 128, 256] if setting.quick else [longest // 16, longest // 4, longest]
    kept, substrate.checkpointing = substrate.checkpointing, True
    try:
        limits = Limits(prompt=longest, candidate=spare)
        learner = Learner(substrate, setting.slow, limits=limits)
        runs = [_update(learner, [(_text(learner, n - spare), ["yes", "no"])]) for n in sizes]
        seconds: dict[str, float] = {}
        runs[0]()  # what a first call makes once
        for size, run in zip(sizes, runs, strict=True):
            substrate.packs(size)  # tried once for each length, and no part of an update
            start = setting.clock()
            run()
            seconds[str(size)] = setting.clock() - start
        peaks = [peak_bytes(run) for run in runs]
    finally:
        substrate.checkpointing = kept
    case, note = "update, sequence length, checkpointed", f"{sizes[0]} to {sizes[-1]}"
    slope = exponent(sizes, list(seconds.values()))
    timed = Measured(case, Spread(slope, slope, slope), _TIME, note, {"seconds": seconds})
    note += f"; {peaks[-1] / 2**20:,.0f} MB at the longest"
    return [timed, _memory_row(case, sizes, peaks, note)]


def _memory_row(case: str, sizes: Sequence[int], peaks: Sequence[int], note: str) -> Measured:
    slope = exponent(sizes, peaks)
    numbers = {"bytes": dict(zip(map(str, sizes), peaks, strict=True))}
    return Measured(case, Spread(slope, slope, slope), _MEMORY, note, numbers)


def _states(setting: Setting) -> list[Row]:
    sizes = [10, 100] if setting.quick else [10, 100, 1000, 10_000]
    note = f"{sizes[0]} to {sizes[-1]}"
    begun = Learner(setting.substrate, setting.slow)

    def begin(count: int) -> list[Any]:
        return [begun.begin(seed) for seed in range(count)]

    tiny = load_substrate("tiny")
    learner = Learner(tiny, SlowState.initial(tiny, seed=SEED))

    def read(count: int) -> Run:
        states = [learner.begin(seed) for seed in range(count)]
        requests = [(state, f"Is {n % 97} even? ", ("yes", "no")) for n, state in enumerate(states)]
        return lambda: learner.read_many(requests)

    table_rows: list[Row] = []
    for case, runs in (
        ("begin and hold private states", [lambda n=n: begin(n) for n in sizes]),
        ("read all private states (tiny)", [read(n) for n in sizes]),
    ):
        times = setting.alternate(dict(zip(map(str, sizes), runs, strict=True)))
        spread = growth(sizes, [times[str(size)] for size in sizes])
        seconds = {name: timed.seconds for name, timed in times.items()}
        table_rows.append(Measured(case, spread, _TIME, note, {"seconds": seconds}))
        table_rows.append(_memory_row(case, sizes, [peak_bytes(run) for run in runs], note))
    return table_rows
