"""What the synthesis study decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from larc.runs.settings import ModelSettings
from larc.settings import setting


@dataclass(frozen=True)
class SynthesisSettings(ModelSettings):
    """What decides the results of the synthesis study."""

    rule: str = setting(
        "descent:1.0:tries=1",
        "The update rule of a fast state: sgd:STEP, descent:LENGTH, or module:Class.",
    )
    domain: Literal["programs", "functions"] = setting(
        "programs", "programs, interpreted here; functions, Python run by unit tests."
    )
    loss: Literal["graded", "errors"] = setting(
        "graded", "What programs are told: how far off outputs are, or how many are wrong."
    )
    problems: Literal["development", "preflight", "training"] = setting(
        "development", "Whose problems are searched: development; the others to choose settings on."
    )
    groups: int = setting(
        8, "Groups of each family that are searched; functions: problems.", least=1
    )
    sequences: int = setting(1, "Hidden programs of each kind in a group.", least=1, most=4)
    examples: int = setting(8, "Examples a search may run programs on.", least=1)
    calls: int = setting(64, "Texts that the judge may be asked about.", least=1)
    n: int = setting(8, "New texts in a round.", least=1)
    temperature: float = setting(1.0, "What logits are divided by.")
    hot: float = setting(1.5, "The temperature of the comparison by temperature alone.")
    steps: int = setting(1, "Steps of the rule after a round.", least=1)
    pool: int = setting(16, "The most texts an update learns from; 0 for the round's.", least=0)
    tried: int = setting(6, "The most tried programs in the prompt of the text baseline.", least=1)
    updates: int = setting(24, "Outer updates of the training of the start; 0 for none.", least=0)
    training_groups: int = setting(16, "Training groups of each family.", least=1, most=16)
    training_rounds: int = setting(2, "Rounds that a training episode searches for.", least=1)
    batch: int = setting(2, "Episodes in an outer update.", least=1)
    resamples: int = setting(10_000, "Bootstrap resamples of groups.", least=1)


PRESETS = {
    # Of each of the 16 held-out groups a program of a seen and one of a held-out order.
    "paper": SynthesisSettings(boundary=20),
    # One seed, few groups, half the calls, a short training: a quarter of an hour on two cores.
    "quick": SynthesisSettings(
        boundary=20,
        seeds=(2026092811,),
        groups=4,
        calls=32,
        updates=8,
        training_groups=8,
    ),
    # Every step in seconds, on a random model: nothing to be learned from its numbers.
    "smoke": SynthesisSettings(
        substrate="tiny",
        threads=1,
        rule="sgd:1.0",
        learning_rate=1e-2,
        seeds=(2026092811, 2026092812),
        groups=2,
        calls=12,
        n=4,
        tried=2,
        updates=2,
        training_groups=2,
        candidate_limit=64,
        resamples=1000,
    ),
}
