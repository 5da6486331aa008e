"""Evaluations: a stream's log replayed with states kept, reset and sham."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.errors import LarcError
from larc.evaluation.bootstrap import bootstrap_intervals
from larc.service.engine import Engine
from larc.service.identifiers import new_id
from larc.service.live import asked
from larc.service.protocol import EvaluationBody, loss_of
from larc.service.store.database import now
from larc.service.store.log import label_of
from larc.service.store.reading import history, stream_row
from larc.service.store.schema import evaluation
from larc.stream.session import Session
from larc.stream.strategies import Strategy

STRATEGIES = (
    Strategy("kept"),
    Strategy("reset", retention="reset"),
    Strategy("sham", sham=True),
    Strategy("latest", retention="latest"),
)
_LEVEL = 0.95


def begin_evaluation(
    engine: Engine, connection: Connection, name: str, wish: EvaluationBody
) -> str:
    """Write down that an evaluation runs, and start it; returns its id."""
    row = stream_row(connection, name)
    number = new_id()
    connection.execute(
        sa.insert(evaluation).values(
            id=number, stream=row.id, status="running", body="{}", created_at=now(connection)
        )
    )
    engine.run(_evaluate(engine, row, number, wish))
    return number


def _evaluate(
    engine: Engine, row: Row[Any], number: str, wish: EvaluationBody
) -> Generator[None, None, None]:
    status = "done"
    try:
        result = yield from replay(engine, row, wish)
    except LarcError as error:
        status, result = "refused", {"reason": str(error)}

    def keep(connection: Connection) -> None:
        connection.execute(
            sa.update(evaluation)
            .where(evaluation.c.id == number)
            .values(status=status, body=json.dumps(result))
        )

    engine.writer.submit(keep).result()


def replay(
    engine: Engine, row: Row[Any], wish: EvaluationBody
) -> Generator[None, None, dict[str, Any]]:
    """Replay questions and labels in the order of the log, and compare the strategies' losses."""
    template, start = engine.models.checked(row.spec)
    session = Session(engine.models.learner(start, template.rule), STRATEGIES, seed=wish.seed)
    said: dict[str, dict[str, list[float]]] = {}
    early: dict[str, Row[Any]] = {}
    losses: list[list[float]] = []
    with engine.database.reading() as connection:
        events = list(history(connection, row.id, 0, row.applied_seq))
    for event in events:
        if event.kind == "question" and event.status in ("awaited", "labelled"):
            one = asked(event, template)
            answers = session.ask([one.question])
            if event.key in early:  # its label was known before: it is learned, and counts nowhere
                body = json.loads(early.pop(event.key).body)
                session.learn({event.key: label_of(body, one.question)})
                continue
            said[event.key] = {name: list(map(float, rows[0])) for name, rows in answers.items()}
        elif event.kind == "label" and event.status in ("applied", "scored"):
            if event.key not in session.pending:
                if event.status == "applied":
                    early[event.key] = event
                continue
            value = label_of(json.loads(event.body), session.pending[event.key].question)
            answered = said.pop(event.key)
            losses.append([loss_of(answered[one.name], value) for one in STRATEGIES])
            session.learn({event.key: value})
        yield
    return summary(losses, wish)


def summary(losses: Sequence[Sequence[float]], wish: EvaluationBody) -> dict[str, Any]:
    """Return mean losses, and what each strategy gained over reset with an interval.

    Labels are drawn in twenty blocks of neighbours, which are alike.

    Examples
    --------
    >>> result = summary([[0.1, 0.2, 0.2, 0.1]] * 40, EvaluationBody())
    >>> round(result["gains"]["kept"]["estimate"], 6), result["labels"]
    (0.1, 40)
    """
    names = [one.name for one in STRATEGIES]
    if not losses:
        return {"labels": 0, "losses": {}, "gains": {}}
    table = np.array(losses)
    reset = names.index("reset")
    gains = table[:, [reset]] - table
    blocks = min(20, len(table))
    means = np.array([part.mean(axis=0) for part in np.array_split(gains, blocks)])
    intervals = bootstrap_intervals(
        means, ["log"] * blocks, seed=wish.seed, resamples=wish.draws, level=_LEVEL
    )
    return {
        "labels": len(table),
        "losses": dict(zip(names, table.mean(axis=0).tolist(), strict=True)),
        "gains": {
            name: {
                "estimate": float(intervals.estimate[number]),
                "lower": float(intervals.lower[number]),
                "upper": float(intervals.upper[number]),
                "level": _LEVEL,
            }
            for number, name in enumerate(names)
            if name != "reset"
        },
    }
