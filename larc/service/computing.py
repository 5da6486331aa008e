"""The one place where streams meet the model: many of them are read and updated together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from larc.errors import LarcError
from larc.service.live import Asked, Live
from larc.stream.controller import Answer
from larc.stream.question import LabelValue

Answers = list[Answer | LarcError]


def ask_all(asks: Sequence[tuple[Live, Sequence[Asked]]]) -> list[Answers]:
    """Put to each stream its questions; one that is refused harms no other."""
    return [_ask(live, questions) for live, questions in asks]


def learn_all(labels: Sequence[tuple[Live, Mapping[str, LabelValue]]]) -> list[LarcError | None]:
    """Give each stream its labels; returns what was refused, which then changed nothing."""
    done: list[LarcError | None] = []
    for live, values in labels:
        try:
            live.controller.learn(values)
            done.append(None)
        except LarcError as error:
            done.append(error)
    return done


def _ask(live: Live, questions: Sequence[Asked]) -> Answers:
    answers: Answers = []
    for one in questions:
        said = {name: [policy] for name, policy in one.experts.items()}
        try:
            answers += live.controller.ask([one.question], said, [one.context])
        except LarcError as error:
            answers.append(error)
    return answers
