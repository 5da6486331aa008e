"""What a stream has answered and how it turned out, read from the log; no model is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.protocol import loss_of
from larc.service.store.log import as_question, label_of
from larc.service.store.schema import answer, event
from larc.service.templates import MIXTURE

#: How many labels, counted from the last, are looked at.
LAST = 1000


@dataclass(frozen=True)
class Point:
    """A question whose label took effect.

    Attributes
    ----------
    seq, asked_seq
        The numbers of the label's event and of the question's.
    id
        The question's.
    asked_at, labelled_at
        When both were received.
    label
        The text of the candidate that was right, or cost least.
    probability
        What the mixture gave it.
    top, hit
        The mixture's highest probability, and whether that candidate was right.
    losses
        Of each predictor that answered, and of the mixture.
    gains
        How much less than the mixture each predictor lost in the game that trust is learned in,
        where the label is the candidate that cost least.
    weights
        The trust in each predictor when the question was asked.
    judged
        Whether trust learned from it: not while the stream was frozen.
    """

    seq: int
    asked_seq: int
    id: str
    asked_at: float
    labelled_at: float
    label: str
    probability: float
    top: float
    hit: bool
    losses: Mapping[str, float]
    gains: Mapping[str, float]
    weights: Mapping[str, float]
    judged: bool


def points(connection: Connection, number: int, last: int = LAST) -> list[Point]:
    """Return the last labels of a stream that count, in the order they took effect."""
    asked = event.alias("asked")
    rows = connection.execute(
        sa.select(
            event.c.seq,
            event.c.key,
            event.c.body,
            event.c.status,
            event.c.received_at,
            asked.c.seq.label("asked_seq"),
            asked.c.body.label("question"),
            asked.c.received_at.label("asked_at"),
            answer.c.body.label("answer"),
        )
        .join(
            asked,
            sa.and_(
                asked.c.stream == event.c.stream,
                asked.c.kind == "question",
                asked.c.key == event.c.key,
            ),
        )
        .join(answer, sa.and_(answer.c.stream == event.c.stream, answer.c.question == event.c.key))
        .where(
            event.c.stream == number,
            event.c.kind == "label",
            event.c.status.in_(("applied", "scored")),
            answer.c.scored,
        )
        .order_by(event.c.seq.desc())
        .limit(last)
    ).all()
    corrected = corrections(connection, number)
    return [point(row, corrected.get(row.key)) for row in reversed(rows)]


def corrections(connection: Connection, number: int) -> dict[str, Mapping[str, Any]]:
    """Return the last correction of each question that has one."""
    rows = connection.execute(
        sa.select(event.c.body)
        .where(event.c.stream == number, event.c.kind == "correction", event.c.status == "applied")
        .order_by(event.c.seq)
    ).scalars()
    bodies = [json.loads(body) for body in rows]
    return {body["question"]: body for body in bodies}


def point(row: Row[Any], corrected: Mapping[str, Any] | None) -> Point:
    """Return how one answer turned out."""
    question = as_question(row.key, json.loads(row.question))
    value = label_of(corrected or json.loads(row.body), question)
    given = json.loads(row.answer)
    answers = {**given["said"], MIXTURE: given["mixture"]}
    right = value if isinstance(value, int) else value.index(min(value))
    mixture = given["mixture"]
    top = max(range(len(mixture)), key=mixture.__getitem__)
    game = {name: loss_of(policy, right) for name, policy in answers.items()}
    return Point(
        seq=row.seq,
        asked_seq=row.asked_seq,
        id=row.key,
        asked_at=row.asked_at,
        labelled_at=row.received_at,
        label=question.candidates[right],
        probability=mixture[right],
        top=mixture[top],
        hit=top == right,
        losses={name: loss_of(policy, value) for name, policy in answers.items()},
        gains={name: game[MIXTURE] - game[name] for name in given["said"]},
        weights=given["weights"],
        judged=row.status == "applied",
    )


@dataclass(frozen=True)
class Roles:
    """Which predictors of a stream play which part; None where the template has no such."""

    kept: str | None
    reset: str | None
    sham: str | None


def roles(spec: Mapping[str, Any]) -> Roles:
    """Return who is kept, reset and sham among the strategies of a stream's template.

    Examples
    --------
    >>> from larc.service.templates import BUILT_IN
    >>> roles(BUILT_IN["sham"].model_dump())
    Roles(kept='keep', reset='reset', sham='sham')
    """

    def first(retention: str, sham: bool) -> str | None:
        fitting = (
            one["name"]
            for one in spec["strategies"]
            if one["retention"] == retention and one["sham"] == sham
        )
        return next(fitting, None)

    return Roles(first("keep", False), first("reset", False), first("keep", True))


def predictors(history: Sequence[Point]) -> list[str]:
    """Return the names of all who answered, in the order they first did."""
    return list(dict.fromkeys(name for one in history for name in one.gains))


def rolled_back(connection: Connection, number: int) -> int:
    """Return the number of the last event that a stream went back by, or 0."""
    rows = connection.execute(
        sa.select(event.c.seq, event.c.kind, event.c.body)
        .where(
            event.c.stream == number,
            event.c.kind.in_(("rollback", "correction", "move")),
            event.c.status == "applied",
        )
        .order_by(event.c.seq.desc())
    )
    for row in rows:
        if row.kind != "correction" or json.loads(row.body)["relearn"]:
            return int(row.seq)
    return 0
