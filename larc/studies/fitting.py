"""Slow training inside a unit: from where it was stopped, saved on the way, with its cost."""

from __future__ import annotations

from larc.io.json_files import as_json
from larc.progress import Display
from larc.runs.engines import Files
from larc.runs.stopping import stoppable
from larc.runs.units import Checkpoint, ModelUnit, counted, recount
from larc.substrate import Substrate
from larc.training.base import SlowTrainer


def fit_trainer(
    unit: ModelUnit,
    trainer: SlowTrainer,
    updates: int,
    substrate: Substrate,
    display: Display,
    *,
    every: int | None = None,
) -> Files:
    """Train to a number of updates, from where the unit was stopped.

    Parameters
    ----------
    unit, trainer, updates
        Whose training it is, what trains, and to how many updates.
    substrate, display
        Whose work is counted, and where progress is shown.
    every
        After how many updates it is saved; by default ever more rarely, as `Checkpoint.due` says.

    Returns
    -------
    dict
        The files of the state that was trained, and of the losses on the way.
    """
    losses: list[float] = []
    checkpoint = Checkpoint(unit, "checkpoint.safetensors")
    if checkpoint.exists():
        notes = trainer.restore(checkpoint.path)
        losses = notes["losses"]
        recount(substrate, notes)
    display.unit(unit.name, updates, trainer.updates)
    with stoppable() as stopped:
        while trainer.updates < updates:
            losses.append(trainer.advance())
            display.update(trainer.updates, losses[-1])
            stop = stopped()  # asked once: it may be heard at any moment, also while saving
            due = trainer.updates % every == 0 if every else checkpoint.due(trainer.updates)
            if checkpoint.usable and (stop or due):
                trainer.save(checkpoint.path, {"losses": losses, **counted(substrate)})
            if stop:
                raise KeyboardInterrupt
    return {"slow.safetensors": trainer.slow.to_bytes(), "curve.json": as_json(losses)}
