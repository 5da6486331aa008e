"""Evaluations: a stream's log replayed with states kept, reset and sham."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.errors import LarcError
from larc.evaluation.bootstrap import bootstrap_intervals
from larc.service.identifiers import new_id
from larc.service.live import asked
from larc.service.problems import Problem
from larc.service.protocol import EvaluationBody, TemplateSpec, loss_of
from larc.service.store.database import Database, now
from larc.service.store.log import label_of
from larc.service.store.reading import history, stream_row
from larc.service.store.schema import evaluation, stream, worker
from larc.service.templates import Models
from larc.service.writer import Writer
from larc.stream.session import Session
from larc.stream.strategies import Strategy

STRATEGIES = (
    Strategy("kept"),
    Strategy("reset", retention="reset"),
    Strategy("sham", sham=True),
    Strategy("latest", retention="latest"),
)
#: The most evaluations of one stream at a time.
MOST = 4
#: How often an evaluation is begun that ends with its process: it may be what ends it.
ATTEMPTS = 3
_LEVEL = 0.95
LOG = logging.getLogger("larc.service")


@dataclass(frozen=True)
class Running:
    """An evaluation that somebody runs: of a stream's row, for the so-manieth time."""

    id: str
    stream: Row[Any]
    wish: EvaluationBody
    attempt: int = 1

    def body(self, worker: str | None) -> str:
        """Return what is kept of it while it runs, so that another worker can begin it again."""
        about = {"wish": self.wish.model_dump(), "worker": worker, "attempt": self.attempt}
        return json.dumps(about)


def begin_evaluation(
    connection: Connection, worker: str | None, name: str, wish: EvaluationBody
) -> Running:
    """Write down that a worker runs an evaluation; returns it, to be run once that is committed.

    Without a worker, the first that looks takes it over.
    """
    row = stream_row(connection, name)
    of_it = sa.select(sa.func.count()).where(
        evaluation.c.stream == row.id, evaluation.c.status == "running"
    )
    if connection.execute(of_it).scalar_one() >= MOST:
        raise Problem("too-many", f"{MOST} evaluations of the stream run.", retry_after=5.0)
    begun = Running(new_id(), row, wish, attempt=0 if worker is None else 1)
    connection.execute(
        sa.insert(evaluation).values(
            id=begun.id,
            stream=row.id,
            status="running",
            body=begun.body(worker),
            created_at=now(connection),
        )
    )
    return begun


def adopt_evaluations(connection: Connection, me: str, *, alone: bool) -> list[Running]:
    """Take over evaluations whose worker has died; one that was cut off too often has failed.

    Parameters
    ----------
    connection
        A transaction that writes.
    me
        The worker that takes them over.
    alone
        Whether no other worker can be alive.
    """
    rows = connection.execute(
        sa.select(evaluation.c.id, evaluation.c.stream, evaluation.c.body)
        .where(evaluation.c.status == "running")
        .order_by(evaluation.c.id)
        .with_for_update()
    ).all()
    if not rows:
        return []
    current = sa.select(worker.c.id).where(worker.c.until >= now(connection))
    alive = {me} if alone else set(connection.execute(current).scalars())
    adopted = []
    for row in rows:
        about = json.loads(row.body)
        if about.get("worker") in alive:
            continue
        if about.get("attempt", ATTEMPTS) >= ATTEMPTS:
            reason = f"the service ended {ATTEMPTS} times while it ran."
            keep_evaluation(connection, row.id, "failed", {"reason": reason})
            continue
        of_it = connection.execute(sa.select(stream).where(stream.c.id == row.stream)).one()
        again = Running(row.id, of_it, EvaluationBody(**about["wish"]), about["attempt"] + 1)
        connection.execute(
            sa.update(evaluation).where(evaluation.c.id == row.id).values(body=again.body(me))
        )
        adopted.append(again)
    return adopted


