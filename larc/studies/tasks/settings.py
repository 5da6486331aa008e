"""What a study on one's own tasks decides."""

from __future__ import annotations

from dataclasses import dataclass

from larc.settings import setting
from larc.studies.episodic.settings import EpisodicSettings


@dataclass(frozen=True)
class TaskSettings(EpisodicSettings):
    """What decides the results of a study on one's own tasks."""

    tasks: str = setting(
        "",
        "A JSONL file: prompt, candidates, support, query, group, family and split per line; "
        "without prompt and candidates, support and query are lists of questions with labels.",
    )


PRESETS = {
    "paper": TaskSettings(),
    "quick": TaskSettings(boundary=20, seeds=(2026092811,), updates=80),
    "smoke": TaskSettings(
        substrate="tiny", threads=1, rule="sgd:1.0", seeds=(2026092811,), updates=4
    ),
}
