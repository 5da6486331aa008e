"""What a session costs besides the model: its own part of a question, and what saving takes."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.speed.live import forget, slow_state
from benchmarks.speed.setting import SEED, Setting
from benchmarks.speed.table import Measured, Row, Section
from benchmarks.speed.timing import Clock, Spread
from larc.domains.ci.prompter import JobPrompter, recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.domains.ci.synthetic import synthetic_jobs
from larc.learner import Learner
from larc.state import SlowState
from larc.stream.question import Question, Recorded, questions_of
from larc.stream.queue import Ask
from larc.stream.session import Session
from larc.stream.strategies import Strategy
from larc.studies.replay import ordered
from larc.substrate import load_substrate
from larc.substrate.frozen import Substrate, rows_together

SECTION = Section(
    "session",
    "13. A session",
    "New CI jobs asked about under five strategies before a late layer, in shared batches: all "
    "that is not within the model's layers and its head, over all. Then what one more question "
    "costs to save on `tiny`, with three strategies and five awaited labels, by how many labels "
    "are remembered: the most is about what a session's limits allow.",
)
AWAITED, SAVES = 5, 15
_CANDIDATES = ("up", "down")


@contextmanager
def model_time(substrate: Substrate, clock: Clock) -> Iterator[list[float]]:
    """Collect the seconds of every call of the model while the block lasts.

    What a boundary is gone through by is made at its first use, and only then counted.
    """
    spent: list[float] = []

    def clocked(run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **more: Any) -> Any:
            began = clock()
            try:
                return run(*given, **more)
            finally:
                spent.append(clock() - began)

        return timed

    below, above = dict(substrate._below), dict(substrate._above)
    substrate._below.update({key: clocked(run) for key, run in below.items()})
    substrate._above.update({key: clocked(run) for key, run in above.items()})
    try:
        yield spent
    finally:
        substrate._below.update(below)
        substrate._above.update(above)


def asked(setting: Setting, items: Sequence[Recorded]) -> tuple[float, float]:
    """Ask about jobs as they start; returns the seconds of all, and of the model's calls."""
    forget(setting, reuse=True)
    learner = Learner(setting.substrate, slow_state(setting), limits=setting.limits)
    session = Session(learner, TRAINED, JobPrompter(), seed=1)
    with rows_together(), model_time(setting.substrate, setting.clock) as spent:
        began = setting.clock()
        for event in ordered(items):
            if isinstance(event, Ask):
                session.ask(questions_of(event.items))
        return setting.clock() - began, sum(spent)


def saves(clock: Clock, remembered: int, directory: Path) -> list[float]:
    """Return the seconds of saves after one more question each."""
    tiny = load_substrate("tiny")
    strategies = [Strategy("a"), Strategy("b", sham=True), Strategy("c")]
    learner = Learner(tiny, SlowState.initial(tiny, seed=SEED))
    session = Session(learner, strategies, seed=1)
    names = [f"question {number}" for number in range(AWAITED + SAVES + 1)]
    questions = [Question(name, _CANDIDATES, prompt=f"{name}: ") for name in names]
    session.ask(questions[: AWAITED + 1])
    session.learn({names[0]: 1})
    for number in range(remembered - 1):
        session.labelled.remember(f"earlier {number}", session.labelled[names[0]])
    file, seconds = directory / f"session {remembered}", []
    session.save(file)
    for number in range(SAVES):
        session.drop([names[number + 1]])
        session.ask([questions[AWAITED + 1 + number]])
        began = clock()
        session.save(file)
        seconds.append(clock() - began)
    return seconds


def rows(setting: Setting) -> list[Row]:
    """Measure both."""
    jobs = [recorded_job(job) for job in synthetic_jobs(3 if setting.quick else 12, seed=1)]
    asked(setting, jobs)
    times = [asked(setting, jobs) for _ in range(setting.repetitions)]
    share = Spread.of([1 - model / total for total, model in times])
    seconds = {"all": [total for total, _ in times], "model": [model for _, model in times]}
    note = f"{len(jobs)} jobs, {len(TRAINED)} strategies"
    of = "time besides the model's calls over all"
    table_rows: list[Row] = [Measured("a new question", share, of, note, {"seconds": seconds})]
    with tempfile.TemporaryDirectory() as name:
        for count in (1, 10) if setting.quick else (6, 1000, 9000):
            measured = [
                statistics.median(saves(setting.clock, count, Path(name))) * 1000
                for _ in range(setting.repetitions)
            ]
            case = f"a save, {count:,} labels remembered"
            note = f"each the median of {SAVES} saves"
            table_rows.append(Measured(case, Spread.of(measured), "milliseconds", note))
    return table_rows
