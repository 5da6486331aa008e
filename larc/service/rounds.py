"""One round: the next events of many streams take effect, at most one kind of event a stream.

Nothing here writes. A round changes streams in memory and returns the steps to be committed; if
the commit is refused, the streams are forgotten and read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any

from sqlalchemy.engine import Row

from larc.domains.ci.seeding import seed
from larc.errors import LarcError
from larc.service.computing import ask_all, learn_all
from larc.service.live import Asked, Live, asked
from larc.service.problems import Problem
from larc.service.store.log import as_question, label_of
from larc.service.store.results import Outcome, Step, Work
from larc.stream.session import SessionFull

#: Events that take a replay of the log, and so more than one round.
LONG = ("rollback", "correction", "move")


def play(pairs: Sequence[tuple[Live, Work]]) -> list[Step]:
    """Let the next events of each stream take effect; all reads share batches, as do updates."""
    steps = [Step(live.number, live.shard, live.applied, live.applied) for live, _ in pairs]
    asks: list[tuple[Live, Step, Work, list[Asked]]] = []
    labels: list[tuple[Live, Step, Work, Row[Any], Row[Any]]] = []
    for (live, work), step in zip(pairs, steps, strict=True):
        first = work.events[0]
        if first.kind == "question":
            asks.append((live, step, work, _questions(live, work, step)))
        elif first.kind == "label":
            labels += [(live, step, work, one, one) for one in _together(live, work)]
        else:
            _OTHERS[first.kind](live, step, first)
    for (live, step, work, questions), answers in zip(
        asks, ask_all([(live, questions) for live, _, _, questions in asks]), strict=True
    ):
        for one, answer in zip(questions, answers, strict=True):
            early = _answered(live, step, work, one, answer)
            if early is not None:
                labels.append((live, step, work, one.event, early))
    _labelled(labels)
    for (live, _), step in zip(pairs, steps, strict=True):
        step.applied = live.applied = max(one.seq for one in step.outcomes)
        step.values = live.values()
        step.body = live.body()
    return steps


def _together(live: Live, work: Work) -> list[Row[Any]]:
    """Return the labels that are learned as one batch: of jobs, those that ended in one second."""
    first = work.events[0]
    if not live.template.domain or first.occurred_at is None:
        return [first]
    return list(
        takewhile(
            lambda one: one.kind == "label" and one.occurred_at == first.occurred_at, work.events
        )
    )


def _questions(live: Live, work: Work, step: Step) -> list[Asked]:
    """Return the questions that come next; one whose label is here already comes last."""
    taken: list[Asked] = []
    for event in work.events:
        if event.kind != "question":
            break
        try:
            taken.append(asked(event, live.template))
        except LarcError as error:
            step.outcomes.append(refusal(event, error))
        if live.template.solo or event.key in work.labels:
            break
    return taken


def _answered(live: Live, step: Step, work: Work, one: Asked, answer: Any) -> Row[Any] | None:
    """Take an answer in; returns the label that was there before its question, if one was."""
    event, label = one.event, work.labels.get(one.event.key)
    if isinstance(answer, LarcError):
        step.outcomes.append(refusal(event, answer))
        return None
    body = live.answer(event, answer, scored=label is None)
    live.asked += 1
    live.awaited += 1
    live.show(body["weights"])
    step.outcomes.append(Outcome(event.seq, "question", event.key, "awaited", answer=body))
    if label is None:
        return None
    # The label was known before the answer was made: the answer counts nowhere, nobody is judged.
    live.controller.forecaster.drop([event.key])
    return label if label.status == "early" else None


def _labelled(labels: Sequence[tuple[Live, Step, Work, Row[Any], Row[Any]]]) -> None:
    """Let labels take effect: of questions that await them, and early ones of new questions."""
    learning: list[Learning] = []
    for live, step, work, event, label in labels:
        pending = live.controller.session.pending.get(label.key)
        if pending is None and label.status == "early":
            # It stays in the log until its question comes.
            step.outcomes.append(Outcome(label.seq, "label", label.key, "early"))
            continue
        try:
            if pending is None:
                raise Problem("invalid", "its question awaits no label any more.")
            value = label_of(json.loads(label.body), pending.question)
        except LarcError as error:
            step.outcomes.append(refusal(label, error))
            continue
        if live.mode == "frozen":
            live.controller.drop([label.key])
            _counted(live, step, work, label, value, "scored")
            continue
        learning.append((live, step, event, label, value))
    works = {id(step): work for _, step, work, _, _ in labels}
    for (live, step, event, label, value), refused in _learned(learning):
        if refused is not None:
            step.outcomes.append(refusal(label, refused))
            continue
        live.version = event.seq
        _counted(live, step, works[id(step)], label, value, "applied")


Learning = tuple[Live, Step, Row[Any], Row[Any], int | tuple[float, ...]]


def _learned(learning: Sequence[Learning]) -> list[tuple[Learning, LarcError | None]]:
    """Learn labels, those of one stream together; if they are refused, each by itself."""
    groups = [list(group) for _, group in groupby(learning, key=lambda one: id(one[1]))]
    refusals = learn_all([(group[0][0], {one[3].key: one[4] for one in group}) for group in groups])
    done: list[tuple[Learning, LarcError | None]] = []
    for group, refused in zip(groups, refusals, strict=True):
        if refused is not None and len(group) > 1:
            for one in group:
                done += _learned([one])
        else:
            done += [(one, refused) for one in group]
    return done


def _counted(
    live: Live,
    step: Step,
    work: Work,
    label: Row[Any],
    value: int | tuple[float, ...],
    status: str,
) -> None:
    live.labelled += 1
    live.awaited -= 1
    answer = work.answers.get(label.key)
    if answer is not None:  # an early label has none, and no answer to its question counts
        live.score(answer, value)
    about = {"state_version": live.version}
    step.outcomes.append(Outcome(label.seq, "label", label.key, status, answer=about))
    step.marks.append(("question", label.key, "labelled"))


def refusal(event: Row[Any], error: LarcError) -> Outcome:
    """Return what becomes of an event that cannot take effect: it is refused, and says why."""
    code = "refused"
    if isinstance(error, Problem):
        code = error.code
    elif isinstance(error, SessionFull):
        code = "stream-full"
    return Outcome(event.seq, event.kind, event.key, "refused", str(error), code)


# Events that need no model -----------------------------------------------------------------------


def _dropped(live: Live, step: Step, event: Row[Any]) -> None:
    if event.key not in live.controller.session.pending:
        step.outcomes.append(refusal(event, Problem("invalid", "nothing awaits it any more.")))
        return
    live.controller.drop([event.key])
    live.awaited -= 1
    status = {"drop": "dropped", "expiry": "expired"}[event.kind]
    step.outcomes.append(Outcome(event.seq, event.kind, event.key, "applied"))
    step.marks.append(("question", event.key, status))


def _used(live: Live, step: Step, event: Row[Any]) -> None:
    step.outcomes.append(Outcome(event.seq, "used", event.key, "applied"))


def _mode(live: Live, step: Step, event: Row[Any]) -> None:
    live.mode = json.loads(event.body)["mode"]
    step.outcomes.append(Outcome(event.seq, "mode", event.key, "applied"))


def _snapshot(live: Live, step: Step, event: Row[Any]) -> None:
    label = json.loads(event.body)["label"]
    step.snapshots.append((live.version, label, live.body(), live.spec))
    about = {"version": live.version, "seq": event.seq, "label": label}
    step.outcomes.append(Outcome(event.seq, "snapshot", event.key, "applied", answer=about))


def _history(live: Live, step: Step, event: Row[Any]) -> None:
    seed(live.controller, json.loads(event.body)["events"])
    live.version = event.seq
    about = {"state_version": live.version}
    step.outcomes.append(Outcome(event.seq, "history", event.key, "applied", answer=about))


_OTHERS = {
    "history": _history,
    "drop": _dropped,
    "expiry": _dropped,
    "used": _used,
    "mode": _mode,
    "snapshot": _snapshot,
}


def question_of(event: Row[Any]) -> Any:
    """Return the question an event of the log asked."""
    return as_question(event.key, json.loads(event.body))


def body_of(event: Row[Any]) -> Mapping[str, Any]:
    """Return an event's body."""
    body: Mapping[str, Any] = json.loads(event.body)
    return body
