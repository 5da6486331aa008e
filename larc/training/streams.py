"""Slow training through a stream: for the answers that are given while labels arrive late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from larc.checks import instance, listed, number, whole_number
from larc.errors import LarcError
from larc.feedback import BrierLabel, Label
from larc.io.hashes import hash_json
from larc.objectives import FeedbackObjective
from larc.questions import Limits
from larc.residual import Factors, checked_seed
from larc.rules import SGD, RMSprop, UpdateRule, rule_facts, rule_text
from larc.scoring import Normalise
from larc.state import SlowState
from larc.stream.question import Recorded, with_labels
from larc.substrate.frozen import Substrate
from larc.training.base import (
    AdamW,
    OuterGradient,
    SlowTrainer,
    batch_indices,
    run_training,
    starting_state,
    twice_differentiable,
)
from larc.training.stack import learnable_steps, with_steps
from larc.training.walk import Walk, rounds_of

StreamObjective = Literal["online"]
StreamGradient = Literal["first-order", "exact"]
StreamLoss = Literal["cross-entropy", "half-brier"]
#: The most padding of a physical batch, as a share of what it holds.
PADDING = 0.15


@dataclass(frozen=True)
class StreamSettings:
    """Everything that decides a training through streams besides substrate, start and streams.

    Attributes
    ----------
    objective
        ``online``: every question is read at the state of its moment, before its label.
    gradient
        ``first-order`` adds each answer's gradient at the state it was given in, as if that state
        were the slow one moved by a constant. ``exact`` goes through the updates.
    loss
        Of an answer: ``cross-entropy``, or ``half-brier``. The updates follow their rule.
    window
        How many questions in a row a private state lives for, from the slow state on.
    horizon
        The most updates that the exact gradient of an answer goes through; all by default. What
        lies further back is taken as a constant, so that a horizon of 0 is the first-order one.
    batch
        Windows in an outer update, each of another stream while there are others.
    rule, seed, outer
        The private updates, what draws the windows, the outer optimiser.
    step_rate
        At which rate the steps of the rule are learned with the start: a size for ``A``, one for
        ``B``, and their slowing, which starts from none; of `larc.Descent` its length. The state
        then has the rule that it was trained for. 0 for not at all.
    """

    objective: StreamObjective = "online"
    gradient: StreamGradient = "first-order"
    loss: StreamLoss = "cross-entropy"
    window: int = 32
    horizon: int | None = None
    batch: int = 2
    rule: UpdateRule = field(default_factory=SGD)
    seed: int = 0
    outer: AdamW = field(default_factory=AdamW)
    step_rate: float = 0.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("objective", self.objective, get_args(StreamObjective)),
            ("gradient", self.gradient, get_args(StreamGradient)),
            ("loss", self.loss, get_args(StreamLoss)),
        ):
            if value not in list(known):
                raise LarcError(f"{name} {value!r} is unknown; use one of {', '.join(known)}.")
        whole_number(self.window, "window", least=2)
        whole_number(self.batch, "batch", least=1)
        checked_seed(self.seed)
        rule_facts(self.rule)
        instance(self.outer, "outer", AdamW)
        if self.horizon is not None:
            whole_number(self.horizon, "horizon")
            if self.gradient != "exact":
                raise LarcError("a horizon is of the exact gradient; leave it out.")
        if not 0 <= number(self.step_rate, "step_rate") <= 1:
            raise LarcError(f"step rate {self.step_rate} was given; give a number from 0 to 1.")
        if self.gradient == "exact" and isinstance(self.rule, RMSprop):
            raise LarcError(
                "an exact gradient does not go through the moments of RMSprop; use SGD."
            )

    @property
    def reach(self) -> int | None:
        """How many updates a gradient goes through: none, a number, or all of them."""
        return 0 if self.gradient == "first-order" else self.horizon

    def facts(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {**asdict(self), "rule": rule_facts(self.rule)}


class StreamTrainer(SlowTrainer):
    """Trains a slow state through windows of streams.

    Parameters
    ----------
    substrate, slow
        The frozen model and where training starts.
    streams
        Each stream's questions with their labels and both times.
    settings, limits
        How.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        streams: Iterable[Sequence[Recorded]],
        settings: StreamSettings,
        limits: Limits | None = None,
    ) -> None:
        instance(settings, "settings", StreamSettings)
        instance(slow, "slow", SlowState)
        steps = learnable_steps(settings.rule, slow, several=True) if settings.step_rate else None
        super().__init__(substrate, slow, settings.outer, limits, steps, settings.step_rate)
        self.streams = _checked_streams(streams)
        self.settings = settings
        # Tokenises everything now, so that what cannot be scored is refused before training.
        for items in self.streams:
            self._objective(
                [[Label(i.question.prompt, i.question.candidates, i.right) for i in items]]
            )

    def learned(self) -> tuple[float | None, str]:
        """Return the rule with the steps that were learned, if they are."""
        return None, rule_text(self.rule) if self.settings.step_rate else ""

    @property
    def rule(self) -> UpdateRule:
        """The rule of the private updates, with the steps learned so far."""
        return with_steps(self.settings.rule, self._trained)

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on: also the settings and the streams."""
        # Nothing that is trained on is in a source.
        streams = [[{**item.as_plain(), "source": None} for item in i] for i in self.streams]
        return {
            "settings": self.settings.facts(),
            "streams": hash_json(streams),
            **super().facts(),
        }

    def windows(self) -> list[list[Recorded]]:
        """Return the windows of the next outer update."""
        settings = self.settings
        chosen = batch_indices(len(self.streams), settings.batch, self.updates, settings.seed)
        windows = []
        for place, index in enumerate(chosen):
            items = self.streams[index]
            draw = np.random.default_rng([settings.seed, 1, self.updates * settings.batch + place])
            first = int(draw.integers(max(1, len(items) - settings.window + 1)))
            windows.append(items[first : first + settings.window])
        return windows

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the mean loss of the next windows' answers and its gradient."""
        return self.gradient_through(self.windows())

    def gradient_through(self, windows: Sequence[Sequence[Recorded]]) -> tuple[float, Factors]:
        """Return the mean loss of the answers given in windows, and its gradient."""
        with torch.inference_mode(False), torch.enable_grad():
            walk = Walk(
                self._objective,
                [rounds_of(items) for items in windows],
                self.slow.factors,
                self.rule,
                judged=Label if self.settings.loss == "cross-entropy" else BrierLabel,
                reach=self.settings.reach,
                learned=set(self._trained) - {"A", "B"},
            )
            with self.substrate.ledger.operation("walk"):
                walk.forward()
            with self.substrate.ledger.operation("adjoint"), twice_differentiable():
                gradient = walk.backward()
        count = len(windows)
        mean = gradient.map(lambda tensor: tensor / count)
        steps = {name: share / count for name, share in walk.shares.items()}
        return walk.loss / count, OuterGradient(mean.A, mean.B, steps)

    def _objective(self, feedback: Sequence[Sequence[Label]]) -> FeedbackObjective:
        # What is asked of a state and what it learns from at once goes through the model once.
        return FeedbackObjective.of(
            self.substrate,
            self.slow.boundary,
            feedback,
            self.limits,
            share_key=range(len(feedback)),
            padding=PADDING,
            normalise=self.slow.normalise,
        )


