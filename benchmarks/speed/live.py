"""Questions nobody has asked before: alone, together, and with their common beginnings reused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from benchmarks.speed.setting import SEED, Keeping, Setting
from benchmarks.speed.table import Row, Section, timed_row
from larc.domains.ci.prompter import JobPrompter, recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.domains.ci.synthetic import synthetic_jobs
from larc.errors import LarcError
from larc.learner import Learner
from larc.residual import Factors
from larc.state import SlowState
from larc.stream.plans import compute
from larc.stream.question import Recorded, labels_of, questions_of
from larc.stream.queue import Ask
from larc.stream.session import Session
from larc.studies.replay import ordered
from larc.substrate.beginnings import Beginnings
from larc.substrate.frozen import rows_together

SECTION = Section(
    "live",
    "10. A live question",
    "Made-up CI jobs never asked about before, put as the CI study puts them, with what is below "
    "the boundary computed for each question alone, and in `rows_together`: with beginnings that "
    "were met before used again, and without. Then 64 streams that ask at once, together and one "
    "after the other.",
)
#: How far a probability may be from that of a row computed alone.
ROUNDING = 1e-5
Way = Callable[[], Tensor]


def slow_state(setting: Setting) -> SlowState:
    """Return a slow state before a late layer: most of a new question is below it."""
    boundary = setting.substrate.layers * 26 // 30
    start = SlowState.initial(setting.substrate, seed=SEED, boundary=boundary)
    stream = torch.Generator().manual_seed(7)
    written = 0.02 * torch.randn(start.factors.B.shape, generator=stream)
    return start.advanced(Factors(start.factors.A, written))


def forget(setting: Setting, *, reuse: bool) -> None:
    """Forget every question, and let beginnings be kept or not."""
    substrate = setting.substrate
    substrate._below_cache.clear()
    substrate._below_held = 0
    substrate.beginnings = Beginnings(substrate.cache_bytes // 8 if reuse else 0)


def asked(
    setting: Setting, items: Sequence[Recorded], together: bool, reuse: bool = False
) -> Tensor:
    """Ask about jobs as they start; their labels reach the prompter's memory, and no state."""
    forget(setting, reuse=reuse)
    learner = Learner(setting.substrate, slow_state(setting), limits=setting.limits)
    strategies = [one for one in TRAINED if one.retention == "reset"]
    session = Session(learner, strategies, JobPrompter(), seed=1)
    policies: list[Tensor] = []
    way: AbstractContextManager[None] = rows_together() if together else nullcontext()
    with way:
        for event in ordered(items):
            if isinstance(event, Ask):
                for each in session.ask(questions_of(event.items)).values():
                    policies += [torch.from_numpy(policy) for policy in each]
            else:
                session.learn(labels_of(event.items))
    return torch.stack(policies)


def at_once(setting: Setting, streams: int, together: bool) -> Tensor:
    """Put a new question to each of many streams with states of their own."""
    forget(setting, reuse=together)
    learner = Learner(setting.substrate, slow_state(setting), limits=setting.limits)
    strategies = [one for one in TRAINED if one.name == "P1M1"]
    sessions = [Session(learner, strategies, JobPrompter(), seed=n) for n in range(streams)]
    items = [recorded_job(job) for job in synthetic_jobs(streams, seed=3)][:streams]
    plans = [
        session.plan(questions_of([item])) for session, item in zip(sessions, items, strict=False)
    ]
    if together:
        with rows_together():
            results = compute(learner, plans)
    else:
        results = [compute(learner, [plan])[0] for plan in plans]
    policies: list[Tensor] = []
    for plan, result in zip(plans, results, strict=True):
        answers = plan.session.commit(plan, result)  # type: ignore[arg-type]  # reads, all of them
        policies += [torch.from_numpy(policy) for each in answers.values() for policy in each]
    return torch.stack(policies)


def rows(setting: Setting) -> list[Row]:
    """Measure questions of one stream, and of many at once."""
    jobs = synthetic_jobs(6 if setting.quick else 24, seed=1)
    items = [recorded_job(job) for job in jobs]
    streams = 8 if setting.quick else 64
    kept = setting.substrate.beginnings
    try:
        return [
            *_compared(
                setting,
                {
                    "in shared batches, beginnings reused": lambda: asked(
                        setting, items, True, reuse=True
                    ),
                    "alone": lambda: asked(setting, items, False),
                    "in shared batches, nothing reused": lambda: asked(setting, items, True),
                },
                f"{len(items)} jobs, two prompts each",
            ),
            *_compared(
                setting,
                {
                    "many streams together": lambda: at_once(setting, streams, True),
                    "many streams, one after the other": lambda: at_once(setting, streams, False),
                },
                f"{streams} streams",
            ),
        ]
    finally:
        forget(setting, reuse=True)
        setting.substrate.beginnings = kept


def _compared(setting: Setting, ways: dict[str, Way], note: str) -> list[Row]:
    runs = {name: Keeping(way) for name, way in ways.items()}
    times = setting.alternate(runs, long=True)
    ours, *others = runs
    table_rows: list[Row] = []
    for name in others:
        difference = float((runs[name].result - runs[ours].result).abs().max())
        if not difference <= ROUNDING:
            raise LarcError(
                f"{name} and {ours} differ by {difference:.1e} in a probability, more than "
                f"{ROUNDING:.0e}; report this."
            )
        told = f"{note}; probabilities differ by {difference:.0e}"
        table_rows.append(timed_row(name, times, name, ours, "its time over ours", told))
    return table_rows
