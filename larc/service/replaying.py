"""Events that go back in a stream's log: rollback, and corrections that are learned again."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from larc.domains.ci.seeding import seed
from larc.errors import LarcError
from larc.io.hashes import hash_json
from larc.service.computing import ask_all, learn_all
from larc.service.lineage import Lineage, lineage
from larc.service.live import Live, asked
from larc.service.problems import Problem
from larc.service.store.database import Database
from larc.service.store.log import as_question, label_of
from larc.service.store.reading import history
from larc.service.store.results import Outcome, Step, load_snapshot
from larc.service.store.schema import answer, event, snapshot
from larc.service.templates import Models

Values = dict[str, int | tuple[float, ...]]


def relearn(
    models: Models, database: Database, live: Live, wish: Row[Any]
) -> Generator[None, None, Step]:
    """Let a rollback or a correction take effect; yields now and then, as others have to work."""
    body, before = json.loads(wish.body), live.spec
    step = Step(live.number, live.shard, live.applied, wish.seq)
    about: dict[str, Any] = {}
    if wish.kind == "rollback":
        yield from _rollback(models, database, live, wish, body["version"], replay=body["replay"])
        live.version = wish.seq
    elif wish.kind == "move":
        # Its state until now is kept: a rollback to it brings the slow state back, too.
        step.snapshots.append((live.version, f"before {body['slow_state']}", live.body(), before))
        spec = models.moved(before, body["slow_state"], body["digest"])
        past = _past(database, live, wish)
        yield from _rollback(models, database, live, wish, 0, replay=True, spec=spec, past=past)
        live.version = wish.seq
    else:
        _correct_ledger(database, live, wish, body)
        if body["relearn"]:
            past = _past(database, live, wish)
            start = _snapshot_before(database, live, _seq_of_label(database, live, body), past)
            # It is learned now, whatever was taken back of it before.
            past = replace(past, again=past.again | {body["question"]})
            yield from _rollback(models, database, live, wish, start, replay=True, past=past)
            live.version = wish.seq
    about["state_version"] = live.version
    live.applied = wish.seq
    step.outcomes.append(Outcome(wish.seq, wish.kind, wish.key, "applied", answer=about))
    step.values = live.values()
    if live.spec != before:
        step.values |= {"spec": live.spec, "digest": hash_json(json.loads(live.spec))}
    step.body = live.body()
    return step


def _rollback(
    models: Models,
    database: Database,
    live: Live,
    wish: Row[Any],
    version: int,
    *,
    replay: bool,
    spec: str = "",
    past: Lineage | None = None,
) -> Generator[None, None, None]:
    """Go back to a version, and either learn again what came after, or only await it.

    What is no part of a past that is given is not learned again.
    """
    seq, content, spec, past = 0, None, spec or live.spec, past or Lineage()
    with database.reading() as connection:
        if version:
            kept = load_snapshot(connection, live.number, version)
            if kept is None:
                raise Problem("not-found", f"there is no snapshot of version {version}.")
            seq, spec, content = kept.seq, kept.spec, kept.body
        template, start = models.checked(spec)
        controller = models.controller(template, start, live.number)
        if content is not None:
            controller.from_bytes(content)
        awaited = set(live.controller.session.pending)
        corrected = _corrections(connection, live.number, wish)
        moved = {"spec": spec, "template": template, "start": start, "controller": controller}
        gone = Live(**{**live.__dict__, **moved})
        early: dict[str, Row[Any]] = {}
        for row, further in _batches(history(connection, live.number, seq, wish.seq - 1), gone):
            if row.kind == "question" and row.status in (
                "awaited",
                "labelled",
                "dropped",
                "expired",
            ):
                if replay:
                    _check(ask_all([(gone, [asked(row, template)])])[0][0])
                    if row.key in early:  # known before its question: learned, and nobody judged
                        label = early.pop(row.key)
                        if past.learned(row.seq, row.key):
                            controller.forecaster.drop([row.key])
                            _learn(gone, [label], corrected)
                        else:
                            controller.drop([row.key])
                elif row.key in awaited:
                    controller.session.hold([as_question(row.key, json.loads(row.body))])
            elif row.kind == "history":
                if row.status == "applied" and replay and past.learned(row.seq, row.key):
                    seed(controller, json.loads(row.body)["events"])
            elif row.key not in controller.session.pending:
                if row.kind == "label" and row.status == "applied":
                    early[row.key] = row
                continue
            elif row.kind == "label" and row.status == "applied" and replay:
                learned = []
                for one in (row, *further):
                    if past.learned(one.seq, one.key):
                        learned.append(one)
                    else:
                        controller.drop([one.key])
                if learned:
                    _learn(gone, learned, corrected)
            elif row.kind in ("label", "drop", "expiry"):
                controller.drop([row.key])
            yield
    live.spec, live.template, live.start = spec, template, start
    live.controller = controller


def _batches(
    rows: Iterable[Row[Any]], live: Live
) -> Iterator[tuple[Row[Any], tuple[Row[Any], ...]]]:
    """Yield events, each with the labels that were learned as one batch with it: of one second."""

    def batch(row: Row[Any]) -> Any:
        together = live.template.domain and (row.kind, row.status) == ("label", "applied")
        return row.occurred_at if together and row.occurred_at is not None else (row.seq,)

    for _, group in groupby(rows, key=batch):
        first, *further = group
        answered = [one.key in live.controller.session.pending for one in further]
        if all(answered):
            yield first, tuple(further)
        else:
            for one in (first, *further):
                yield one, ()


def _learn(
    live: Live, labels: Sequence[Row[Any]], corrected: Mapping[str, Mapping[str, Any]]
) -> None:
    """Learn labels of the log again, as they were corrected last."""
    values: Values = {}
    for label in labels:
        question = live.controller.session.pending[label.key].question
        body = corrected.get(label.key) or json.loads(label.body)
        values[label.key] = label_of(body, question)
    _check(learn_all([(live, values)])[0])


def _corrections(connection: Any, number: int, wish: Row[Any]) -> dict[str, Mapping[str, Any]]:
    """Return the last correction of each question, this wish's among them."""
    rows = connection.execute(
        sa.select(event.c.body)
        .where(event.c.stream == number, event.c.kind == "correction", event.c.seq <= wish.seq)
        .where(event.c.status != "refused")
        .order_by(event.c.seq)
    ).scalars()
    bodies = [json.loads(body) for body in rows]
    return {body["question"]: body for body in bodies}


