"""The program-selection study: choose among four programs from execution feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from larc.programs import FAMILIES, ProgramEpisode, Split, build_episodes, split_groups, to_task
from larc.settings import setting
from larc.studies.options import EpisodicSettings, TaskSet
from larc.tasks import Task

KIND = "programs"


@dataclass(frozen=True)
class ProgramSettings(EpisodicSettings):
    """What decides the results of the program-selection study."""

    support: int = setting(4, "Examples whose execution errors an episode learns from.", least=1)
    training_groups: int = setting(16, "Training groups of each family, of 16.", least=1)
    development_groups: int = setting(8, "Development groups of each family, of 8.", least=1)
    held_out: Literal["development", "preflight", "training"] = setting(
        "development",
        "Groups to predict; preflight (2 of each family) and training are for choosing settings.",
        later=True,
    )


PRESETS = {
    # The study as the paper ran it, on the open model.
    "paper": ProgramSettings(),
    # One seed, the residual before layer 20 of 30: deeper is cheaper and learns faster.
    "quick": ProgramSettings(boundary=20, seeds=(2026092811,), updates=80),
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


def program_tasks(settings: ProgramSettings) -> TaskSet:
    """Return the study's tasks, development queries closed."""
    training = _episodes("training", settings.training_groups, settings.support)
    development = _episodes(settings.held_out, settings.development_groups, settings.support)
    return _task_set([to_task(episode, with_query=True) for episode in training], development)


def reserved_tasks(settings: ProgramSettings) -> TaskSet:
    """Return the reserved groups' tasks, for the one final evaluation of a run."""
    reserved = build_episodes(
        split_groups("reserved"), support=settings.support, final_evaluation=True
    )
    return _task_set([], tuple(reserved))


def _episodes(split: Split, groups: int, support: int) -> tuple[ProgramEpisode, ...]:
    chosen = [
        group
        for family in FAMILIES
        for group in [g for g in split_groups(split) if g.family == family][:groups]
    ]
    return tuple(build_episodes(chosen, support=support))


def _task_set(training: list[Task], closed: tuple[ProgramEpisode, ...]) -> TaskSet:
    return TaskSet(
        training=training,
        development=[to_task(episode, with_query=False) for episode in closed],
        names=[episode.name for episode in closed],
        texts=[episode.feedback_prompt for episode in closed],
        open_queries=lambda: [episode.query_losses for episode in closed],
    )