def _checked_streams(streams: Iterable[Sequence[Recorded]]) -> list[list[Recorded]]:
    """Return the streams, each in the order of its questions, refusing what cannot be walked."""
    checked = []
    for index, given in enumerate(listed(streams, "the streams")):
        items = listed(given, f"the items of stream {index}")
        if not all(isinstance(item, Recorded) for item in items):
            raise LarcError(
                f"stream {index} is no list of larc.Recorded; give a list of such lists."
            )
        # A question without a label neither teaches nor can be scored.
        ordered = sorted(with_labels(items), key=lambda item: (item.asked, item.name))
        if len(ordered) < 2:
            raise LarcError(
                f"stream {index} has fewer than two questions with labels; leave it out."
            )
        checked.append(ordered)
    if not checked:
        raise LarcError("there are no streams to train on; give at least one.")
    if not any(one.arrived for items in checked for one in rounds_of(items)):
        raise LarcError(
            "no label of any stream arrives before a later question; there is nothing to train "
            "through."
        )
    return checked


def train_streams(
    substrate: Substrate,
    streams: Iterable[Sequence[Recorded]],
    *,
    objective: StreamObjective = "online",
    gradient: StreamGradient = "first-order",
    loss: StreamLoss = "cross-entropy",
    window: int = 32,
    horizon: int | None = None,
    updates: int = 64,
    batch: int = 2,
    rule: UpdateRule | None = None,
    seed: int,
    rank: int | None = None,
    boundary: int | None = None,
    normalise: Normalise | None = None,
    slow: SlowState | None = None,
    outer: AdamW | None = None,
    step_rate: float = 0.0,
    limits: Limits | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 16,
    on_update: Callable[[int, float], None] | None = None,
) -> SlowState:
    """Train a slow state through streams, for the answers a kept state gives, and return it.

    A window of a stream is walked in causal order with its real delays: each question is read at
    the state of that moment, labels that arrive move the private state by the rule, and the mean
    loss of the answers given is lowered. Windows of several streams share physical batches.

    Parameters
    ----------
    substrate, streams
        The frozen model, and each stream's questions: `larc.Recorded`, with label and times. Those
        without a label are left out.
    objective, gradient, loss, window, horizon, batch
        See `StreamSettings`.
    updates
        Outer updates to make.
    rule
        The private updates, ``SGD(0.1)`` by default. A start is good for the steps it was
        trained for: read it with the same.
    seed
        Draws the first factors and, on streams of their own, the windows.
    rank, boundary, normalise
        Of a new state, 4, 0 (the input) and ``"mean"`` by default; not with ``slow``.
    slow
        A state to go on from instead of a new one.
    outer, step_rate, limits
        The outer optimiser, the rate at which it learns the rule's steps, and the token limits.
    checkpoint
        A file to save to every ``checkpoint_every`` updates, and to carry on from if it is there.
    on_update
        Called after each update with its number and its loss.

    Examples
    --------
    >>> import larc
    >>> def stream(name, word):
    ...     return [larc.Recorded(larc.Question(f"{name} {n}", ("up", "down"), prompt=f"Day {n}: "),
    ...                           asked=n, arrives=n + 1.5, label=word) for n in range(6)]
    >>> slow = larc.train_streams(larc.load_substrate("tiny"), [stream("a", 0), stream("b", 1)],
    ...                           window=4, updates=2, seed=1)
    >>> slow.version
    2
    """
    slow = starting_state(
        substrate, slow, rank=rank, boundary=boundary, normalise=normalise, seed=seed
    )
    settings = StreamSettings(
        objective,
        gradient,
        loss,
        window,
        horizon,
        batch,
        SGD() if rule is None else rule,
        seed,
        AdamW() if outer is None else outer,
        step_rate,
    )
    trainer = StreamTrainer(substrate, slow, streams, settings, limits)
    return run_training(trainer, updates, checkpoint, checkpoint_every, on_update)
