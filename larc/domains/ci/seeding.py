"""Let a history be known that nobody was asked about: cases and HEDGE4 learn it, states do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

from larc.domains.ci.jobs import Job, Observation
from larc.domains.ci.prompter import job_question
from larc.stream.controller import Controller
from larc.stream.question import Labelled
from larc.stream.queue import Arrive, order_events


def causal_jobs(jobs: Iterable[Job]) -> Iterator[tuple[str, list[Job]]]:
    """Yield a history in causal order: jobs that start together, labels that arrive together.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None)
    >>> [(kind, [one.job_id for one in together]) for kind, together in causal_jobs([job])]
    [('ask', [7]), ('arrive', [7])]
    """
    for event in order_events(
        jobs,
        asked=lambda job: job.started_at,
        arrives=lambda job: job.completed_at,
        identifier=lambda job: job.job_id,
    ):
        yield "arrive" if isinstance(event, Arrive) else "ask", list(event.items)


def packed_event(kind: str, jobs: Sequence[Job]) -> list[Any]:
    """Return an event of a history as JSON values, for `seed`.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None)
    >>> packed_event("arrive", [job])
    ['arrive', [[7, ['o/r', 5, None, 'push', 'build', 'aa', 10], 1]]]
    """
    rows: list[list[Any]] = [[job.job_id, list(astuple(job.observation))] for job in jobs]
    if kind == "arrive":
        rows = [[*row, job.label] for row, job in zip(rows, jobs, strict=True)]
    return [kind, rows]


def seed(controller: Controller, events: Iterable[Sequence[Any]]) -> None:
    """Let a controller's prompter and experts know a history, one event after the other.

    Nobody is judged by it, and no state learns: that is how the study of CI jobs lets its
    training window be known.

    Examples
    --------
    >>> import larc
    >>> from larc.domains.ci.experts import Hedge4
    >>> from larc.domains.ci.hedge_replay import HedgeExpert
    >>> from larc.domains.ci.prompter import JobPrompter
    >>> from larc.domains.ci.strategies import TRAINED
    >>> substrate = larc.load_substrate("tiny")
    >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> session = larc.Session(learner, TRAINED, JobPrompter(), seed=1)
    >>> controller = larc.Controller(session, [HedgeExpert(Hedge4())])
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None)
    >>> seed(controller, [packed_event(*event) for event in causal_jobs([job])])
    >>> [case.result for case in session.prompter.memories["o/r"].cases]
    ['failure']
    """
    for kind, rows in events:
        questions = [job_question(number, Observation(*fields)) for number, fields, *_ in rows]
        if kind == "ask":
            for expert in controller.experts:
                expert.ask(questions)
            continue
        labels = [row[2] for row in rows]
        labelled = [Labelled(*pair) for pair in zip(questions, labels, strict=True)]
        for expert in controller.experts:
            expert.learn(labelled)
        controller.session.prompter.learn(labelled)
