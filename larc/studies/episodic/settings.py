"""What an episodic study decides, and what it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from larc.errors import LarcError
from larc.runs.settings import ModelSettings
from larc.settings import setting
from larc.tasks import Task

UNTRAINED = "untrained"


@dataclass(frozen=True)
class EpisodicSettings(ModelSettings):
    """What decides the results of an episodic study."""

    inner_steps: int = setting(2, "Updates an episode makes on its support.", least=0)
    step_rate: float = setting(
        0.0, "Learn SGD's step size or Descent's length with the start, at this rate.", later=True
    )
    objectives: tuple[str, ...] = setting(("static", "adapted"), "Slow objectives, an arm each.")
    untrained: bool = setting(True, "Whether the untrained start is a further arm.")
    updates: int = setting(256, "Outer updates of each training.", least=0)
    start: str = setting(
        "",
        "A finished run whose states training starts from; --updates 0 takes them as they are.",
        later=True,
    )
    batch: int = setting(2, "Episodes in an outer update.", least=1)
    resamples: int = setting(10_000, "Bootstrap resamples of groups.", least=1)

    @property
    def arms(self) -> tuple[str, ...]:
        """Every kind of slow state that is evaluated."""
        return (*self.objectives, *((UNTRAINED,) if self.untrained else ()))


@dataclass(frozen=True)
class TaskSet:
    """What a study is about: tasks to train on, closed tasks to predict, and how to open them.

    Opening gives, for each closed task, the candidates' losses of each of its questions.
    """

    training: Sequence[Task]
    development: Sequence[Task]
    names: Sequence[str]
    texts: Sequence[str] = ()
    open_queries: Callable[[], Sequence[Sequence[Sequence[float]]]] = field(default=lambda: ())
    training_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if any(task.opened for task in self.development):
            raise LarcError("a development task came with its query; predictions need it closed.")

    def as_plain(self) -> dict[str, Any]:
        """Return what a run is about: where a task was read is no part of it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "training_names"}

    @property
    def asked(self) -> list[tuple[str, str, Sequence[str]]]:
        """Everything that the study will ask: names, prompts and candidates."""
        names = self.training_names or [f"training task {n}" for n in range(len(self.training))]
        closed = list(zip(self.names, self.development, strict=True))
        tasks = [*zip(names, self.training, strict=True), *closed]
        texts = zip(closed, self.texts, strict=False)
        return [
            *(
                (name, one.prompt, one.candidates)
                for name, task in tasks
                for one in (*(piece for batch in task.batches for piece in batch), *task.asked)
            ),
            *((f"{name} with feedback", text, task.candidates) for (name, task), text in texts),
        ]
