"""The question put to a language model about a job."""

from __future__ import annotations

from collections.abc import Sequence

from larc.domains.ci.jobs import LABELS, Observation
from larc.domains.ci.memory import Case
from larc.errors import LarcError
from larc.io.times import iso_time

#: At most this many cases stand in a prompt.
MOST_CASES = 2

# Whatever ends a line or hides in one is shown as an escape: no name can add a line of its own.
_ESCAPES = {
    code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
} | {ord("\\"): "\\\\"}


def ci_prompt(observation: Observation, cases: Sequence[Case] = ()) -> str:
    r"""Return the prompt for a job: the cases, the seven fields, and the question.

    It ends with a line break, so that a label stands at the beginning of a line: the candidates
    are the literal `larc.domains.ci.LABELS`. Every value is written in full. Nothing is cut
    to a length: a job whose names do not fit is for the scorer to refuse, with its limit. A value
    that the source does not have is written ``unknown``. Line breaks and other control characters
    are written as escapes.

    Parameters
    ----------
    observation
        What is known when the job starts.
    cases
        Completed jobs, in the order in which a memory exposes them; at most two.

    Examples
    --------
    >>> seen = Observation("o/r", 5, None, "push", "build", "c0ffee", 1767312000)
    >>> print(ci_prompt(seen, [Case(5, "build", "aa", "failure")]), end="")
    Predict how a continuous integration job will end: success, failure, cancelled or other.
    Earlier: workflow 5, job build, commit aa: failure
    Repository: o/r
    Workflow: 5
    Path: unknown
    Event: push
    Job: build
    Commit: c0ffee
    Started: 2026-01-02T00:00:00Z
    Final status:
    """
    if len(cases) > MOST_CASES:
        raise LarcError(f"{len(cases)} cases were given; a prompt holds at most {MOST_CASES}.")
    *first, last = LABELS
    lines = [f"Predict how a continuous integration job will end: {', '.join(first)} or {last}."]
    lines += [
        f"Earlier: workflow {_shown(case.workflow_id)}, job {_shown(case.job_name)}, "
        f"commit {_shown(case.commit)}: {case.result}"
        for case in cases
    ]
    lines += [
        f"Repository: {_shown(observation.repository)}",
        f"Workflow: {_shown(observation.workflow_id)}",
        f"Path: {_shown(observation.workflow_path)}",
        f"Event: {_shown(observation.event)}",
        f"Job: {_shown(observation.job_name)}",
        f"Commit: {_shown(observation.commit)}",
        f"Started: {iso_time(observation.started_at)}",
        "Final status:",
    ]
    return "\n".join(lines) + "\n"


def _shown(value: str | int | None) -> str:
    return "unknown" if value is None else str(value).translate(_ESCAPES)
