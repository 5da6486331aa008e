"""A new slow state from the service's own logs: trained until a time, judged after it, offered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.errors import LarcError
from larc.service.evaluating import STRATEGIES, intervals, replayed
from larc.service.lineage import lineage
from larc.service.protocol import TemplateSpec, is_name
from larc.service.store.database import Database
from larc.service.store.log import as_question, label_of
from larc.service.store.offers import check_unused, keep_offer, offer_named, offered
from larc.service.store.reading import history, matching
from larc.service.store.schema import stream
from larc.service.templates import Models, Start
from larc.state import SlowState
from larc.stream.question import Recorded
from larc.stream.session import Session
from larc.training import AdamW, train_streams

#: What is judged: learned, untouched, and learned from permuted labels.
JUDGED = ("kept", "reset", "sham")
Labels = dict[str, tuple[float, Row[Any], Mapping[str, Any]]]


@dataclass(frozen=True)
class RetrainSettings:
    """How a slow state is trained anew.

    Attributes
    ----------
    name
        What it is offered as.
    until
        Labels received by then are trained on, later ones judge. Seconds since 1970, by the
        database's clock.
    streams
        Globs of the streams whose logs are used.
    model, state
        The running slow state, which may be an offered one: where training starts, and what the
        new one is compared with.
    updates, window, batch, learning_rate, seed
        As in `larc.train_streams`.
    draws
        Of the bootstrap.
    """

    name: str
    until: float
    streams: tuple[str, ...] = ("*",)
    model: str = ""
    state: str = ""
    updates: int = 64
    window: int = 32
    batch: int = 2
    learning_rate: float = 1e-3
    seed: int = 1
    draws: int = 1000


def retrain(
    models: Models,
    database: Database,
    settings: RetrainSettings,
    done: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Train a slow state on logs, judge it on what came later, and offer it; returns the result.

    Nothing changes for any stream. What cannot be is refused before the training.

    Parameters
    ----------
    models
        The models and slow states of the service.
    database
        Its logs.
    settings
        How.
    done
        Told the number of each update.
    """
    if not is_name(settings.name):
        raise LarcError(f"{settings.name!r} is no name; give letters, digits, dots and dashes.")
    if settings.name in {one.state for one in models.starts}:
        raise LarcError(f"the service has a slow state {settings.name!r}; name it otherwise.")
    if settings.updates < 1:
        raise LarcError(f"updates is {settings.updates}; give a whole number, 1 or more.")
    if not np.isfinite(settings.until):
        raise LarcError(f"{settings.until} is no time; give seconds since 1970.")
    start = _running(models.with_offers(partial(offered, database)), database, settings)
    with database.reading() as connection:
        check_unused(connection, settings.name)
        rows = _streams(connection, start, settings.streams)
        logs = [_recorded(connection, row, settings.until) for row in rows]
    taught = [log for log in logs if _teaches(log)]
    if not taught:
        raise LarcError(
            f"no stream of {start.model} with {start.state} has two labels received by "
            f"{settings.until:.0f}, one of them before a later question; give a later time."
        )
    slow = train_streams(
        start.substrate,
        taught,
        window=settings.window,
        updates=settings.updates,
        batch=settings.batch,
        rule=models.learner(start).rule,
        seed=settings.seed,
        slow=start.slow,
        outer=AdamW(settings.learning_rate),
        on_update=None if done is None else lambda number, _: done(number),
    )
    result = judge(models, database, rows, start, slow, settings)
    result |= {"trained_on": sum(map(len, taught)), "streams": len(taught)}
    with database.writing() as connection:
        keep_offer(connection, settings.name, slow, start.slow.digest, settings.until, result)
    return {"name": settings.name, "digest": slow.digest, "parent": start.slow.digest, **result}


def _running(models: Models, database: Database, settings: RetrainSettings) -> Start:
    """Return what the streams run on: a state of the service's start, or one offered since."""
    if settings.state and settings.state not in {one.state for one in models.starts}:
        with database.reading() as connection:
            row = offer_named(connection, settings.state)
        start = None if row is None else models.known(row.digest, row.substrate)
        if start is not None and settings.model in ("", start.model):
            return start
    return models.start(TemplateSpec(model=settings.model, slow_state=settings.state))


