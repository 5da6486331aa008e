"""A replay of CI jobs: all paths together or in turn, and HEDGE4 against other learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed.delayed import hedge_losses, river_losses, wabbit_losses
from benchmarks.speed.peers import PeerMissing
from benchmarks.speed.setting import SEED, Keeping, Setting, check_same
from benchmarks.speed.table import Missing, Row, Section, timed_row
from larc.domains.ci.jobs import Job
from larc.domains.ci.prompter import JobPrompter, recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.domains.ci.synthetic import synthetic_jobs
from larc.learner import Learner
from larc.state import SlowState
from larc.stream.question import Recorded, labels_of, questions_of
from larc.stream.queue import Ask
from larc.stream.session import Session
from larc.studies.ci.units import control_strategies
from larc.studies.replay import ordered

SECTION = Section(
    "replay",
    "4. Replay",
    "Synthetic CI jobs whose labels arrive late: the CI study's seven paths in one session against "
    "one path after the other, at equal answers; then HEDGE4 without a model against other online "
    "learners.",
)
PATHS = (*TRAINED, *control_strategies((0.2, -0.1, -0.1, 0.0)))
TOLERANCE = 1e-4


def answers(setting: Setting, items: Sequence[Recorded], only: Sequence[str]) -> list[Tensor]:
    """Replay items along some paths and return what each of them answered, path by path."""
    learner = Learner(setting.substrate, setting.slow, limits=setting.limits)
    starts = {"original": SlowState.initial(setting.substrate, seed=SEED)}
    session = Session(learner, PATHS, JobPrompter(), seed=1, starts=starts)
    by_path: dict[str, list[Tensor]] = {name: [] for name in only}
    for event in ordered(items):
        if isinstance(event, Ask):
            for name, policies in session.ask(questions_of(event.items), only).items():
                by_path[name].append(torch.from_numpy(np.stack(policies)))
        else:
            session.learn(labels_of(event.items), only)
    return [torch.cat(policies) for policies in by_path.values()]


def rows(setting: Setting) -> list[Row]:
    """Measure both."""
    items = [recorded_job(job) for job in synthetic_jobs(2 if setting.quick else 4, seed=1)]
    names = [path.name for path in PATHS]

    def together() -> list[Tensor]:
        return answers(setting, items, names)

    def in_turn() -> list[Tensor]:
        return [answer for name in names for answer in answers(setting, items, [name])]

    runs = {"together": Keeping(together), "in turn": Keeping(in_turn)}
    times = setting.alternate(runs, long=True)
    shared, alone = (torch.cat(runs[name].result) for name in ("together", "in turn"))
    check_same("one path at a time", alone, shared, TOLERANCE)
    row = timed_row(
        "one path after the other",
        times,
        "in turn",
        "together",
        "its time over ours",
        f"{len(items)} jobs, {len(names)} paths",
        jobs_per_second=len(items) / times["together"].median,
    )
    return [row, *_without_model(setting)]


def _without_model(setting: Setting) -> list[Row]:
    jobs = synthetic_jobs(500 if setting.quick else 4000, seed=2)
    ways: dict[str, Callable[[Sequence[Job]], list[float]]] = {
        "HEDGE4 alone: the same four experts from river's parts": river_losses,
        "HEDGE4 alone: Vowpal Wabbit, one against all": wabbit_losses,
    }
    present: dict[str, Callable[[], list[float]]] = {"ours": lambda: hedge_losses(jobs)}
    losses, missing = {"ours": float(np.mean(hedge_losses(jobs)))}, {}
    for name, way in ways.items():
        try:
            losses[name] = float(np.mean(way(jobs)))
            present[name] = partial(way, jobs)
        except PeerMissing as reason:
            missing[name] = str(reason)
    times = setting.alternate(present)
    rate = len(jobs) / times["ours"].median
    return [
        Missing(name, missing[name])
        if name in missing
        else timed_row(
            name,
            times,
            name,
            "ours",
            "its time over ours",
            f"half-Brier {losses[name]:.3f}, ours {losses['ours']:.3f}",
            jobs_per_second=rate,
        )
        for name in ways
    ]
