"""Where every row went: accepted, or left out for a reason that is counted and located."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from larc.domains.ci.jobs import Job, LeftOut, Reason

#: Examples kept for each reason. All rows are counted; the first few show where to look.
EXAMPLES_PER_REASON = 5


@dataclass(frozen=True, slots=True)
class Example:
    """One row that was left out: the file, its line (or row number, from 1), and what was found."""

    reason: str
    file: str
    line: int
    detail: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Accounting:
    """What became of the rows of some files.

    Parameters
    ----------
    read
        Rows read: always ``accepted`` plus the sum of ``left_out``.
    accepted
        Rows that became jobs.
    left_out
        Rows left out, by reason, in the order of the reasons' names.
    examples
        The first few rows left out for each reason.
    runs
        Runs read beside the jobs. They complete jobs and are no rows themselves.

    Examples
    --------
    >>> accounting = Accounting(read=3, accepted=2, left_out={"duplicate": 1})
    >>> accounting.rows()
    {'read': 3, 'accepted': 2, 'left_out': {'duplicate': 1}}
    """

    read: int
    accepted: int
    left_out: Mapping[str, int]
    examples: tuple[Example, ...] = ()
    runs: int = 0

    def rows(self) -> dict[str, object]:
        """Return the counts in their JSON form."""
        return {
            "read": self.read,
            "accepted": self.accepted,
            "left_out": dict(sorted(self.left_out.items())),
        }


@dataclass(slots=True)
class Tally:
    """Collects jobs while files are read; :meth:`close` gives the accounting.

    A job that was seen before is left out as a duplicate: the first one read stays. Two records
    are the same job when they share the job id and either the repository or the commit; the
    second half of the rule finds a job again after its repository was renamed.

    Examples
    --------
    >>> ledger = Tally()
    >>> ledger.leave(Reason.BLANK_LINE, "jobs.jsonl", 4, "nothing but white space")
    >>> ledger.close().left_out["blank_line"]
    1
    """

    jobs: list[Job] = field(default_factory=list)
    runs: int = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _examples: list[Example] = field(default_factory=list)
    _seen: dict[int, Job] = field(default_factory=dict)
    _more: dict[int, list[Job]] = field(default_factory=dict)

    def take(self, outcome: Job | LeftOut, file: str, line: int) -> None:
        """Book one row: the job it holds, or the reason it is left out."""
        if isinstance(outcome, LeftOut):
            self.leave(outcome.reason, file, line, outcome.detail)
            return
        first = self._seen.setdefault(outcome.job_id, outcome)
        if first is not outcome:
            # Ids of different hosts may meet, so an id alone does not make a duplicate.
            others = self._more.setdefault(outcome.job_id, [first])
            for other in others:
                if other.repository == outcome.repository or other.head_sha == outcome.head_sha:
                    same = "" if other == outcome else ", but with other contents"
                    detail = f"job {outcome.job_id} of {outcome.repository} was read before{same}"
                    self.leave(Reason.DUPLICATE, file, line, detail)
                    return
            others.append(outcome)
        self.jobs.append(outcome)

    def leave(self, reason: Reason, file: str, line: int, detail: str, rows: int = 1) -> None:
        """Book rows that are left out."""
        if self._counts[reason.value] < EXAMPLES_PER_REASON:
            self._examples.append(Example(reason.value, file, line, detail))
        self._counts[reason.value] += rows

    def close(self) -> Accounting:
        """Return what was booked so far."""
        return Accounting(
            read=len(self.jobs) + self._counts.total(),
            accepted=len(self.jobs),
            left_out=MappingProxyType(dict(sorted(self._counts.items()))),
            examples=tuple(self._examples),
            runs=self.runs,
        )
