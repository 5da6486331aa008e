"""Learning from feedback inside a frozen language model.

A frozen model gets a compact numerical state, ``h + B A h``. A slow state is trained across
tasks; a private fast state copies it, learns from feedback as it arrives, and can be read, reset,
saved and resumed.
"""

from larc.errors import LarcError
from larc.interventions import Predictions, Report, evaluate, judge, predict
from larc.learner import Episode, Learner, Update
from larc.residual import Factors
from larc.rules import SGD, UpdateRule
from larc.scoring import CandidateLosses, Label, Limits
from larc.state import SlowState
from larc.substrate import Identity, Substrate, load_substrate
from larc.tasks import Task
from larc.training import AdamW, Trainer, TrainingSettings, train

__all__ = [
    "SGD",
    "AdamW",
    "CandidateLosses",
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
    "judge",
    "load_substrate",
    "predict",
    "train",
]