def _correct_ledger(
    database: Database, live: Live, wish: Row[Any], body: Mapping[str, Any]
) -> None:
    """Count the answer's losses under the label that is right, instead of the one that was."""
    name = body["question"]
    with database.reading() as connection:
        of_it = sa.select(event).where(event.c.stream == live.number)
        asked_row = connection.execute(
            of_it.where(event.c.kind == "question", event.c.key == name)
        ).one()
        label = connection.execute(
            of_it.where(event.c.kind == "label", event.c.key == name)
        ).one_or_none()
        if label is None or label.status not in ("applied", "scored"):
            raise Problem("not-labelled", f"{name!r} has no label that took effect.")
        before = connection.execute(
            of_it.where(
                event.c.kind == "correction",
                event.c.seq < wish.seq,
                event.c.status == "applied",
            ).order_by(event.c.seq)
        ).all()
        given = connection.execute(
            sa.select(answer.c.body).where(
                answer.c.stream == live.number, answer.c.question == name
            )
        ).scalar()
    question = as_question(name, json.loads(asked_row.body))
    earlier = [json.loads(one.body) for one in before]
    old = next(
        (one for one in reversed(earlier) if one["question"] == name), json.loads(label.body)
    )
    if given is not None:
        live.score(json.loads(given), label_of(old, question), by=-1)
        live.score(json.loads(given), label_of(body, question))


def _seq_of_label(database: Database, live: Live, body: Mapping[str, Any]) -> int:
    with database.reading() as connection:
        query = sa.select(event.c.seq).where(
            event.c.stream == live.number,
            event.c.kind == "label",
            event.c.key == body["question"],
        )
        return int(connection.execute(query).scalar_one())


def _past(database: Database, live: Live, wish: Row[Any]) -> Lineage:
    with database.reading() as connection:
        return lineage(history(connection, live.number, 0, wish.seq - 1))


def _snapshot_before(database: Database, live: Live, seq: int, past: Lineage) -> int:
    """Return the last version of this past that was kept before an event; 0 is the beginning."""
    with database.reading() as connection:
        query = sa.select(snapshot.c.version).where(
            snapshot.c.stream == live.number,
            snapshot.c.seq < seq,
            snapshot.c.spec == live.spec,
        )
        kept = connection.execute(query).scalars()
        return max((int(version) for version in kept if past.holds(int(version))), default=0)


def _check(result: Any) -> None:
    """Raise what was refused."""
    if isinstance(result, LarcError):
        raise result
