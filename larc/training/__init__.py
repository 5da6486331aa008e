"""Slow training: the outer update, across tasks, through streams, and on labels."""

from larc.training.base import AdamW
from larc.training.streams import StreamSettings, StreamTrainer, train_streams
from larc.training.tasks import Trainer, TrainingSettings, train

__all__ = [
    "AdamW",
    "StreamSettings",
    "StreamTrainer",
    "Trainer",
    "TrainingSettings",
    "train",
    "train_streams",
]
