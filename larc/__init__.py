"""Learning from feedback inside a frozen language model.

A frozen model gets a compact numerical state, ``h + B A h``. A slow state is trained across
tasks; a private fast state copies it, learns from feedback as it arrives, and can be read, reset,
saved and resumed.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from larc import experts as experts
    from larc.errors import (
        ConflictingLabel,
        DuplicateLabel,
        LabelRefused,
        LarcError,
        NeverAsked,
        NotACandidate,
        StalePlan,
    )
    from larc.exporting import export_state
    from larc.feedback import CandidateLosses, Label
    from larc.interventions import Evaluation, Predictions, evaluate, judge, predict
    from larc.learner import Episode, Learner, Update
    from larc.proposals.grammar import Grammar
    from larc.proposals.improving import Improvement, ImproveSettings
    from larc.proposals.judges import SubprocessJudge
    from larc.proposals.sampling import Proposal
    from larc.questions import Limits
    from larc.residual import Factors
    from larc.rules import SGD, Descent, RMSprop, UpdateRule
    from larc.state import SlowState
    from larc.stream.awaited import SessionFull, SessionLimits
    from larc.stream.controller import Controller
    from larc.stream.prompter import PlainPrompter, Prompter
    from larc.stream.question import Question, Recorded
    from larc.stream.session import Session
    from larc.stream.strategies import Strategy
    from larc.substrate import Identity, Substrate, load_substrate
    from larc.tasks import Task
    from larc.training.base import AdamW
    from larc.training.proposals import ProposalTask
    from larc.training.streams import StreamTrainer, train_streams
    from larc.training.tasks import Trainer, TrainingSettings, train

#: Where public names come from. They are fetched when first used: the command line answers without
#: loading torch.
_HOMES = {
    "AdamW": "larc.training.base",
    "CandidateLosses": "larc.feedback",
    "ConflictingLabel": "larc.errors",
    "Controller": "larc.stream.controller",
    "Descent": "larc.rules",
    "DuplicateLabel": "larc.errors",
    "Episode": "larc.learner",
    "Evaluation": "larc.interventions",
    "Factors": "larc.residual",
    "Grammar": "larc.proposals.grammar",
    "Improvement": "larc.proposals.improving",
    "ImproveSettings": "larc.proposals.improving",
    "SubprocessJudge": "larc.proposals.judges",
    "Proposal": "larc.proposals.sampling",
    "ProposalTask": "larc.training.proposals",
    "Identity": "larc.substrate",
    "Label": "larc.feedback",
    "LabelRefused": "larc.errors",
    "LarcError": "larc.errors",
    "Learner": "larc.learner",
    "Limits": "larc.questions",
    "NeverAsked": "larc.errors",
    "NotACandidate": "larc.errors",
    "PlainPrompter": "larc.stream.prompter",
    "Predictions": "larc.interventions",
    "Prompter": "larc.stream.prompter",
    "Question": "larc.stream.question",
    "RMSprop": "larc.rules",
    "Recorded": "larc.stream.question",
    "SGD": "larc.rules",
    "Session": "larc.stream.session",
    "SessionFull": "larc.stream.awaited",
    "SessionLimits": "larc.stream.awaited",
    "SlowState": "larc.state",
    "StalePlan": "larc.errors",
    "Strategy": "larc.stream.strategies",
    "StreamTrainer": "larc.training.streams",
    "Substrate": "larc.substrate",
    "Task": "larc.tasks",
    "Trainer": "larc.training.tasks",
    "TrainingSettings": "larc.training.tasks",
    "Update": "larc.learner",
    "UpdateRule": "larc.rules",
    "evaluate": "larc.interventions",
    "export_state": "larc.exporting",
    "judge": "larc.interventions",
    "load_substrate": "larc.substrate",
    "predict": "larc.interventions",
    "train": "larc.training.tasks",
    "train_streams": "larc.training.streams",
}
#: Names of version 0.1, and what they are called now; they go with version 0.3.
_RENAMED = {"Report": "Evaluation"}

__all__ = [
    "SGD",
    "AdamW",
    "CandidateLosses",
    "ConflictingLabel",
    "Controller",
    "Descent",
    "DuplicateLabel",
    "Episode",
    "Evaluation",
    "Factors",
    "Grammar",
    "Identity",
    "ImproveSettings",
    "Improvement",
    "Label",
    "LabelRefused",
    "LarcError",
    "Learner",
    "Limits",
    "NeverAsked",
    "NotACandidate",
    "PlainPrompter",
    "Predictions",
    "Prompter",
    "Proposal",
    "ProposalTask",
    "Question",
    "RMSprop",
    "Recorded",
    "Session",
    "SessionFull",
    "SessionLimits",
    "SlowState",
    "StalePlan",
    "Strategy",
    "StreamTrainer",
    "SubprocessJudge",
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
    "train_streams",
]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        warnings.warn(
            f"larc.{name} is now larc.{_RENAMED[name]}; this alias goes with version 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        return __getattr__(_RENAMED[name])
    if name == "experts":
        return import_module("larc.experts")
    if name not in _HOMES:
        raise AttributeError(f"module 'larc' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
