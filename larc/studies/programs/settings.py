"""What the program-selection study decides, and how a semantic adapter is trained for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from larc.settings import setting
from larc.studies.episodic.settings import EpisodicSettings


@dataclass(frozen=True)
class ProgramSettings(EpisodicSettings):
    """What decides the results of the program-selection study."""

    support: int = setting(4, "Examples whose execution errors an episode learns from.", least=1)
    training_groups: int = setting(16, "Training groups of each family, of 16.", least=1, most=16)
    development_groups: int = setting(
        8, "Development groups of each family, of 8.", least=1, most=8
    )
    held_out: Literal["development", "preflight", "training"] = setting(
        "development",
        "Groups to predict; preflight (2 of each family) and training are for choosing settings.",
        later=True,
    )


PRESETS = {
    # The study as the paper ran it, on the open model.
    "paper": ProgramSettings(),
    # The best that is known, in minutes: one seed, before layer 26 of 30, the exact gradient
    # through two steps that descend.
    "quick": ProgramSettings(
        boundary=26,
        rule="descent:1.0",
        objectives=("exact",),
        seeds=(2026092811,),
        updates=160,
    ),
    # Every step of the study in seconds, on a random model: nothing to be learned from its numbers.
    "smoke": ProgramSettings(
        substrate="tiny",
        threads=1,
        rule="sgd:1.0",
        learning_rate=1e-2,
        seeds=(2026092811, 2026092812),
        updates=8,
        training_groups=2,
        development_groups=2,
    ),
}


@dataclass(frozen=True)
class AdapterSettings:
    """How a semantic adapter is trained."""

    substrate: str = setting("smollm2-135m", "The frozen model the adapter is for.")
    out: str = setting("adapter", "The directory to write.")
    updates: int = setting(300, "Optimiser updates.", least=1)
    batch: int = setting(16, "Examples in each update.", least=1)
    learning_rate: float = setting(1e-3, "AdamW's learning rate.")
    seed: int = setting(2026092800, "Draws the examples and the first weights.", least=0)
