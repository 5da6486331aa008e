"""A replay of CI jobs: all paths together or in turn, and HEDGE4 against other learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed.delayed import hedge_losses, river_losses, wabbit_losses
from benchmarks.speed.live import forget
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
from larc.substrate.frozen import rows_together

SECTION = Section(
    "replay",
    "4. Replay",
    "Synthetic CI jobs whose labels arrive late: the CI study's seven paths in one session against "
    "one path after the other, at equal answers; the same before a late layer, where each path by "
    "itself computes what is below it, as in a run of its own; then HEDGE4 without a model against "
    "other online learners.",
)
PATHS = (*TRAINED, *control_strategies((0.2, -0.1, -0.1, 0.0)))
TOLERANCE = 1e-4


def answers(
    setting: Setting, items: Sequence[Recorded], only: Sequence[str], boundary: int = 0
) -> list[Tensor]:
    """Replay items along some paths and return what each of them answered, path by path."""
    forget(setting, reuse=True)
    learner = Learner(
        setting.substrate, replace(setting.slow, boundary=boundary), limits=setting.limits
    )
    starts = {"original": SlowState.initial(setting.substrate, seed=SEED, boundary=boundary)}
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
    late = setting.substrate.layers * 26 // 30
    return [
        _all_paths(setting, 0, "one path after the other"),
        _all_paths(setting, late, f"one path after the other, before layer {late}"),
        *_without_model(setting),
    ]


def _all_paths(setting: Setting, boundary: int, case: str) -> Row:
    """Replay all paths in one session, and one after the other."""
    items = [recorded_job(job) for job in synthetic_jobs(2 if setting.quick else 4, seed=1)]
    names = [path.name for path in PATHS]

    def together() -> list[Tensor]:
        with rows_together():
            return answers(setting, items, names, boundary)

    def in_turn() -> list[Tensor]:
        return [answer for name in names for answer in answers(setting, items, [name], boundary)]

    runs = {"together": Keeping(together), "in turn": Keeping(in_turn)}
    times = setting.alternate(runs, long=True)
    shared, alone = (torch.cat(runs[name].result) for name in ("together", "in turn"))
    check_same("one path at a time", alone, shared, TOLERANCE)
    return timed_row(
        case,
        times,
        "in turn",
        "together",
        "its time over ours",
        f"{len(items)} jobs, {len(names)} paths",
        jobs_per_second=len(items) / times["together"].median,
    )


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