def keep_evaluation(
    connection: Connection, number: str, status: str, result: Mapping[str, Any]
) -> None:
    """Write down what came of an evaluation."""
    connection.execute(
        sa.update(evaluation)
        .where(evaluation.c.id == number)
        .values(status=status, body=json.dumps(result))
    )


def evaluate(
    models: Models, database: Database, writer: Writer, begun: Running
) -> Generator[None, None, None]:
    """Run an evaluation, and write down what came of it."""
    status = "done"
    try:
        result = yield from replay(models, database, begun.stream, begun.wish)
    except LarcError as error:
        status, result = "refused", {"reason": str(error)}
    except Exception as error:
        LOG.exception("an evaluation broke")
        what = f"the service could not compute it ({type(error).__name__})."
        status, result = "failed", {"reason": what}
    writer.submit(lambda connection: keep_evaluation(connection, begun.id, status, result)).result()


def replay(
    models: Models, database: Database, row: Row[Any], wish: EvaluationBody
) -> Generator[None, None, dict[str, Any]]:
    """Replay questions and labels in the order of the log, and compare the strategies' losses."""
    template, start = models.checked(row.spec)
    session = Session(models.learner(start, template.rule), STRATEGIES, seed=wish.seed)
    with database.reading() as connection:
        events = list(history(connection, row.id, 0, row.applied_seq))
    losses: list[list[float]] = []
    for label, of_it in replayed(session, template, events):
        if label is not None:
            losses.append(of_it)
        yield
    return summary(losses, wish)


def replayed(
    session: Session, template: TemplateSpec, events: Sequence[Row[Any]]
) -> Generator[tuple[Row[Any] | None, list[float]], None, None]:
    """Put events of a log to a session; yields each label with the strategies' losses under it.

    Events that judge nobody yield nothing but a pause. A label that was corrected since is learned
    as it came, and judges as it is right.
    """
    corrections = (e for e in events if (e.kind, e.status) == ("correction", "applied"))
    right = {one["question"]: one for one in (json.loads(e.body) for e in corrections)}
    policies: dict[str, dict[str, list[float]]] = {}
    early: dict[str, Row[Any]] = {}
    names = [one.name for one in session.strategies]
    for event in events:
        judged: tuple[Row[Any] | None, list[float]] = (None, [])
        if event.kind == "question" and event.status in ("awaited", "labelled"):
            one = asked(event, template)
            answers = session.ask([one.question])
            if event.key in early:  # its label was known before: it is learned, and counts nowhere
                body = json.loads(early.pop(event.key).body)
                session.learn({event.key: label_of(body, one.question)})
                continue
            policies[event.key] = {
                name: list(map(float, rows[0])) for name, rows in answers.items()
            }
        elif event.kind == "label" and event.status in ("applied", "scored"):
            if event.key not in session.pending:
                if event.status == "applied":
                    early[event.key] = event
                continue
            question = session.pending[event.key].question
            value = label_of(body := json.loads(event.body), question)
            final = label_of(right.get(event.key, body), question)
            answered = policies.pop(event.key)
            judged = (event, [loss_of(answered[name], final) for name in names])
            session.learn({event.key: value})
        yield judged


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
    shown = intervals(gains, seed=wish.seed, draws=wish.draws)
    return {
        "labels": len(table),
        "losses": dict(zip(names, table.mean(axis=0).tolist(), strict=True)),
        "gains": {
            name: interval for name, interval in zip(names, shown, strict=True) if name != "reset"
        },
    }


def intervals(gains: Any, *, seed: int, draws: int) -> list[dict[str, float]]:
    """Return the mean of each column of gains with an interval, from blocks of neighbours."""
    blocks = min(20, len(gains))
    means = np.array([part.mean(axis=0) for part in np.array_split(gains, blocks)])
    drawn = bootstrap_intervals(means, ["log"] * blocks, seed=seed, resamples=draws, level=_LEVEL)
    return [
        {
            "estimate": float(drawn.estimate[number]),
            "lower": float(drawn.lower[number]),
            "upper": float(drawn.upper[number]),
            "level": _LEVEL,
        }
        for number in range(gains.shape[1])
    ]
