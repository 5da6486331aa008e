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
