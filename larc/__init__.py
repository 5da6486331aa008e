"""Learning from feedback inside a frozen language model.

A frozen model gets a compact numerical state, ``h + B A h``. A slow state is trained across
tasks; a private fast state copies it, learns from feedback as it arrives, and can be read, reset,
saved and resumed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from larc.errors import LarcError
    from larc.exporting import export_state
    from larc.interventions import Predictions, Report, evaluate, judge, predict
    from larc.learner import Episode, Learner, Update
    from larc.residual import Factors
    from larc.rules import SGD, Descent, UpdateRule
    from larc.scoring import CandidateLosses, Label, Limits
    from larc.state import SlowState
    from larc.stream.controller import Controller
    from larc.substrate import Identity, Substrate, load_substrate
    from larc.tasks import Task
    from larc.trainer import AdamW
    from larc.training import Trainer, TrainingSettings, train

# Public names are fetched when first used: the command line answers without loading torch.
_ROOMS = {
    "SGD": "larc.rules",
    "AdamW": "larc.trainer",
    "CandidateLosses": "larc.scoring",
    "Controller": "larc.stream.controller",
    "Descent": "larc.rules",
    "Episode": "larc.learner",
    "Factors": "larc.residual",
    "Identity": "larc.substrate",
    "Label": "larc.scoring",
    "LarcError": "larc.errors",
    "Learner": "larc.learner",
    "Limits": "larc.scoring",
    "Predictions": "larc.interventions",
    "Report": "larc.interventions",
    "SlowState": "larc.state",
    "Substrate": "larc.substrate",
    "Task": "larc.tasks",
    "Trainer": "larc.training",
    "TrainingSettings": "larc.training",
    "Update": "larc.learner",
    "UpdateRule": "larc.rules",
    "evaluate": "larc.interventions",
    "export_state": "larc.exporting",
    "judge": "larc.interventions",
    "load_substrate": "larc.substrate",
    "predict": "larc.interventions",
    "train": "larc.training",
}

__all__ = [
    "SGD",
    "AdamW",
    "CandidateLosses",
    "Controller",
    "Descent",
    "Episode",
    "Factors",
    "Identity",
    "Label",
    "LarcError",
    "Learner",
    "Limits",
    "Predictions",
    "Report",
    "SlowState",
    "Substrate",
    "Task",
    "Trainer",
    "TrainingSettings",
    "Update",
    "UpdateRule",
    "evaluate",
    "export_state",
    "judge",
    "load_substrate",
    "predict",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'larc' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_ROOMS[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
