"""The replay of a stream: one loop that can be stopped anywhere, and the tables that it fills.

Nothing here knows what is asked. A study supplies a player, which answers and learns, and events in
causal order; the loop saves, resumes to the same bytes, and counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import nested_weights
from larc.feedback import Label
from larc.io.parquet import to_parquet
from larc.progress import Display
from larc.runs.engines import Files
from larc.runs.stopping import stoppable
from larc.runs.units import Checkpoint, ModelUnit, counted, recount
from larc.state import SlowState
from larc.stream.experts import Expert
from larc.stream.question import Labelled, Question, Recorded, labels_of, questions_of
from larc.stream.queue import Arrive, Ask, order_events
from larc.stream.session import Session, SessionFull, SessionLimits
from larc.studies.fitting import fit_trainer
from larc.studies.settings import ReplaySettings
from larc.substrate import Substrate
from larc.training.base import AdamW
from larc.training.labels import LabelTrainer

Events = Sequence[Ask[Recorded] | Arrive[Recorded]]


class Player(Protocol):
    """What answers and learns in a replay, with everything that it has to save."""

    def ask(self, event: Ask[Recorded]) -> None:
        """Answer the questions of one moment."""

    def learn(self, event: Arrive[Recorded]) -> None:
        """Learn from the labels of one moment."""

    def save(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write everything that the next event depends on, and the loop's notes."""

    def restore(self, path: Path, questions: Sequence[Question]) -> dict[str, Any]:
        """Go back to what was saved; returns the notes."""


def replay(
    unit: ModelUnit, substrate: Substrate, player: Player, events: Events, display: Display
) -> None:
    """Play events in their order, from where the unit was stopped.

    What is saved at once: every so many events, when Ctrl-C is heard, and where a session is full.
    """
    checkpoint = Checkpoint(unit, "session.safetensors")
    done = 0
    if checkpoint.exists():
        asked = [item.question for event in events for item in event.items]
        notes = player.restore(checkpoint.path, asked)
        done = notes["done"]
        recount(substrate, notes)

    def save(number: int) -> None:
        if checkpoint.usable:
            player.save(checkpoint.path, {"done": number, **counted(substrate)})

    display.unit(unit.name, len(events), done)
    with stoppable() as stopped:
        for number, event in enumerate(events[done:], start=done + 1):
            try:
                player.ask(event) if isinstance(event, Ask) else player.learn(event)
            except SessionFull:
                save(number - 1)
                raise
            display.update(number)
            stop = stopped()  # asked once: it may be heard at any moment, also while saving
            if stop or checkpoint.due(number):
                save(number)
            if stop:
                raise KeyboardInterrupt


class PredictionTable:
    """Rows of predictions: who was asked what, when, and the probabilities of each strategy.

    Parameters
    ----------
    seed
        The unit's.
    levels
        What a stream and a group are called in the rows.
    """

    def __init__(self, seed: int, levels: tuple[str, str] = ("stream", "group")) -> None:
        self.seed = seed
        self.columns = ("seed", *levels, "name", "asked", "arrives", "label", "path", "policy")
        self.rows: list[list[Any]] = []

    def add(self, item: Recorded, strategy: str, policy: Sequence[float]) -> None:
        """Add what one strategy said to one question."""
        facts = [item.stream, item.group, item.name, item.asked, item.arrives, item.label]
        self.rows.append([self.seed, *facts, strategy, [float(p) for p in policy]])

    def add_all(self, items: Sequence[Recorded], answers: Mapping[str, Sequence[Any]]) -> None:
        """Add what every strategy said to every question of one moment."""
        for number, item in enumerate(items):
            for strategy, policies in answers.items():
                self.add(item, strategy, policies[number])

    def content(self) -> bytes:
        """Return the rows as Parquet."""
        return table_content(self.columns, self.rows)


