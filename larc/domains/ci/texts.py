"""Experts for text along a queue of jobs: what a job says of itself, as words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from larc.domains.ci.jobs import Job, Observation
from larc.domains.ci.prompter import recorded_job
from larc.experts import LabelFrequencies, LastLabel, TextExpert, WordLogistic
from larc.stream.question import Question, Recorded

FREQUENCIES, LAST, WORDS = "FREQUENCIES", "LAST", "WORDS"
#: Under which names they answer.
TEXTS = (FREQUENCIES, LAST, WORDS)
#: Training jobs are cut into streams of so many; each begins with nothing private, as audits do.
_STRETCH = 50


def job_text(job: Observation) -> str:
    """Return what an expert for text reads of a job: workflow, event and name.

    Examples
    --------
    >>> job_text(Observation("o/r", 5, "ci.yml", "push", "build (linux)", "aa", 10))
    'ci.yml push build (linux)'
    """
    workflow = job.workflow_path or job.workflow_id
    return " ".join(str(part) for part in (workflow, job.event, job.job_name) if part)


def as_text(item: Recorded) -> Recorded:
    """Return a recorded job whose question is its text."""
    question = item.question
    text = job_text(question.source)
    return replace(item, question=Question(question.name, question.candidates, text))


def text_experts(training: Iterable[Job]) -> list[TextExpert]:
    """Return experts whose slow parts are fitted on a training window."""
    jobs = sorted(training, key=lambda job: (job.repository, job.started_at, job.job_id))
    streams: list[Sequence[Recorded]] = []
    for _, mine in groupby(jobs, key=lambda job: job.repository):
        items = [as_text(recorded_job(job)) for job in mine]
        streams += [items[start : start + _STRETCH] for start in range(0, len(items), _STRETCH)]
    experts: tuple[TextExpert, ...] = (
        LabelFrequencies(FREQUENCIES),
        LastLabel(LAST),
        WordLogistic(WORDS),
    )
    return [expert.fit(streams) for expert in experts]
