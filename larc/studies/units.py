"""Units of work: done wherever the execution says, accounted for, and kept by the run."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import torch

from larc.progress import Display
from larc.studies.engines import Files, perform_all
from larc.studies.identity import provenance
from larc.studies.options import Execution
from larc.studies.runs import Run, as_json, sha256
from larc.substrate import Substrate, load_substrate


class Unit(Protocol):
    """What every unit of work has: a name, settings, and a place for what it needs meanwhile."""

    @property
    def name(self) -> str:
        """The unit's name, unique in its run."""

    @property
    def settings(self) -> Any:
        """The study's settings."""

    @property
    def scratch(self) -> str:
        """A directory for checkpoints; empty or absent where there is none."""


U = TypeVar("U", bound=Unit)
Make = Callable[[U, Substrate, Display], Files]


def do_all(
    run: Run,
    works: Sequence[U],
    perform: Callable[..., Files],
    execution: Execution,
    display: Display,
) -> None:
    """Do the units that a run lacks, and keep the files of each as it is finished."""
    left: list[Any] = [
        replace(work, scratch=str(run.scratch(work.name).absolute()))  # type: ignore[type-var]  # units are dataclasses
        for work in works
        if not run.is_done(work.name)
    ]
    alone = execution.workers == 1 and execution.engine == "local"
    function = (lambda work: perform(work, display)) if alone else perform
    with display.over(len(works), len(works) - len(left)):
        for number, files in perform_all(
            function,
            left,
            engine=execution.engine,
            workers=execution.workers,
            address=execution.address,
        ):
            run.finish_unit(left[number].name, files)
            display.finished(left[number].name)


def accounted(work: U, make: Make[U], display: Display | None) -> Files:
    """Do one unit on its substrate; returns its files, and what they cost and were made with."""
    settings = work.settings
    torch.set_num_threads(settings.threads)
    substrate = _substrate(
        settings.substrate, settings.adapter, settings.device, settings.dtype, settings.acts_on
    )
    substrate.ledger.clear()
    files = make(work, substrate, display or Display())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # Whole milliseconds, so that the parts add up to their sum exactly.
    spent = {name: round(1000 * part) for name, part in substrate.ledger.spent().items()}
    return {
        **files,
        "ledger.json": as_json(substrate.ledger.as_rows()),
        "cost.json": as_json({"milliseconds": spent, "peak_bytes": peak}),
        "provenance.json": as_json(provenance(substrate)),
    }


def counted(substrate: Substrate) -> dict[str, Any]:
    """Return what a unit has cost so far, to be saved with its checkpoint."""
    return {"ledger": substrate.ledger.as_rows(), "seconds": substrate.ledger.spent()}


def recount(substrate: Substrate, notes: dict[str, Any]) -> None:
    """Go on counting from what a checkpoint saved."""
    substrate.ledger.load_rows(notes["ledger"])
    substrate.ledger.seconds = notes["seconds"]


def hashes(run: Run, works: Sequence[U], name: str) -> dict[str, str]:
    """Return the hash of one file of each unit."""
    return {work.name: sha256(run.unit_file(work.name, name)) for work in works}


@lru_cache(maxsize=1)
def _substrate(source: str, adapter: str, device: str, dtype: str, acts_on: str) -> Substrate:
    # Every seed of a study asks the same prompts: what lies below its boundary is kept for all.
    return load_substrate(
        source,
        adapter=adapter or None,
        device=device,
        dtype=dtype,
        cache_bytes=2 * 2**30,
        acts_on=acts_on,
    )
