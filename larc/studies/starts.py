"""States of an earlier run, for a study to start from."""

from __future__ import annotations

from larc.errors import LarcError
from larc.runs.run import Run
from larc.runs.settings import ModelSettings
from larc.state import SlowState
from larc.studies.episodic.names import training_name


def earlier_state(start: str, arm: str, seed: int, settings: ModelSettings) -> bytes:
    """Return the file of a state that a finished run trained, refusing one that does not fit.

    Parameters
    ----------
    start
        Where that run is: a directory or an archive.
    arm, seed
        The objective and the seed it was trained with.
    settings
        Those of the study that is to start from it.
    """
    earlier, unit = Run(start), training_name(arm, seed)
    if not earlier.is_closed:
        raise LarcError(f"{start} is not a finished run; finish it first.")
    if not earlier.is_done(unit):
        raise LarcError(
            f"{start} has no state of the {arm} objective with seed {seed}; "
            "name a run that has, or other --objectives or --seeds."
        )
    content = earlier.unit_file(unit, "slow.safetensors")
    slow = SlowState.from_bytes(content, f"{unit} of {start}")
    wanted, its = (settings.boundary, settings.rank), (slow.boundary, slow.factors.rank)
    if wanted != its:
        raise LarcError(
            f"the states of {start} are at boundary {its[0]} with rank {its[1]}; "
            f"give --boundary {its[0]} --rank {its[1]}."
        )
    return content
