"""What studies of late labels share: slow training on labels, and a replay that can stop anywhere.

Nothing here knows what is asked. A study supplies labelled prompts to train on, a session of paths,
and a reference that needs no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import nested_weights
from larc.label_training import LabelTrainer
from larc.progress import Display
from larc.scoring import Label
from larc.state import SlowState
from larc.stream.items import Item
from larc.stream.queue import Arrive, Ask, order_events
from larc.stream.session import Session, SessionFull, SessionLimits
from larc.studies.engines import Files
from larc.studies.options import ReplaySettings
from larc.studies.parquet import to_parquet
from larc.studies.runs import as_json
from larc.studies.units import Unit, counted, recount
from larc.substrate import Substrate
from larc.trainer import AdamW

CHECKPOINT_EVERY = 16


class Seeded(Unit, Protocol):
    """A unit of work that draws from a seed."""

    @property
    def seed(self) -> int:
        """What its random streams come from."""


class Reference(Protocol):
    """Answers beside the paths of a session, at the same times, without a model."""

    def ask(self, items: Sequence[Item]) -> Mapping[str, Sequence[Sequence[float]]]:
        """Return probabilities for questions asked now, by the name of who gives them."""

    def arrive(self, items: Sequence[Item]) -> None:
        """Learn from labels that arrive together."""

    def state(self) -> Any:
        """Return everything the next event depends on, as JSON values."""

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""


def ordered(items: Sequence[Item]) -> Iterator[Ask[Item] | Arrive[Item]]:
    """Return the events of a queue; items carry their own times and names."""
    return order_events(
        items,
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    )


def item_weights(items: Sequence[Item]) -> NDArray[np.float64]:
    """Return the weights of items: equal streams, groups within them, items within those."""
    return nested_weights(
        [item.stream for item in items],
        [item.group for item in items],
        [item.name for item in items],
    )


def session_limits(settings: ReplaySettings) -> SessionLimits:
    """Return what a session may hold."""
    return SessionLimits(settings.pending_limit, settings.total_limit)


class Checkpoint:
    """Where a unit saves what it has so far, if it has such a place.

    A worker on another machine has none, and does its unit in one go.
    """

    def __init__(self, work: Unit, name: str) -> None:
        self.path = Path(work.scratch) / name
        self.usable = bool(work.scratch) and self.path.parent.is_dir()

    def exists(self) -> bool:
        """Whether the unit was stopped after saving something."""
        return self.usable and self.path.exists()

    def due(self, number: int) -> bool:
        """Whether to save after so many steps.

        What is saved grows with the work done, so from 64 savings on they become rarer with it.
        """
        often = CHECKPOINT_EVERY << (number // (64 * CHECKPOINT_EVERY)).bit_length()
        return self.usable and number % often == 0


def fit_labels(
    work: Seeded,
    substrate: Substrate,
    display: Display,
    start: SlowState,
    labels: Sequence[Label],
    weights: Sequence[float],
) -> Files:
    """Train a slow state for one epoch on weighted labels, going on where it was stopped."""
    settings: ReplaySettings = work.settings
    trainer = LabelTrainer(
        substrate,
        start,
        labels,
        weights,
        batch=settings.batch,
        seed=work.seed,
        outer=AdamW(learning_rate=settings.learning_rate),
        limits=settings.limits,
    )
    losses: list[float] = []
    checkpoint = Checkpoint(work, "checkpoint.safetensors")
    if checkpoint.exists():
        notes = trainer.restore(checkpoint.path)
        losses = notes["losses"]
        recount(substrate, notes)
    display.unit(work.name, trainer.epoch, trainer.updates)
    with substrate.ledger.operation("fit"):
        while trainer.updates < trainer.epoch:
            losses.append(trainer.advance())
            display.update(trainer.updates, losses[-1])
            if checkpoint.due(trainer.updates):
                trainer.save(checkpoint.path, {"losses": losses, **counted(substrate)})
    return {"slow.safetensors": trainer.slow.to_bytes(), "curve.json": as_json(losses)}


def replay(
    work: Seeded,
    session: Session,
    items: Sequence[Item],
    reference: Reference,
    display: Display,
    *,
    history: Sequence[Item] = (),
    levels: tuple[str, str] = ("stream", "group"),
) -> Files:
    """Ask every item of one stream of all paths and the reference, in causal order.

    Parameters
    ----------
    work
        The unit this is; it goes on where it was stopped, to the same bytes.
    session, reference
        Who answers.
    items
        What is asked.
    history
        Questions that were asked earlier and are not asked again, whose labels still arrive.
    levels
        What a stream and a group are called in the rows of predictions.
    """
    substrate = session.learner.substrate
    rows: list[list[Any]] = []
    updates: list[list[Any]] = []
    done = 0
    checkpoint = Checkpoint(work, "session.safetensors")
    if checkpoint.exists():
        notes = session.restore(checkpoint.path)
        done, rows, updates = notes["done"], notes["rows"], notes["updates"]
        reference.restore(notes["reference"])
        recount(substrate, notes)
    elif history:
        session.hold(history)

    def save(number: int) -> None:
        notes = {"done": number, "rows": rows, "updates": updates, "reference": reference.state()}
        session.save(checkpoint.path, {**notes, **counted(substrate)})

    events = list(_events(items, history))
    display.unit(work.name, len(events), done)
    for number, event in enumerate(events[done:], start=done + 1):
        if isinstance(event, Ask):
            try:
                with substrate.ledger.operation("read"):
                    answers = session.ask(event.items)
            except SessionFull:
                if checkpoint.usable:
                    save(number - 1)
                raise
            said = {**answers, **reference.ask(event.items)}
            rows += [
                [*_about(work.seed, item), name, [float(p) for p in policies[place]]]
                for place, item in enumerate(event.items)
                for name, policies in said.items()
            ]
        else:
            with substrate.ledger.operation("update"):
                made = session.arrive(event.items)
            reference.arrive(event.items)
            updates += [[event.time, name, u.loss, u.distance] for name, u in made.items()]
        display.update(number, 0.0)
        if checkpoint.due(number):
            save(number)
    columns = ("seed", *levels, "name", "asked", "arrives", "label", "path", "policy")
    return {
        "predictions.parquet": _table(columns, rows),
        "updates.parquet": _table(("time", "path", "loss", "distance"), updates),
    }


def _events(items: Sequence[Item], history: Sequence[Item]) -> Iterator[Ask[Item] | Arrive[Item]]:
    earlier = {item.name for item in history}
    for event in ordered([*history, *items]):
        if isinstance(event, Ask):
            now = tuple(item for item in event.items if item.name not in earlier)
            if now:
                yield Ask(event.time, now)
        else:
            yield event


def _about(seed: int, item: Item) -> list[Any]:
    return [seed, item.stream, item.group, item.name, item.asked, item.arrives, item.label]


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    return to_parquet([dict(zip(columns, row, strict=True)) for row in rows])