def table_content(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return rows under their columns as Parquet."""
    return to_parquet([dict(zip(columns, row, strict=True)) for row in rows])


class SessionPlayer:
    """Plays a session beside an expert, and keeps what both said and what updates did.

    Parameters
    ----------
    session, expert
        Who answers; there may be no expert.
    predictions
        The table to fill.
    history
        Questions that were asked earlier and are not asked again, whose labels still arrive.
    """

    def __init__(
        self,
        session: Session,
        expert: Expert | None,
        predictions: PredictionTable,
        history: Sequence[Recorded] = (),
    ) -> None:
        self.session, self.expert, self.predictions = session, expert, predictions
        self.updates: list[list[Any]] = []
        self.ledger = session.learner.substrate.ledger
        if history:
            session.hold(questions_of(history))

    def ask(self, event: Ask[Recorded]) -> None:
        """Answer the questions of one moment."""
        questions = questions_of(event.items)
        with self.ledger.operation("read"):
            answers = self.session.ask(questions)
        others = self.expert.ask(questions) if self.expert else {}
        self.predictions.add_all(event.items, {**answers, **others})

    def learn(self, event: Arrive[Recorded]) -> None:
        """Learn from the labels of one moment."""
        with self.ledger.operation("update"):
            done = self.session.learn(labels_of(event.items))
        if self.expert:
            self.expert.learn([Labelled(item.question, item.right) for item in event.items])
        self.updates += [[event.time, name, u.loss, u.distance] for name, u in done.items()]

    def save(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write everything that the next event depends on."""
        progress = {"rows": self.predictions.rows, "updates": self.updates}
        self.session.save(path, {**progress, "reference": self._reference(), **notes})

    def restore(self, path: Path, questions: Sequence[Question]) -> dict[str, Any]:
        """Go back to what was saved."""
        notes: dict[str, Any] = self.session.restore(path, questions)
        self.predictions.rows, self.updates = notes["rows"], notes["updates"]
        if self.expert:
            self.expert.restore(notes["reference"])
        return notes

    def _reference(self) -> Any:
        return self.expert.state() if self.expert else None

    def files(self) -> Files:
        """Return the tables of predictions and of updates."""
        updates = table_content(("time", "path", "loss", "distance"), self.updates)
        return {"predictions.parquet": self.predictions.content(), "updates.parquet": updates}


def ordered(items: Sequence[Recorded]) -> Iterator[Ask[Recorded] | Arrive[Recorded]]:
    """Return the events of a queue; items carry their own times and names."""
    return order_events(
        items,
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    )


def ordered_after(history: Sequence[Recorded], items: Sequence[Recorded]) -> Events:
    """Return the events of a queue with those of its history that are still to come: labels."""
    earlier = {item.name for item in history}
    events: list[Ask[Recorded] | Arrive[Recorded]] = []
    for event in ordered([*history, *items]):
        if isinstance(event, Ask):
            now = tuple(item for item in event.items if item.name not in earlier)
            events += [Ask(event.time, now)] if now else []
        else:
            events.append(event)
    return events


def item_weights(items: Sequence[Recorded]) -> NDArray[np.float64]:
    """Return the weights of items: equal streams, groups within them, items within those."""
    return nested_weights(
        [item.stream for item in items],
        [item.group for item in items],
        [item.name for item in items],
    )


def session_limits(settings: ReplaySettings) -> SessionLimits:
    """Return what a session may hold."""
    return SessionLimits(settings.pending_limit, settings.total_limit)


def fit_labels(
    unit: ModelUnit,
    seed: int,
    substrate: Substrate,
    display: Display,
    start: SlowState,
    labels: Sequence[Label],
    weights: Sequence[float],
    share: float = 1.0,
) -> Files:
    """Train a slow state for a share of one epoch on weighted labels, from where it was stopped."""
    settings: ReplaySettings = unit.settings
    trainer = LabelTrainer(
        substrate,
        start,
        labels,
        weights,
        batch=settings.batch,
        seed=seed,
        outer=AdamW(learning_rate=settings.learning_rate),
        limits=settings.limits,
    )
    with substrate.ledger.operation("fit"):
        return fit_trainer(unit, trainer, round(share * trainer.epoch), substrate, display)
