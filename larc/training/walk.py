"""A window of a stream: walked in causal order, and back through its updates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from larc.feedback import Label
from larc.objectives import FeedbackObjective, Precomputed, gradients_together
from larc.residual import Factors
from larc.stepping import StepContext, UpdateRule, take_step
from larc.stream.question import Recorded
from larc.stream.queue import Ask, order_events
from larc.training.stack import FastStack, shares_of, step_shares


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


@dataclass
class Step:
    """One round of all windows: where they were, what their answers pull at, who learned what."""

    before: Factors
    pulls: Factors
    learning: list[int]
    arrived: FeedbackObjective
    context: StepContext


class Walk:
    """Windows side by side: forward in causal order, then back through the updates.

    Forward keeps the factors of every round and nothing else. Going back, an update is made again
    to be differentiated, one at a time: memory does not grow with the window. Private offsets are
    taken as given.

    Parameters
    ----------
    objective
        From the feedback of each window to what scores it.
    windows
        The rounds of each.
    slow, rule
        Where private states start, and how they move.
    judged
        The kind of label that answers are judged by.
    reach
        How many updates the gradient goes through; all by default.
    learned
        The names of the steps that are learned.
    """

    def __init__(
        self,
        objective: Callable[[Sequence[Sequence[Label]]], FeedbackObjective],
        windows: Sequence[Sequence[Round]],
        slow: Factors,
        rule: UpdateRule,
        *,
        judged: type[Label],
        reach: int | None,
        learned: Collection[str],
    ) -> None:
        self.objective, self.windows = objective, windows
        self.judged, self.reach, self.learned = judged, reach, learned
        self.answers = [sum(len(one.asked) for one in rounds) for rounds in windows]
        count = len(windows)
        start = slow.map(lambda tensor: tensor.expand(count, *tensor.shape)).copy()
        self.fast = FastStack(rule, start)
        self.steps: list[Step] = []
        self.shares: dict[str, float] = {}
        self.loss = 0.0

    def forward(self) -> None:
        """Walk all windows to their ends, and add up the loss of the answers."""
        fast = self.fast
        for number in range(max(map(len, self.windows))):
            present = [
                rounds[number] if number < len(rounds) else Round((), ()) for rounds in self.windows
            ]
            asked = self._objective([_labels(one.asked, self.judged) for one in present])
            arrived = self._objective([_labels(one.arrived, Label) for one in present])
            (losses, pulls), (before, slopes) = gradients_together(asked, arrived, fast.factors)
            # A window counts by the mean of its answers, whenever they were given.
            shares = torch.tensor(
                [len(one.asked) / n for one, n in zip(present, self.answers, strict=True)],
                device=losses.device,
            )
            self.loss += float(losses @ shares)
            weighted = Factors(*(t * shares[:, None, None] for t in (pulls.A, pulls.B)))
            learning = [place for place, one in enumerate(present) if one.arrived]
            chosen = torch.tensor(learning, dtype=torch.long, device=losses.device)
            some, context = arrived.select(learning), fast.context(learning)
            self.steps.append(Step(fast.factors, weighted, learning, some, context))
            if learning:
                here = fast.some(learning)
                known = Precomputed(some, here, (before[chosen], slopes.at(chosen)))
                pulled = [arrived.offset_slopes()[n] for n in learning]
                fast.step(known, learning, partial(list, pulled), here=here)

    def _objective(self, feedback: Sequence[Sequence[Label]]) -> FeedbackObjective:
        return self.fast.under(self.objective(feedback))

    def backward(self) -> Factors:
        """Return the gradient of the loss at the slow factors, summed over the windows."""
        reach = self.reach
        # What goes on through the updates; what is past the horizon, for which they are constants;
        # and what a rule's pull to the slow state takes there at once.
        through = self.steps[-1].pulls.map(torch.zeros_like)
        past, home = through.copy(), through.copy()
        for number in range(len(self.steps) - 1, -1, -1):
            step = self.steps[number]
            after = self.steps[number + 1].before if number + 1 < len(self.steps) else None
            if after is not None and step.learning and self.learned:
                self._share(step, after, through.combine(past, torch.add))
            if reach is None or (number + 1) % (reach + 1):
                through, straight = self._back(step, through)
                home = home.combine(straight, torch.add)
            else:
                past, through = past.combine(through, torch.add), through.map(torch.zeros_like)
            through = through.combine(step.pulls, torch.add)
        total = past.combine(through, torch.add).combine(home, torch.add)
        return total.map(lambda tensor: tensor.sum(0))

    def _share(self, step: Step, after: Factors, pull: Factors) -> None:
        """Add what the steps of one update are worth, where they are learned."""
        chosen = torch.tensor(step.learning, device=pull.A.device)
        shares = step_shares(
            self.fast.rule, pull.at(chosen), step.before.at(chosen), after.at(chosen), step.context
        )
        for name, share in shares_of(shares, self.learned).items():
            self.shares[name] = self.shares.get(name, 0.0) + share

    def _back(self, step: Step, through: Factors) -> tuple[Factors, Factors]:
        """Return the gradient before an update from that after it, and what is the slow state's."""
        nothing = through.map(torch.zeros_like)
        if not step.learning or not bool((through.norm() > 0).any()):
            return through, nothing
        chosen = torch.tensor(step.learning, device=through.A.device)
        leaf, pulled = step.before.at(chosen).leaf(), through.at(chosen)
        slow = step.context.slow.leaf()
        moved = take_step(
            self.fast.rule,
            step.arrived,
            leaf,
            replace(step.context, slow=slow),
            differentiable=True,
        ).factors
        slopes = torch.autograd.grad(
            (moved.A, moved.B),
            (leaf.A, leaf.B, slow.A, slow.B),
            (pulled.A, pulled.B),
            allow_unused=True,
            materialize_grads=True,
        )
        step.arrived.substrate.ledger.add("backward", 0, 0)
        straight = _put(nothing, chosen, Factors(*slopes[2:]))
        return _put(through, chosen, Factors(*slopes[:2])), straight


def _put(whole: Factors, chosen: Tensor, some: Factors) -> Factors:
    """Return a stack with some of its entries replaced."""
    return whole.combine(some, lambda old, new: old.index_copy(0, chosen, new))


def _labels(items: Sequence[Recorded], kind: type[Label]) -> list[Label]:
    return [kind(item.question.prompt, item.question.candidates, item.right) for item in items]
