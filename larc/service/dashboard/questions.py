"""What is shown of single questions: who answered what, and why the mixture answered as it did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.dashboard.history import corrections
from larc.service.dashboard.rendering import percent
from larc.service.problems import Problem
from larc.service.protocol import loss_of
from larc.service.store.log import REFUSED, as_question, label_of
from larc.service.store.schema import answer, event

#: Questions on one page.
PAGE = 25


@dataclass(frozen=True)
class Voice:
    """One predictor's part in an answer: its trust, its probabilities, its loss if there is one."""

    name: str
    weight: float
    policy: list[float]
    loss: float | None


@dataclass(frozen=True)
class QuestionView:
    """A question, its answer and its label."""

    id: str
    seq: int
    prompt: str
    candidates: list[str]
    context: str
    status: str
    reason: str | None
    asked_at: float
    mixture: list[float] | None
    shown: list[float] | None
    mode: str | None
    scored: bool
    version: int | None
    voices: list[Voice]
    label: int | None
    losses: list[float] | None
    loss: float | None
    labelled_at: float | None
    corrected: bool

    @property
    def top(self) -> int | None:
        """The mixture's first choice."""
        if self.mixture is None:
            return None
        return max(range(len(self.mixture)), key=self.mixture.__getitem__)

    @property
    def why(self) -> str:
        """Why the mixture answered as it did, in a sentence or two."""
        if self.mixture is None or self.top is None or not self.voices:
            return ""
        return why(self.voices, self.candidates, self.top, self.mixture[self.top])


def why(voices: Sequence[Voice], candidates: Sequence[str], top: int, probability: float) -> str:
    r"""Return who moved the mixture to its first choice.

    Examples
    --------
    >>> voices = [Voice("keep", 0.7, [0.9, 0.1], None), Voice("PRIOR", 0.3, [0.4, 0.6], None)]
    >>> print(why(voices, ["up", "down"], 0, 0.75).replace("\xa0", " "))
    The mixture gives “up” 75 %. keep has 70 % of the trust and gives it 90 %;
    PRIOR has 30 % and gives it 40 %. Most of its weight for “up” comes from keep. PRIOR preferred
    “down”.
    """
    ordered = sorted(voices, key=lambda one: -one.weight)
    parts = [
        f"{one.name} has {percent(one.weight)} {'of the trust ' if not number else ''}"
        f"and gives it {percent(one.policy[top])}"
        for number, one in enumerate(ordered[:3])
    ]
    lead = max(ordered, key=lambda one: one.weight * one.policy[top])
    text = (
        f"The mixture gives “{candidates[top]}” {percent(probability)}. {'; '.join(parts)}. "
        f"Most of its weight for “{candidates[top]}” comes from {lead.name}."
    )
    against = [one for one in ordered if max(one.policy) > one.policy[top] and one.weight >= 0.05]
    if against:
        other = against[0]
        choice = candidates[max(range(len(other.policy)), key=other.policy.__getitem__)]
        text += f" {other.name} preferred “{choice}”."
    return text


def list_questions(connection: Connection, number: int, before: int) -> list[QuestionView]:
    """Return questions of a stream, the last first, from before an event."""
    query = _query(number).order_by(event.c.seq.desc()).limit(PAGE)
    if before:
        query = query.where(event.c.seq < before)
    corrected = corrections(connection, number)
    return [_view(row, corrected) for row in connection.execute(query).all()]


def one_question(connection: Connection, number: int, name: str) -> QuestionView:
    """Return a question of a stream."""
    row = connection.execute(_query(number).where(event.c.key == name)).one_or_none()
    if row is None:
        raise Problem("not-found", "there is no such question.")
    return _view(row, corrections(connection, number))


def _query(number: int) -> sa.Select[Any]:
    label = event.alias("label")
    return (
        sa.select(
            event.c.seq,
            event.c.key,
            event.c.body,
            event.c.status,
            event.c.reason,
            event.c.received_at,
            answer.c.body.label("answer"),
            label.c.body.label("label"),
            label.c.status.label("label_status"),
            label.c.received_at.label("labelled_at"),
        )
        .join(
            answer,
            sa.and_(answer.c.stream == event.c.stream, answer.c.seq == event.c.seq),
            isouter=True,
        )
        .join(
            label,
            sa.and_(
                label.c.stream == event.c.stream,
                label.c.kind == "label",
                label.c.key == event.c.key,
            ),
            isouter=True,
        )
        .where(event.c.stream == number, event.c.kind == "question")
    )


def _view(row: Row[Any], corrected: Mapping[str, Mapping[str, Any]]) -> QuestionView:
    body = json.loads(row.body)
    given = None if row.answer is None else json.loads(row.answer)
    correction = corrected.get(row.key)
    value: int | tuple[float, ...] | None = None
    if row.label is not None and row.label_status in ("applied", "scored"):
        value = label_of(correction or json.loads(row.label), as_question(row.key, body))
    right = value.index(min(value)) if isinstance(value, tuple) else value
    voices = []
    if given is not None:
        voices = [
            Voice(
                name,
                given["weights"].get(name, 0.0),
                policy,
                None if value is None else loss_of(policy, value),
            )
            for name, policy in given["said"].items()
        ]
    mixture = None if given is None else given["mixture"]
    return QuestionView(
        id=row.key.split(":", 1)[1] if row.key.startswith(REFUSED) else row.key,
        seq=row.seq,
        prompt=body["prompt"],
        candidates=body["candidates"],
        context=body.get("context", ""),
        status=row.status,
        reason=row.reason,
        asked_at=row.received_at,
        mixture=mixture,
        shown=None if given is None else given["probabilities"],
        mode=None if given is None else given["mode"],
        scored=given is not None and given["scored"],
        version=None if given is None else given["state_version"],
        voices=voices,
        label=right,
        losses=list(value) if isinstance(value, tuple) else None,
        loss=None if value is None or mixture is None else loss_of(mixture, value),
        labelled_at=row.labelled_at,
        corrected=correction is not None,
    )
