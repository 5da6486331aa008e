"""CI jobs as questions of a stream, and the memory their prompts may show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from larc.ci.jobs import LABELS, Job
from larc.ci.memory import CaseMemory, case_of
from larc.ci.prompts import ci_prompt
from larc.stream.items import PLAIN, Item

REMEMBERED = "remembered"


def job_item(job: Job) -> Item:
    """Return a job as a question: asked when it starts, answered when it completes.

    Examples
    --------
    >>> item = job_item(Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None))
    >>> item.asked, item.arrives, item.candidates[item.label], item.group
    (10, 20, 'failure', 'aa')
    """
    return Item(
        name=f"{job.job_id:020d}",  # in the order of the numbers
        asked=job.started_at,
        arrives=job.completed_at,
        candidates=LABELS,
        label=job.label,
        stream=job.repository,
        group=job.head_sha,
        source=job,
    )


class CIRoom:
    """Puts jobs with and without cases, and keeps one case memory per repository.

    Examples
    --------
    >>> room = CIRoom()
    >>> item = job_item(Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None))
    >>> room.prompts(item)["plain"] == room.prompts(item)["remembered"]
    True
    >>> room.learned([item])
    >>> "Earlier: workflow 5, job build" in room.prompts(item)["remembered"]
    True
    """

    def __init__(self) -> None:
        self.memories: dict[str, CaseMemory] = {}

    def prompts(self, item: Item) -> Mapping[str, str]:
        """Return the job's prompt without cases and with the cases known by now."""
        observation = item.source.observation
        memory = self.memories.get(item.stream)
        cases = memory.read(observation) if memory else ()
        return {PLAIN: ci_prompt(observation), REMEMBERED: ci_prompt(observation, cases)}

    def learned(self, items: Sequence[Item]) -> None:
        """Write completed jobs to their repositories' memories, with their real labels."""
        for item in items:
            self.memories.setdefault(item.stream, CaseMemory()).write([case_of(item.source)])

    def state(self) -> Any:
        """Return the memories as JSON values."""
        return {name: memory.state() for name, memory in sorted(self.memories.items())}

    def restore(self, state: Any) -> None:
        """Go back to remembered memories."""
        self.memories = {name: CaseMemory.from_state(own) for name, own in state.items()}

    def fork(self, repository: str) -> CIRoom:
        """Return a room that remembers what this one does of one repository."""
        room = CIRoom()
        if repository in self.memories:
            room.memories[repository] = CaseMemory.from_state(self.memories[repository].state())
        return room

    @property
    def size(self) -> int:
        """Bytes of all cases."""
        return sum(memory.size for memory in self.memories.values())
