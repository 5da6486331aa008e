"""Which jobs the continuous-integration study is about."""

from __future__ import annotations

from typing import Any

from larc.domains.ci import read_jobs
from larc.domains.ci.split import Split, Window, load_queue, parse_window, split_jobs
from larc.domains.ci.synthetic import synthetic_jobs
from larc.errors import LarcError
from larc.studies.ci.settings import CISettings

# The shared ozone history begins under the repository's former name.
RENAMED = {"apache/hadoop-ozone": "apache/ozone"}


def audit_queue(settings: CISettings) -> Split:
    """Read the jobs and divide them into training and audit."""
    if settings.synthetic and settings.jobs:
        raise LarcError(
            f"--jobs names files, and --synthetic {settings.synthetic} makes jobs up instead; give "
            "--synthetic 0 with your files (the preset smoke has it at 60), or leave --jobs out."
        )
    if settings.synthetic:
        jobs = synthetic_jobs(settings.synthetic, seed=20260929)
    elif settings.jobs:
        jobs, _ = read_jobs(list(settings.jobs), renamed=RENAMED)
    else:
        raise LarcError("no jobs were given; name files with --jobs, or make some up with smoke.")
    if settings.synthetic or settings.queue == "":
        windows = (parse_window(settings.train), parse_window(settings.audit))
        return split_jobs(jobs, windows)
    declared = load_queue(settings.queue)
    known = {job.repository for job in jobs} & set(declared)
    if not known:
        # Histories that the queue does not speak of: one pair of windows for all.
        return split_jobs(jobs, (parse_window(settings.train), parse_window(settings.audit)))
    trimmed = {
        repository: (_within(train, settings.train), _within(audit, settings.audit))
        for repository, (train, audit) in declared.items()
        if repository in known
    }
    return split_jobs([job for job in jobs if job.repository in known], trimmed)


def queue_counts(split: Split) -> dict[str, Any]:
    """Return how many jobs and commits each repository's windows hold, and what is in neither.

    Examples
    --------
    >>> from larc.studies.ci.settings import PRESETS
    >>> counts = queue_counts(audit_queue(PRESETS["smoke"]))
    >>> counts["repositories"]["synthetic/one"]["audit"]
    {'jobs': 13, 'commits': 3}
    """
    repositories: dict[str, dict[str, dict[str, int]]] = {}
    for side in ("training", "audit"):
        commits: dict[str, list[str]] = {}
        for job in getattr(split, side):
            commits.setdefault(job.repository, []).append(job.head_sha)
        for repository, shas in sorted(commits.items()):
            counts = {"jobs": len(shas), "commits": len(set(shas))}
            repositories.setdefault(repository, {})[side] = counts
    shared = {"jobs": split.shared_jobs, "commits": split.shared_commits}
    late = {"late": {"jobs": split.late_jobs}} if split.late_jobs else {}
    return {"repositories": repositories, "shared": shared, **late}


def _within(window: Window, text: str) -> Window:
    """Return a declared window with what a setting says in place of it."""
    given = parse_window(text)
    return Window(
        given.since if given.since is not None else window.since,
        given.until if given.until is not None else window.until,
        given.jobs if given.jobs is not None else window.jobs,
    )
