"""A small synthetic queue: made up, and called so wherever it appears."""

from __future__ import annotations

import numpy as np

from larc.domains.ci.jobs import Job

_JOBS = ("build", "docs", "lint", "test-unit", "test-slow")


def synthetic_jobs(count: int, seed: int) -> list[Job]:
    """Return made-up jobs of two made-up repositories.

    Some jobs fail with their commit, some commits are cancelled, and docs are often skipped: there
    is something to learn, and it arrives late.

    Examples
    --------
    >>> jobs = synthetic_jobs(20, seed=1)
    >>> len(jobs), sorted({job.repository for job in jobs})
    (20, ['synthetic/one', 'synthetic/two'])
    """
    stream = np.random.default_rng(seed)
    jobs: list[Job] = []
    clock = {"synthetic/one": 1_767_225_600, "synthetic/two": 1_767_225_600}
    while len(jobs) < count:
        repository = f"synthetic/{('one', 'two')[len(jobs) // len(_JOBS) % 2]}"
        commit = stream.bytes(20).hex()
        mood = stream.choice(4, p=(0.7, 0.15, 0.1, 0.05))
        clock[repository] += int(stream.integers(30, 600))
        for name in _JOBS:
            skipped = name == "docs" and stream.random() < 0.6
            hit = stream.random() < 0.6
            label = 3 if skipped else int(mood) if hit else 0
            started = clock[repository] + int(stream.integers(0, 5))
            completed = started + int(stream.integers(20, 900))
            number = len(jobs) + 1
            jobs.append(
                Job(
                    repository,
                    1,
                    ".github/workflows/ci.yml",
                    "CI",
                    "push",
                    name,
                    commit,
                    started,
                    completed,
                    label,
                    number,
                    number,
                    1,
                )
            )
    return jobs[:count]


#: The jobs of `eventful_jobs`: how long each runs, in seconds, and how often it fails by itself.
_EVENTFUL = {"lint": (40, 0.01), "build": (180, 0.02), "test": (420, 0.03), "browser": (600, 0.15)}


def eventful_jobs(count: int, seed: int) -> list[Job]:
    """Return made-up jobs of one made-up repository in which something happens, to be looked at.

    Pushes come minutes apart. Now and then a change breaks the build, until it is mended; pushes
    that were overtaken are cancelled; and what failed by itself is run again on the same commit,
    as the second attempt of its run.

    Examples
    --------
    >>> jobs = eventful_jobs(200, seed=1)
    >>> len(jobs), {job.repository for job in jobs}, {job.run_attempt for job in jobs}
    (200, {'synthetic/app'}, {1, 2})
    """
    stream = np.random.default_rng(seed)
    jobs: list[Job] = []
    clock, run, broken = 1_767_225_600, 0, 0
    while len(jobs) < count:
        run += 1
        clock += int(stream.integers(120, 900))
        commit = stream.bytes(20).hex()
        broken = broken - 1 if broken else int(stream.integers(6, 15)) * (stream.random() < 0.04)
        overtaken = stream.random() < 0.06
        for name, (usual, flaky) in _EVENTFUL.items():
            began = clock + int(stream.integers(2, 20))
            for attempt in (1, 2):
                lasted = max(int(usual * stream.lognormal(0.0, 0.25)), 5)
                by_itself = stream.random() < flaky
                fails = by_itself or (broken and name in ("build", "test"))
                label = 2 if overtaken else int(bool(fails))
                lasted = lasted // 3 if overtaken else lasted // (2 if fails else 1)
                jobs.append(
                    Job(
                        "synthetic/app",
                        1,
                        ".github/workflows/ci.yml",
                        "CI",
                        "push",
                        name,
                        commit,
                        began,
                        began + lasted,
                        label,
                        len(jobs) + 1,
                        run,
                        attempt,
                    )
                )
                if not (by_itself and not broken and not overtaken):
                    break
                began += lasted + int(stream.integers(60, 300))
    return jobs[:count]
