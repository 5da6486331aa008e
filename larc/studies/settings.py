"""Settings that several studies share: kept apart from what they set, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass

from larc.errors import LarcError
from larc.runs.settings import ModelSettings
from larc.settings import setting


@dataclass(frozen=True)
class ReplaySettings(ModelSettings):
    """What every study of late labels decides besides: training on labels, and a session's size."""

    batch: int = setting(
        8, "Labelled prompts in an outer update of the task-matched training.", least=1
    )
    pending_limit: int = setting(
        2 * 2**20, "Bytes of awaited feedback a session may hold.", free=True
    )
    total_limit: int = setting(4 * 2**20, "Bytes of live state a session may hold.", free=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1:
            raise LarcError(f"--batch {self.batch} holds no prompt; give 1 or more.")


def fit_name(objective: str, seed: int) -> str:
    """Return the name of the unit that fits the state of a seed; there is one objective.

    Examples
    --------
    >>> fit_name("", 7)
    'fit-7'
    """
    return f"fit-{seed}"
