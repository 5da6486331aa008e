"""CI jobs as questions of a stream, and the memory their prompts may show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

from larc.domains.ci.jobs import (
    LABELS,
    Job,
    LeftOut,
    Observation,
    Reason,
    RunningJob,
    job_from_row,
    running_job_from_row,
)
from larc.domains.ci.memory import CaseMemory, case_of
from larc.domains.ci.prompts import ci_prompt
from larc.stream.prompter import PLAIN
from larc.stream.question import Labelled, Question, Recorded

REMEMBERED = "remembered"


def job_question(job_id: int, observation: Observation) -> Question:
    """Return a job that has started as a question; nothing of its end is in it.

    Examples
    --------
    >>> job_question(7, Observation("o/r", 5, None, "push", "build", "aa", 10)).name
    '00000000000000000007'
    """
    # In the order of the numbers.
    return Question(f"{job_id:020d}", LABELS, source=observation)


class JobLabel(NamedTuple):
    """How a job ended: the name of its question, and the label."""

    name: str
    label: int


def job_event(row: Mapping[str, object]) -> Question | JobLabel | LeftOut:
    """Return what a row says just now: a job that runs is a question, one that ended a label.

    Parameters
    ----------
    row
        As `larc.domains.ci.jobs.job_from_row` takes it; `larc.github.payloads.flat_row` makes one
        of a webhook delivery or of an answer of GitHub.

    Examples
    --------
    >>> row = {"repository": "o/r", "job_name": "build", "head_sha": "aa", "job_id": 7,
    ...        "status": "in_progress", "started_at": 10, "conclusion": None}
    >>> job_event(row).name
    '00000000000000000007'
    >>> job_event({**row, "status": "completed", "conclusion": "failure", "completed_at": 20})
    JobLabel(name='00000000000000000007', label=1)
    >>> job_event({**row, "status": "queued"})
    LeftOut(reason=<Reason.NOT_COMPLETED: 'not_completed'>, detail="status is 'queued'")
    """
    running = running_job_from_row(row)
    if isinstance(running, RunningJob):
        return job_question(*running)
    job = job_from_row(row) if running.reason is Reason.NOT_RUNNING else running
    if isinstance(job, LeftOut):
        return job
    return JobLabel(job_question(job.job_id, job.observation).name, job.label)


def recorded_job(job: Job) -> Recorded:
    """Return a completed job as an item of a replay: asked as it starts, labelled as it completes.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None)
    >>> item = recorded_job(job)
    >>> item.asked, item.arrives, LABELS[item.label], item.group
    (10, 20, 'failure', 'aa')
    """
    return Recorded(
        job_question(job.job_id, job.observation),
        asked=job.started_at,
        arrives=job.completed_at,
        label=job.label,
        stream=job.repository,
        group=job.head_sha,
    )


class JobPrompter:
    """Puts jobs with and without cases, and keeps one case memory per repository.

    Examples
    --------
    >>> prompter = JobPrompter()
    >>> question = job_question(7, Observation("o/r", 5, None, "push", "build", "aa", 10))
    >>> prompts = prompter.prompts(question)
    >>> prompts["plain"] == prompts["remembered"]
    True
    >>> prompter.learn([Labelled(question, 1)])
    >>> "Earlier: workflow 5, job build" in prompter.prompts(question)["remembered"]
    True
    """

    def __init__(self) -> None:
        self.memories: dict[str, CaseMemory] = {}

    def prompts(self, question: Question) -> Mapping[str, str]:
        """Return the job's prompt without cases and with the cases known by now."""
        observation: Observation = question.source
        memory = self.memories.get(observation.repository)
        cases = memory.read(observation) if memory else ()
        return {PLAIN: ci_prompt(observation), REMEMBERED: ci_prompt(observation, cases)}

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Write completed jobs to their repositories' memories, with their real labels."""
        for question, label in labelled:
            observation: Observation = question.source
            memory = self.memories.setdefault(observation.repository, CaseMemory())
            memory.write([case_of(observation, label)])

    def pack(self, source: Any) -> Any:
        """Return the seven fields of a job as a list."""
        return list(astuple(source))

    def unpack(self, packed: Any) -> Any:
        """Return the seven fields of a job."""
        return Observation(*packed)

    def state(self) -> Any:
        """Return the memories as JSON values."""
        return {name: memory.state() for name, memory in sorted(self.memories.items())}

    def restore(self, state: Any) -> None:
        """Go back to remembered memories."""
        self.memories = {name: CaseMemory.from_state(memory) for name, memory in state.items()}

    def fork(self, repository: str) -> JobPrompter:
        """Return a prompter that remembers what this one does of one repository."""
        forked = JobPrompter()
        if repository in self.memories:
            forked.memories[repository] = CaseMemory.from_state(self.memories[repository].state())
        return forked

    @property
    def size(self) -> int:
        """Bytes of all cases."""
        return sum(memory.size for memory in self.memories.values())
