"""Slow training through a stream: for the answers that are given while labels arrive late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import BrierLabel, Label
from larc.io.hashes import hash_json
from larc.objectives import FeedbackObjective, Precomputed, gradients_together
from larc.residual import Factors
from larc.rules import SGD, UpdateRule, rule_facts
from larc.scoring import Limits, Normalise
from larc.state import SlowState
from larc.stream.question import Recorded
from larc.stream.queue import Ask, order_events
from larc.substrate.frozen import Substrate
from larc.training.base import (
    AdamW,
    SlowTrainer,
    batch_indices,
    run_training,
    starting_state,
    twice_differentiable,
)

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

    def __post_init__(self) -> None:
        for name, value, known in (
            ("objective", self.objective, get_args(StreamObjective)),
            ("gradient", self.gradient, get_args(StreamGradient)),
            ("loss", self.loss, get_args(StreamLoss)),
        ):
            if value not in known:
                raise LarcError(f"{name} {value!r} is unknown; use one of {', '.join(known)}.")
        if self.window < 2 or self.batch < 1:
            raise LarcError("a window has two questions or more, and a batch a window or more.")
        if self.horizon is not None and (self.horizon < 0 or self.gradient != "exact"):
            raise LarcError("a horizon is 0 or more, and of the exact gradient; leave it out.")

    @property
    def reach(self) -> int | None:
        """How many updates a gradient goes through: none, a number, or all of them."""
        return 0 if self.gradient == "first-order" else self.horizon

    def facts(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {**asdict(self), "rule": rule_facts(self.rule)}


@dataclass(frozen=True)
class Round:
    """What happens at one private state: questions are asked, then labels arrive that move it."""

    asked: tuple[Recorded, ...]
    arrived: tuple[Recorded, ...]


def rounds_of(items: Sequence[Recorded]) -> list[Round]:
    """Return a window of a stream as rounds, in causal order; labels after the last question go.

    Examples
    --------
    >>> from larc.stream.question import Question
    >>> items = [Recorded(Question(name, ("up", "down")), asked, arrives, label=0)
    ...          for name, asked, arrives in (("a", 0, 2), ("b", 1, 2), ("c", 2, 9), ("d", 3, 9))]
    >>> [([i.name for i in r.asked], [i.name for i in r.arrived]) for r in rounds_of(items)]
    [(['a', 'b', 'c'], ['a', 'b']), (['d'], [])]
    """
    rounds: list[Round] = []
    asked: list[Recorded] = []
    for event in order_events(
        items,
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    ):
        if isinstance(event, Ask):
            asked += event.items
        else:
            rounds.append(Round(tuple(asked), event.items))
            asked = []
    if asked:
        return [*rounds, Round(tuple(asked), ())]
    while rounds and not rounds[-1].asked:
        rounds.pop()
    return [*rounds[:-1], Round(rounds[-1].asked, ())] if rounds else []


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
        super().__init__(substrate, slow, settings.outer, limits)
        self.streams = _checked_streams(streams)
        self.settings = settings
        # Tokenises everything now, so that what cannot be scored is refused before training.
        for items in self.streams:
            self._objective(
                [[Label(i.question.prompt, i.question.candidates, i.label) for i in items]]
            )

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
            walk = _Walk(self, [rounds_of(items) for items in windows])
            with self.substrate.ledger.operation("walk"):
                walk.forward()
            with self.substrate.ledger.operation("adjoint"), twice_differentiable():
                gradient = walk.backward()
        return walk.loss / len(windows), gradient.map(lambda tensor: tensor / len(windows))

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


@dataclass
class _Step:
    """One round of all windows: where they were, what their answers pull at, who learned what."""

    before: Factors
    pulls: Factors
    learning: list[int]
    arrived: FeedbackObjective


class _Walk:
    """Windows side by side: forward in causal order, then back through the updates.

    Forward keeps the factors of every round and nothing else. Going back, an update is made again
    to be differentiated, one at a time: memory does not grow with the window.
    """

    def __init__(self, trainer: StreamTrainer, windows: Sequence[Sequence[Round]]) -> None:
        self.trainer, self.windows = trainer, windows
        self.rule = trainer.settings.rule
        self.judged = Label if trainer.settings.loss == "cross-entropy" else BrierLabel
        self.answers = [sum(len(one.asked) for one in rounds) for rounds in windows]
        self.steps: list[_Step] = []
        self.loss = 0.0

    def forward(self) -> None:
        """Walk all windows to their ends, and add up the loss of the answers."""
        slow, count = self.trainer.slow.factors, len(self.windows)
        state = slow.map(lambda tensor: tensor.expand(count, *tensor.shape)).copy()
        for number in range(max(map(len, self.windows))):
            present = [
                rounds[number] if number < len(rounds) else Round((), ()) for rounds in self.windows
            ]
            asked = self.trainer._objective([_labels(one.asked, self.judged) for one in present])
            arrived = self.trainer._objective([_labels(one.arrived, Label) for one in present])
            (losses, pulls), (before, slopes) = gradients_together(asked, arrived, state)
            # A window counts by the mean of its answers, whenever they were given.
            shares = torch.tensor(
                [len(one.asked) / n for one, n in zip(present, self.answers, strict=True)],
                device=losses.device,
            )
            self.loss += float(losses @ shares)
            learning = [place for place, one in enumerate(present) if one.arrived]
            weighted = Factors(*(t * shares[:, None, None] for t in (pulls.A, pulls.B)))
            step = _Step(state, weighted, learning, arrived.select(learning))
            self.steps.append(step)
            if learning:
                chosen = torch.tensor(learning, device=losses.device)
                here = state.at(chosen)
                known = Precomputed(step.arrived, here, (before[chosen], slopes.at(chosen)))
                moved = self.rule.step(known, here).factors
                state = _put(state, chosen, moved)

    def backward(self) -> Factors:
        """Return the gradient of the loss at the slow factors, summed over the windows."""
        reach = self.trainer.settings.reach
        # What goes on through the updates, and what is past the horizon and goes straight down.
        through = self.steps[-1].pulls.map(torch.zeros_like)
        past = through.copy()
        for number in range(len(self.steps) - 1, -1, -1):
            step = self.steps[number]
            if reach is None or (number + 1) % (reach + 1):
                through = self._back(step, through)
            else:
                past, through = past.combine(through, torch.add), through.map(torch.zeros_like)
            through = through.combine(step.pulls, torch.add)
        return past.combine(through, torch.add).map(lambda tensor: tensor.sum(0))

    def _back(self, step: _Step, through: Factors) -> Factors:
        """Return the gradient at the factors before an update, from that at those after it."""
        if not step.learning or not bool((through.norm() > 0).any()):
            return through
        chosen = torch.tensor(step.learning, device=through.A.device)
        leaf, pulled = step.before.at(chosen).leaf(), through.at(chosen)
        moved = self.rule.step(step.arrived, leaf, differentiable=True).factors
        slopes = torch.autograd.grad((moved.A, moved.B), (leaf.A, leaf.B), (pulled.A, pulled.B))
        self.trainer.substrate.ledger.add("backward", 0, 0)
        return _put(through, chosen, Factors(*slopes))


def _put(whole: Factors, chosen: Tensor, some: Factors) -> Factors:
    """Return a stack with some of its entries replaced."""
    return whole.combine(some, lambda old, new: old.index_copy(0, chosen, new))


def _labels(items: Sequence[Recorded], kind: type[Label]) -> list[Label]:
    return [kind(item.question.prompt, item.question.candidates, item.label) for item in items]


def _checked_streams(streams: Iterable[Sequence[Recorded]]) -> list[list[Recorded]]:
    """Return the streams, each in the order of its questions, refusing what cannot be walked."""
    checked = []
    for number, items in enumerate(streams):
        if isinstance(items, Recorded) or not all(isinstance(item, Recorded) for item in items):
            raise LarcError(
                f"stream {number} is no list of larc.Recorded; give a list of such lists."
            )
        ordered = sorted(items, key=lambda item: (item.asked, item.name))
        if not any(one.arrived for one in rounds_of(ordered)):
            raise LarcError(
                f"stream {number} has no label that arrives before a question; there is nothing to "
                "train through."
            )
        checked.append(ordered)
    if not checked:
        raise LarcError("there are no streams to train on; give at least one.")
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
        The frozen model, and each stream's questions: `larc.Recorded`, with label and times.
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
    outer, limits
        The outer optimiser and the token limits.
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
        objective, gradient, loss, window, horizon, batch, rule or SGD(), seed, outer or AdamW()
    )
    trainer = StreamTrainer(substrate, slow, streams, settings, limits)
    return run_training(trainer, updates, checkpoint, checkpoint_every, on_update)
