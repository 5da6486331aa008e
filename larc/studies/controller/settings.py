"""What the controller study is about: a finished run, whose states and predictions it mixes."""

from __future__ import annotations

from dataclasses import dataclass

from larc.settings import setting
from larc.studies.audited_run import AboutRun


@dataclass(frozen=True)
class ControllerSettings(AboutRun):
    """What decides the results of the controller study, besides the run it is about."""

    run: str = setting("", "The directory of a finished run of ci, stream or streams.")
    jobs: tuple[str, ...] = setting(
        (), "Its job histories, events or data, where they were moved.", free=True
    )
    live: bool = setting(
        True,
        "Whether states are replayed live as well, those that evidence ruled out asleep; of a CI "
        "run alone.",
    )
    texts: bool = setting(
        False,
        "Whether experts for text, fitted on the training window, are mixed in; of a CI run alone.",
        later=True,
    )
