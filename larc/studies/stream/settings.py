"""What a study of one's own stream decides."""

from __future__ import annotations

from dataclasses import dataclass

from larc.settings import setting
from larc.studies.settings import ReplaySettings

SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class StreamSettings(ReplaySettings):
    """What decides the results of a study of one's own stream."""

    events: str = setting("", "A JSONL file, a question per line; or synthetic, for made-up ones.")
    train: int = setting(40, "How many questions, the first asked, are for training.")
    prompter: str = setting(
        "plain", "How questions are put: plain, or module:Class of your own.", later=True
    )
    experts: tuple[str, ...] = setting(
        ("prior",), "Who else answers, without a model: prior, or module:Class.", later=True
    )


PRESETS = {
    # One seed, the residual before layer 20 of 30.
    "quick": StreamSettings(boundary=20, seeds=(2026092811,)),
    # Made-up questions on a random model: every step in seconds, and nothing to be learned from it.
    "smoke": StreamSettings(
        events=SYNTHETIC,
        substrate="tiny",
        threads=1,
        rule="sgd:1.0",
        seeds=(2026092811, 2026092812),
        train=16,
        prompt_limit=1024,
    ),
}
