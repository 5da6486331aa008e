"""Slow training: the outer update, across tasks, and on labels."""

from larc.training.base import AdamW
from larc.training.tasks import Trainer, TrainingSettings, train

__all__ = ["AdamW", "Trainer", "TrainingSettings", "train"]
