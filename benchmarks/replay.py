"""HEDGE4 in jobs a second, and all paths of a replay in shared batches against one at a time.

Run with `python -m benchmarks.replay`. `LARC_JOBS=FILE` replays a job file in place of made-up
jobs, `LARC_SUBSTRATE=smollm2-135m` the real model in place of the tiny one, `LARC_REPLAY_JOBS=N`
that many jobs through it.
"""

from __future__ import annotations

import dataclasses
import os
import time
from functools import partial

import numpy as np
import torch

import larc
from benchmarks.speed.timing import alternate
from larc.domains.ci import read_jobs, replay
from larc.domains.ci.jobs import Job
from larc.domains.ci.prompter import JobPrompter, recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.domains.ci.synthetic import synthetic_jobs
from larc.questions import Limits
from larc.residual import Factors
from larc.stream.question import labels_of, questions_of
from larc.stream.queue import Ask
from larc.stream.session import Session
from larc.studies.ci.units import control_strategies
from larc.studies.replay import ordered
from larc.substrate.frozen import Substrate

MADE_UP = 20_000
# The byte-level tokens of the tiny model are many.
LIMITS = Limits(1024, 32)
PATHS = (*TRAINED, *control_strategies((0.2, -0.1, -0.1, 0.0)))
Answers = dict[tuple[str, str], np.ndarray]


def hedge(repetitions: int) -> None:
    file = os.environ.get("LARC_JOBS")
    jobs = read_jobs(file)[0] if file else synthetic_jobs(MADE_UP, seed=1)
    # Processor time: what one core takes, whatever else the machine does meanwhile.
    timed = alternate(
        {"hedge": lambda: sum(1 for _ in replay(jobs))}, repetitions, clock=time.process_time
    )["hedge"]
    whose = "of a file" if file else "made up"
    print(f"\nHEDGE4, its four experts, one core: {len(jobs):,} jobs {whose}")
    print(
        f"{len(jobs) / timed.median:>10,.0f} jobs a second, {timed.median:.2f} s"
        f"{timed.spread:>8.0%} spread"
    )


def session(substrate: Substrate, boundary: int) -> Session:
    start = larc.SlowState.initial(substrate, seed=2026092811, boundary=boundary)
    # A trained-looking state: where B is zero, reading with the wrong factors would not show.
    stream = torch.Generator().manual_seed(7)
    written = 0.02 * torch.randn(start.factors.B.shape, generator=stream)
    trained = dataclasses.replace(start, factors=Factors(start.factors.A, written))
    learner = larc.Learner(substrate, trained, larc.SGD(0.1), limits=LIMITS)
    return Session(learner, PATHS, JobPrompter(), seed=1, starts={"original": start})


def play(substrate: Substrate, boundary: int, jobs: list[Job], only: list[str]) -> Answers:
    # Activations below the boundary are kept for reuse; a replay has to make its own.
    substrate._below_cache.clear()
    substrate._below_held = 0
    one, collected = session(substrate, boundary), {}
    for event in ordered([recorded_job(job) for job in jobs]):
        if isinstance(event, Ask):
            for path, answers in one.ask(questions_of(event.items), only).items():
                for item, answer in zip(event.items, answers, strict=True):
                    collected[path, item.name] = answer
        else:
            one.learn(labels_of(event.items), only)
    return collected


def shared(substrate: Substrate, boundary: int, count: int, repetitions: int) -> None:
    jobs = [job for job in synthetic_jobs(4 * count, seed=2) if job.repository == "synthetic/one"]
    jobs = jobs[:count]
    names = [path.name for path in PATHS]
    answers: dict[str, Answers] = {}
    positions: dict[str, tuple[int, int]] = {}

    def run(name: str, ways: list[list[str]]) -> None:
        substrate.ledger.clear()
        answers[name] = {}
        for only in ways:
            answers[name] |= play(substrate, boundary, jobs, only)
        done = [substrate.ledger.total(kind) for kind in ("below", "mixer")]
        positions[name] = sum(d.calls for d in done), sum(d.effective for d in done)

    ways = {"all paths in one batch": [names], "one path at a time": [[name] for name in names]}
    runs = {name: partial(run, name, way) for name, way in ways.items()}
    times = alternate(runs, repetitions)
    base, alone = times.values()
    together, apart = answers.values()
    where = f"before layer {boundary}" if boundary else "at the input"
    print(f"\nReplay of {count} made-up jobs along {len(names)} paths, the residual {where}")
    print(f"{'':26}{'calls':>8}{'positions':>12}{'seconds':>10}{'spread':>8}{'x shared':>10}")
    for name, timed in times.items():
        calls, done = positions[name]
        print(
            f"{name:26}{calls:>8,}{done:>12,}{timed.median:>10.2f}{timed.spread:>8.0%}"
            f"{timed.median / base.median:>10.2f}"
        )
    pairs = zip(alone.seconds, base.seconds, strict=True)
    ratios = ", ".join(f"{a / b:.2f}" for a, b in pairs)
    difference = max(float(np.abs(apart[key] - answer).max()) for key, answer in together.items())
    print(
        f"repetition by repetition: {ratios}; largest difference of a probability {difference:.1e}"
    )


def main() -> None:
    torch.set_num_threads(int(os.environ.get("LARC_THREADS", "2")))
    repetitions = int(os.environ.get("LARC_REPETITIONS", "5"))
    hedge(repetitions)
    substrate = larc.load_substrate(os.environ.get("LARC_SUBSTRATE", "tiny"))
    print(f"\n{substrate}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    jobs = int(os.environ.get("LARC_REPLAY_JOBS", "24"))
    for boundary in (0, 2 * substrate.layers // 3):
        shared(substrate, boundary, jobs, repetitions)


if __name__ == "__main__":
    main()
