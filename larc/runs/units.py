"""Units of work: done wherever the execution says, accounted for, and kept by the run.

A unit is a frozen dataclass that says what kind it is by its class. Its name is where it is kept;
nothing is ever read out of a name.
"""

from __future__ import annotations

import os
import resource
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.progress import Display
from larc.runs.engines import Files, perform_all
from larc.runs.identity import provenance
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.substrate import Substrate, load_substrate
from larc.substrate.text import Texts

CHECKPOINT_EVERY = 16


@dataclass(frozen=True, kw_only=True)
class Unit(ABC):
    """One unit of work, with everything it depends on.

    Attributes
    ----------
    scratch
        A directory for checkpoints, given when the unit is done; empty where there is none.
    """

    scratch: str = ""

    @property
    @abstractmethod
    def name(self) -> str:
        """The unit's name, unique in its run."""

    @abstractmethod
    def perform(self, display: Display) -> Files:
        """Do the work and return its files."""


@dataclass(frozen=True, kw_only=True)
class ModelUnit(Unit):
    """A unit that computes with the frozen model of its settings, and says what that cost.

    Attributes
    ----------
    settings
        The study's; those of the model decide which one is loaded.
    """

    settings: Any

    @abstractmethod
    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Do the work on the frozen model and return its files."""

    def perform(self, display: Display) -> Files:
        """Do the work; returns its files, what they cost, and what they were made with."""
        import torch

        settings = self.settings
        torch.set_num_threads(settings.threads)
        substrate = _substrate(*_model_of(settings))
        substrate.ledger.clear()
        files = self.compute(substrate, display)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        # Whole milliseconds, so that the parts add up to their sum exactly.
        spent = {name: round(1000 * part) for name, part in substrate.ledger.spent().items()}
        layouts = sorted(substrate.ledger.layouts)
        return {
            **files,
            "ledger.json": as_json(substrate.ledger.as_rows()),
            "cost.json": as_json({"milliseconds": spent, "peak_bytes": peak, "layouts": layouts}),
            "provenance.json": as_json(provenance(substrate)),
        }


U = TypeVar("U", bound=Unit)


def do_all(run: Run, units: Sequence[U], execution: Execution, display: Display) -> None:
    """Do the units that a run lacks, and keep the files of each as it is finished."""
    left = [
        replace(unit, scratch=str(run.scratch(unit.name).absolute()))
        for unit in units
        if not run.is_done(unit.name)
    ]
    alone = execution.workers == 1 and execution.engine == "local"
    function = (lambda unit: unit.perform(display)) if alone else perform_apart
    with display.over(len(units), len(units) - len(left)):
        for number, files in perform_all(
            function,
            left,
            engine=execution.engine,
            workers=execution.workers,
            address=execution.address,
        ):
            run.finish_unit(left[number].name, files)
            display.finished(left[number].name)


def perform_apart(unit: Unit) -> Files:
    """Do one unit in a process of its own, where nobody looks on."""
    return unit.perform(Display(silent=True))


class Checkpoint:
    """Where a unit saves what it has so far, if it has such a place.

    A worker on another machine has none, and does its unit in one go.
    """

    def __init__(self, unit: Unit, name: str) -> None:
        self.path = Path(unit.scratch) / name
        self.usable = bool(unit.scratch) and self.path.parent.is_dir()

    def exists(self) -> bool:
        """Whether the unit was stopped after saving something."""
        return self.usable and self.path.exists()

    def due(self, number: int) -> bool:
        """Whether to save after so many steps.

        What is saved grows with the work done, so from 64 savings on they become rarer with it.
        """
        often = CHECKPOINT_EVERY << (number // (64 * CHECKPOINT_EVERY)).bit_length()
        return self.usable and number % often == 0


def counted(substrate: Substrate) -> dict[str, Any]:
    """Return what a unit has cost so far, to be saved with its checkpoint."""
    return {"ledger": substrate.ledger.as_rows(), "seconds": substrate.ledger.spent()}


def recount(substrate: Substrate, notes: dict[str, Any]) -> None:
    """Go on counting from what a checkpoint saved."""
    substrate.ledger.load_rows(notes["ledger"])
    substrate.ledger.seconds = notes["seconds"]


def hashes(run: Run, units: Sequence[Unit], name: str) -> dict[str, str]:
    """Return the hash of one file of each unit."""
    return {unit.name: sha256(run.unit_file(unit.name, name)) for unit in units}


def cache_size() -> int:
    """Return the memory for activations below a boundary: a quarter of what the machine has.

    A cache that is a little too small for what is read in turn finds nothing.

    Examples
    --------
    >>> cache_size() >= 2 * 2**30
    True
    """
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(2 * 2**30, whole // 4)


def fresh_substrate(settings: Any) -> Substrate:
    """Load the frozen model of a study's settings, with nothing computed yet."""
    return _loaded(*_model_of(settings))


def _model_of(settings: Any) -> tuple[Any, ...]:
    names = ("substrate", "adapter", "device", "dtype", "acts_on", "texts", "chat")
    return tuple(getattr(settings, name) for name in names)


def _loaded(
    source: str,
    adapter: str,
    device: str,
    dtype: str,
    acts_on: str,
    texts: Texts,
    chat: bool,
) -> Substrate:
    return load_substrate(
        source,
        adapter=adapter or None,
        device=device,
        dtype=dtype,
        cache_bytes=cache_size(),
        acts_on=acts_on,
        texts=texts,
        chat=chat,
    )


# Every seed of a study asks the same prompts: what lies below its boundary is kept for all.
_substrate = lru_cache(maxsize=1)(_loaded)
