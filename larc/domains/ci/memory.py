"""Case memory: a few completed jobs of one repository that a prompt may mention."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from larc.domains.ci.jobs import LABELS, Observation
from larc.errors import LarcError

_STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Case:
    """What a memory tells about one completed job, and nothing more.

    Examples
    --------
    >>> Case(5, "build", "c0ffee", "succes")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: result 'succes' is none of success, failure, cancelled, other.
    """

    workflow_id: int | None
    job_name: str
    commit: str
    result: str

    def __post_init__(self) -> None:
        if self.result not in LABELS:
            raise LarcError(f"result {self.result!r} is none of {', '.join(LABELS)}.")
        if not (isinstance(self.job_name, str) and isinstance(self.commit, str)):
            raise LarcError("the job name and the commit of a case are texts.")

    @property
    def size(self) -> int:
        """Bytes that the case takes in a memory: its JSON form in UTF-8."""
        return len(json.dumps(astuple(self), ensure_ascii=False, separators=(",", ":")).encode())


def case_of(observation: Observation, label: int) -> Case:
    """Return the case of a completed job, with its real label.

    Examples
    --------
    >>> case_of(Observation("o/r", 5, None, "push", "build", "c0ffee", 10), 1)
    Case(workflow_id=5, job_name='build', commit='c0ffee', result='failure')
    """
    return Case(observation.workflow_id, observation.job_name, observation.commit, LABELS[label])


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much a memory holds and shows; the defaults are the paper's."""

    cases: int = 16
    size: int = 16 * 1024
    exposed: int = 2


class CaseMemory:
    """The last completed cases of one repository, oldest first out.

    It is written from real labels only, after the updates of their batch, and is reset on its
    own: neither touches a fast state, and no reset of a fast state touches it.

    A case that alone exceeds the size limit is not kept and pushes nothing out; ``refused``
    counts such cases.

    Examples
    --------
    >>> memory = CaseMemory()
    >>> memory.write([Case(5, "build", "aa", "failure"), Case(5, "docs", "aa", "success"),
    ...               Case(5, "lint", "aa", "success"), Case(5, "build", "bb", "success")])
    >>> seen = Observation("o/r", 5, None, "push", "build", "cc", 1767312000)
    >>> [(case.job_name, case.commit) for case in memory.read(seen)]
    [('build', 'bb'), ('build', 'aa')]
    """

    __slots__ = ("_cases", "limits", "refused")

    def __init__(self, limits: MemoryLimits | None = None) -> None:
        self.limits = MemoryLimits() if limits is None else limits
        self._cases: deque[Case] = deque()
        self.refused = 0

    @property
    def cases(self) -> tuple[Case, ...]:
        """All cases, oldest first."""
        return tuple(self._cases)

    @property
    def size(self) -> int:
        """Bytes of all cases."""
        return sum(case.size for case in self._cases)

    def write(self, cases: Iterable[Case]) -> None:
        """Add cases in the given order, and let the oldest go where a limit is reached."""
        for case in cases:
            if case.size > self.limits.size:
                self.refused += 1
                continue
            self._cases.append(case)
            while len(self._cases) > self.limits.cases or self.size > self.limits.size:
                self._cases.popleft()

    def read(self, observation: Observation) -> tuple[Case, ...]:
        """Return the cases to show with a job: the latest of its kind, then the latest others.

        A case is of the job's kind when it has the same workflow id and job name. The commit is
        not compared.
        """
        newest = tuple(reversed(self._cases))
        kind = (observation.workflow_id, observation.job_name)
        alike = [case for case in newest if (case.workflow_id, case.job_name) == kind]
        others = [case for case in newest if (case.workflow_id, case.job_name) != kind]
        return tuple((alike + others)[: self.limits.exposed])

    def reset(self) -> None:
        """Forget every case."""
        self._cases.clear()
        self.refused = 0

    def state(self) -> dict[str, Any]:
        """Return the memory as JSON values.

        Examples
        --------
        >>> memory = CaseMemory()
        >>> memory.write([Case(5, "build", "aa", "failure")])
        >>> memory.state()["cases"]
        [[5, 'build', 'aa', 'failure']]
        """
        return {
            "format": _STATE_FORMAT,
            "limits": list(astuple(self.limits)),
            "cases": [list(astuple(case)) for case in self._cases],
            "refused": self.refused,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> CaseMemory:
        """Return the memory of a state.

        Examples
        --------
        >>> CaseMemory.from_state(CaseMemory().state()).cases
        ()
        """
        if state.get("format") != _STATE_FORMAT:
            raise LarcError(f"this is no state of a case memory in format {_STATE_FORMAT}.")
        try:
            memory = cls(MemoryLimits(*state["limits"]))
            memory.write(Case(*case) for case in state["cases"])
            memory.refused = int(state["refused"])
        except (KeyError, TypeError, ValueError) as error:
            raise LarcError(f"this state of a case memory is damaged: {error!r}.") from error
        if len(memory.cases) != len(state["cases"]):
            raise LarcError("this state of a case memory is damaged: it exceeds its own limits.")
        return memory
