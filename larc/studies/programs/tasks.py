"""The tasks of the program-selection study: choose among four programs from execution feedback."""

from __future__ import annotations

from larc.domains.programs import (
    FAMILIES,
    ProgramEpisode,
    Split,
    build_episodes,
    split_groups,
    to_task,
)
from larc.studies.episodic.settings import TaskSet
from larc.studies.programs.settings import ProgramSettings
from larc.tasks import Task


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
        open_queries=lambda: [[episode.query_losses] for episode in closed],
    )
