"""The prompts of a queue of jobs, each as of when it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from larc.domains.ci.jobs import Job
from larc.domains.ci.prompter import JobPrompter, recorded_job
from larc.stream.question import Labelled, Recorded
from larc.stream.queue import Ask
from larc.studies.replay import ordered


def causal_prompts(
    items: Sequence[Recorded],
) -> tuple[list[tuple[Recorded, dict[str, str]]], JobPrompter]:
    """Return every item with its prompts as of when it was asked, and the prompter at the end."""
    prompter, put = JobPrompter(), []
    for event in ordered(items):
        if isinstance(event, Ask):
            put += [(item, dict(prompter.prompts(item.question))) for item in event.items]
        else:
            prompter.learn([Labelled(item.question, item.right) for item in event.items])
    return put, prompter


def asked_texts(jobs: Sequence[Job]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return everything that will be asked about jobs: names, prompts and candidates.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None)
    >>> [name for name, prompt, candidates in asked_texts([job])]
    ["job '00000000000000000007' of 'o/r'"]
    """
    by_repository: dict[str, list[Job]] = {}
    for job in jobs:
        by_repository.setdefault(job.repository, []).append(job)
    return [
        (f"job {item.name!r} of {item.stream!r}", prompt, item.question.candidates)
        for some in by_repository.values()
        for item, prompts in causal_prompts([recorded_job(job) for job in some])[0]
        for prompt in sorted(set(prompts.values()))
    ]