def _streams(connection: Connection, start: Start, globs: Sequence[str]) -> list[Row[Any]]:
    """Return the streams of a slow state; those of CI jobs have prompts of another kind."""
    query = sa.select(stream).where(matching(globs, connection.dialect.name)).order_by(stream.c.id)
    kept = []
    for row in connection.execute(query):
        spec = json.loads(row.spec)
        same = (spec["slow"], spec["substrate"]) == (start.slow.digest, start.slow.substrate)
        if same and not spec.get("domain"):
            kept.append(row)
    return kept


def known_labels(events: Iterator[Row[Any]], until: float) -> Labels:
    """Return what was known by a time: each question's event with its label, and when that came.

    A correction that had come by then counts in the place of the label, and comes when it came.
    What a rollback had taken back by then is not known.
    """
    asked: dict[str, Row[Any]] = {}
    labels: dict[str, Row[Any]] = {}
    corrected: dict[str, Row[Any]] = {}
    come = [event for event in events if event.received_at <= until]
    past = lineage(come)
    for event in come:
        if event.kind == "question" and event.status in ("awaited", "labelled"):
            asked[event.key] = event
        elif event.kind == "label" and event.status in ("applied", "scored"):
            labels[event.key] = event
        elif event.kind == "correction" and event.status == "applied":
            corrected[json.loads(event.body)["question"]] = event
    known: Labels = {}
    for name in sorted(set(asked) & set(labels), key=lambda one: asked[one].seq):
        last = corrected.get(name, labels[name])
        if not past.learned(max(labels[name].seq, asked[name].seq), name):
            continue
        known[name] = (float(max(last.seq, asked[name].seq)), asked[name], json.loads(last.body))
    return known


def _recorded(connection: Connection, row: Row[Any], until: float) -> list[Recorded]:
    """Return what a stream had been asked and told by a time, in the order of its log."""
    items = []
    for arrived, asked, body in known_labels(
        history(connection, row.id, 0, row.applied_seq), until
    ).values():
        question = as_question(asked.key, json.loads(asked.body))
        value = label_of(body, question)
        index = value if isinstance(value, int) else int(np.argmin(value))
        # An early label is known as soon as its question is there.
        arrives = max(arrived, asked.seq + 0.5)
        items.append(Recorded(question, float(asked.seq), arrives, index, stream=row.name))
    return items


def _teaches(items: Sequence[Recorded]) -> bool:
    """Whether a label of a stream arrives before a later question."""
    first = min((one.arrives for one in items if one.arrives is not None), default=np.inf)
    return len(items) > 1 and any(one.asked > first for one in items)


def judge(
    models: Models,
    database: Database,
    rows: Sequence[Row[Any]],
    start: Start,
    slow: SlowState,
    settings: RetrainSettings,
) -> dict[str, Any]:
    """Compare a new slow state with the running one on labels received after a time.

    Both replay each stream's whole log as it happened; only later labels count.
    """
    table: list[list[float]] = []
    starts = (start, Start(start.substrate, slow, start.model, settings.name))
    for row in rows:
        losses = [_later(models, database, row, one, settings) for one in starts]
        table += [[*before, *after] for before, after in zip(*losses, strict=True)]
    if not table:
        return {"labels": 0, "running": {}, "new": {}, "gains": {}}
    losses_of = np.array(table)
    means, count = losses_of.mean(axis=0), len(JUDGED)
    gains = losses_of[:, :count] - losses_of[:, count:]
    shown = intervals(gains, seed=settings.seed, draws=settings.draws)
    return {
        "labels": len(table),
        "running": dict(zip(JUDGED, means[:count].tolist(), strict=True)),
        "new": dict(zip(JUDGED, means[count:].tolist(), strict=True)),
        "gains": dict(zip(JUDGED, shown, strict=True)),
    }


def _later(
    models: Models, database: Database, row: Row[Any], start: Start, settings: RetrainSettings
) -> list[list[float]]:
    """Return the losses of a stream's later labels from a slow state, by strategy."""
    kept = json.loads(row.spec)
    template = TemplateSpec(**{k: v for k, v in kept.items() if k not in ("slow", "substrate")})
    chosen = [one for one in STRATEGIES if one.name in JUDGED]
    session = Session(models.learner(start, template.rule), chosen, seed=settings.seed)
    with database.reading() as connection:
        events = list(history(connection, row.id, 0, row.applied_seq))
    return [
        losses
        for label, losses in replayed(session, template, events)
        if label is not None and label.received_at > settings.until
    ]
