"""What the controller study is about: a finished CI run, whose states and predictions it mixes."""

from __future__ import annotations

from dataclasses import dataclass

from larc.settings import setting
from larc.studies.audited_run import AboutRun


@dataclass(frozen=True)
class ControllerSettings(AboutRun):
    """What decides the results of the controller study, besides the run it is about."""

    live: bool = setting(
        True, "Whether states are replayed live as well, those that evidence ruled out asleep."
    )
