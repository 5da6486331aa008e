"""Let a history be known that nobody was asked about: cases and HEDGE4 learn it, states do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

from larc.domains.ci.jobs import Job, Observation
from larc.domains.ci.prompter import job_question, recorded_job
from larc.stream.controller import Controller
from larc.stream.question import Labelled, Recorded
from larc.stream.queue import Arrive, order_events


def history_events(jobs: Iterable[Job]) -> Iterator[list[Any]]:
    """Yield a history in causal order as JSON values: jobs that start, then labels that arrive.

    Examples
    --------
    >>> job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 7, None, None)
    >>> for event in history_events([job]):
    ...     print(event)
    ['ask', [[7, ['o/r', 5, None, 'push', 'build', 'aa', 10]]]]
    ['arrive', [[7, ['o/r', 5, None, 'push', 'build', 'aa', 10], 1]]]
    """
    kept = {recorded_job(job).name: job for job in jobs}
    items: Sequence[Recorded] = [recorded_job(job) for job in kept.values()]
    for event in order_events(
        items,
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    ):
        rows: list[Any] = []
        for item in event.items:
            job = kept[item.name]
            row: list[Any] = [job.job_id, list(astuple(job.observation))]
            rows.append([*row, job.label] if isinstance(event, Arrive) else row)
        yield ["arrive" if isinstance(event, Arrive) else "ask", rows]


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
    >>> seed(controller, history_events([job]))
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
