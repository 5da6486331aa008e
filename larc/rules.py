"""Update rules: how an episode's factors move on the feedback that has arrived."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from larc.checks import number, whole_number
from larc.errors import LarcError
from larc.plugins import is_object_name, load_object
from larc.residual import Factors
from larc.stepping import Objective as Objective
from larc.stepping import StepContext
from larc.stepping import StepResult as StepResult
from larc.stepping import UpdateRule as UpdateRule

# Below this the squares of a gradient's entries are lost to float32, and with them its direction:
# its episode then stays where it is.
_LEAST = 1e-18


def _later(default: Any) -> Any:
    """Return a field that rules got later: named only where it is not at its default."""
    return field(default=default, metadata={"later": True})


@dataclass(frozen=True, repr=False)
class SGD:
    """One gradient step: of fixed size, with no momentum, decay or clipping, unless told otherwise.

    Attributes
    ----------
    step_size
        How much of the gradient a step takes.
    step_size_b
        The same for ``B``, if it is another than for ``A``.
    slowing
        Step ``t``, counted from 0 at the slow state, is divided by ``(1 + t) ** slowing``.
    decay
        A proximal pull: after a step, the way from the slow state is divided by ``1 + decay``.
    offset_size
        The step size of private offsets, a bias for each candidate by its text; 0 for none. They
        learn from the same feedback, and are reset with the state.

    Examples
    --------
    >>> SGD(step_size=0.1)
    SGD(step_size=0.1)
    >>> SGD(0.1, decay=0.01)
    SGD(step_size=0.1, decay=0.01)
    """

    step_size: float = 0.1
    step_size_b: float | None = _later(None)
    slowing: float = _later(0.0)
    decay: float = _later(0.0)
    offset_size: float = _later(0.0)

    takes_context: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", number(self.step_size, "the step size", above=0))
        if self.step_size_b is not None:
            size = number(self.step_size_b, "the step size of B", above=0)
            object.__setattr__(self, "step_size_b", size)
        for name in ("slowing", "decay", "offset_size"):
            object.__setattr__(self, name, number(getattr(self, name), name, least=0))

    def __repr__(self) -> str:
        shown = {name: value for name, value in rule_facts(self).items() if name != "name"}
        inside = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({inside})"

    def step(
        self,
        objective: Objective,
        factors: Factors,
        *,
        differentiable: bool = False,
        context: StepContext | None = None,
    ) -> StepResult:
        """Return ``factors - step_size * gradient``, drawn back to the slow state if told to."""
        losses, gradients = _gradients(objective, factors, differentiable=differentiable)
        return StepResult(self.moved(factors, gradients, context), losses.detach())

    def moved(self, factors: Factors, slopes: Factors, context: StepContext | None) -> Factors:
        """Return the factors after a step down some slopes."""
        if self.step_size_b is None and not self.slowing and not self.decay:
            return factors.combine(slopes, lambda value, slope: value - self.step_size * slope)
        if context is None and (self.slowing or self.decay):
            raise LarcError(
                f"{self} goes by the slow state and the steps taken; call it with its context."
            )
        share: Any = 1.0
        if context is not None and self.slowing:
            taken = context.taken.to(factors.A.dtype).to(factors.A.device)
            share = ((1 + taken) ** -self.slowing)[:, None, None]
        size_b = self.step_size if self.step_size_b is None else self.step_size_b
        there = Factors(
            factors.A - self.step_size * share * slopes.A, factors.B - size_b * share * slopes.B
        )
        if context is None or not self.decay:
            return there
        return context.slow.combine(
            there, lambda slow, value: slow + (value - slow) / (1 + self.decay)
        )


@dataclass(frozen=True, repr=False)
class RMSprop(SGD):
    """A step whose entries are divided by the root of their gradient's recent mean square.

    The mean squares are private to an episode, saved with it and reset with it.

    Attributes
    ----------
    beta
        How much of the old mean square stays; early ones are corrected for having few terms.
    epsilon
        What is added to the root.

    Examples
    --------
    >>> RMSprop(0.01)
    RMSprop(step_size=0.01, beta=0.9, epsilon=0.0001)
    """

    beta: float = 0.9
    epsilon: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.epsilon, "epsilon", above=0)
        if not 0 <= number(self.beta, "beta") < 1:
            raise LarcError(f"beta is {self.beta}; give a number from 0 to below 1.")

    def step(
        self,
        objective: Objective,
        factors: Factors,
        *,
        differentiable: bool = False,
        context: StepContext | None = None,
    ) -> StepResult:
        """Return the factors after a step, and the mean squares after it."""
        if differentiable:
            raise LarcError(
                "an exact gradient does not go through the moments of RMSprop; use the first-order "
                "one, or SGD."
            )
        if context is None:
            raise LarcError(f"{self} has moments of its own; call it with its context.")
        losses, slopes = _gradients(objective, factors, differentiable=False)
        moments = {}
        for name, slope in (("square.A", slopes.A), ("square.B", slopes.B)):
            old = context.moments.get(name, torch.zeros_like(slope))
            moments[name] = self.beta * old + (1 - self.beta) * slope.square()
        terms = context.taken.to(factors.A.dtype).to(factors.A.device) + 1
        full = (1 - self.beta**terms)[:, None, None]
        scaled = Factors(
            slopes.A / ((moments["square.A"] / full).sqrt() + self.epsilon),
            slopes.B / ((moments["square.B"] / full).sqrt() + self.epsilon),
        )
        moved = self.moved(factors, scaled, context)
        return StepResult(moved, losses.detach(), moments=moments)


def _gradients(
    objective: Objective, factors: Factors, *, differentiable: bool
) -> tuple[Tensor, Factors]:
    if not differentiable:
        return objective.gradients(factors)
    losses = objective.losses(factors)
    slopes = torch.autograd.grad(losses.sum(), (factors.A, factors.B), create_graph=True)
    return losses, Factors(*slopes)


@dataclass(frozen=True)
class Descent:
    """Steps that never raise the loss of the feedback they are made from.

    A step goes down the gradient by a length of its own, whatever the gradient's size. It is tried
    on the feedback first and shortened until the loss does not rise; after ``tries`` it is refused
    and the episode stays where it is. Each episode of a batch shortens its own.

    Attributes
    ----------
    length
        How far the first try of a step goes, in the Euclidean norm of both factors.
    steps
        The most steps an update takes on its feedback.
    shrink
        What a step is multiplied by when it was too long.
    tries
        The most lengths a step is tried at. With ``steps`` it bounds the work of an update: at most
        ``steps * (1 + tries)`` evaluations of the feedback.
    tolerance
        An episode whose loss is at or below this is fitted, and moves no further.
    radius
        If given, no step may leave ``B A`` with a larger Frobenius norm than this, unless the step
        makes it smaller than it was.

    Examples
    --------
    >>> Descent(length=1.0, steps=2)
    Descent(length=1.0, steps=2, shrink=0.25, tries=6, tolerance=0.0, radius=None)
    """

    length: float = 1.0
    steps: int = 1
    shrink: float = 0.25
    tries: int = 6
    tolerance: float = 0.0
    radius: float | None = None

    def __post_init__(self) -> None:
        given: dict[str, Any] = {
            "length": number(self.length, "length", above=0),
            "shrink": number(self.shrink, "shrink", above=0),
            "steps": whole_number(self.steps, "steps", least=1),
            "tries": whole_number(self.tries, "tries", least=1),
            "tolerance": number(self.tolerance, "tolerance", least=0),
        }
        if self.radius is not None:
            given["radius"] = number(self.radius, "radius", above=0)
        if given["shrink"] >= 1:
            raise LarcError(f"shrink is {self.shrink}; give a number between 0 and 1.")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def step(
        self, objective: Objective, factors: Factors, *, differentiable: bool = False
    ) -> StepResult:
        """Return the factors after at most ``steps`` steps, each at the length that was accepted.

        Differentiating takes an accepted length as given.
        """
        active = torch.arange(len(factors.A), device=factors.A.device)
        first = after = reach = torch.empty(0)
        spent = torch.zeros_like(active)
        for count in range(self.steps):
            asked: Objective = objective if count == 0 else objective.select(active.tolist())
            here = factors if count == 0 else factors.at(active)
            if differentiable:
                raised = asked.losses(here)
                slopes = torch.autograd.grad(raised.sum(), (here.A, here.B), create_graph=True)
                losses, gradients = raised.detach(), Factors(*slopes)
            else:
                losses, gradients = asked.gradients(here)
            if count == 0:
                first, after = losses, losses.clone()
                reach = torch.full_like(losses, self.length)
            # The loss just computed and the one accepted before differ by rounding: hold to both.
            losses = torch.minimum(after[active], losses)
            size = gradients.norm()
            slope = torch.where(size > _LEAST, -1 / size.clamp_min(_LEAST), 0.0)
            downhill = _scaled(gradients, slope)
            lengths, after[active], tries = self._accepted(
                asked, here.copy(), downhill.copy(), losses, reach[active]
            )
            spent[active] += 1 + tries
            moves = _scaled(downhill, lengths)
            factors = Factors(
                factors.A.index_add(0, active, moves.A), factors.B.index_add(0, active, moves.B)
            )
            # A length that was right is tried next, with room to grow. One that is refused would
            # be refused again, and a fitted episode is done: they cost nothing any more.
            reach[active] = (lengths / self.shrink).clamp_max(self.length)
            active = active[(lengths > 0) & (after[active] > self.tolerance)]
            if not len(active):
                break
        return StepResult(factors, first, after, spent)

    def _accepted(
        self,
        objective: Objective,
        factors: Factors,
        downhill: Factors,
        losses: Tensor,
        reach: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return for each episode the length it may go, 0 for none, its loss there, and tries."""
        lengths, after, reach = torch.zeros_like(losses), losses.clone(), reach.clone()
        tries = torch.zeros(len(losses), dtype=torch.long, device=losses.device)
        trying = torch.nonzero(losses > self.tolerance)[:, 0]
        for _ in range(self.tries):
            if not len(trying):
                break
            before = factors.at(trying)
            there = before.combine(_scaled(downhill.at(trying), reach[trying]), torch.add)
            with torch.no_grad():
                reached = objective.select(trying.tolist()).losses(there)
            tries[trying] += 1
            good = reached <= losses[trying]
            if self.radius is not None:
                good &= product_norm(there) <= product_norm(before).clamp_min(self.radius)
            taken = trying[good]
            lengths[taken], after[taken] = reach[taken], reached[good]
            trying = trying[~good]
            reach[trying] *= self.shrink
        return lengths, after, tries


def _scaled(factors: Factors, by: Tensor) -> Factors:
    """Return a stack of factors, each multiplied by its own number."""
    return factors.map(lambda tensor: tensor * by[:, None, None])


def product_norm(factors: Factors) -> Tensor:
    """Return the Frobenius norm of ``B A``, from matrices of the size of the rank.

    Examples
    --------
    >>> product_norm(Factors(torch.ones(1, 2), torch.full((2, 1), 3.0)))
    tensor(6.)
    """
    read, write = factors.A @ factors.A.mT, factors.B.mT @ factors.B
    return (read * write).sum((-2, -1)).clamp_min(0).sqrt()


#: Rules by the names that settings give them; add one of your own.
RULES: dict[str, type[Any]] = {"sgd": SGD, "descent": Descent, "rmsprop": RMSprop}


def parse_rule(text: str) -> UpdateRule:
    """Return the rule that a setting names: its name, then its first numbers, then others by name.

    The name is one of `RULES`, or ``module:Class`` for a rule of one's own.

    Examples
    --------
    >>> parse_rule("sgd:0.1")
    SGD(step_size=0.1)
    >>> parse_rule("descent:1.0:8:radius=4.0")
    Descent(length=1.0, steps=8, shrink=0.25, tries=6, tolerance=0.0, radius=4.0)
    >>> parse_rule("larc.rules:SGD:0.5")
    SGD(step_size=0.5)
    >>> parse_rule("momentum:0.9")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 'momentum:0.9' names no update rule; write sgd:STEP_SIZE,
    descent:LENGTH:STEPS, or module:Class for one of your own.
    """
    if not isinstance(text, str):
        raise LarcError(f"an update rule is named by a text, not by {type(text).__name__}.")
    name, *parts = text.split(":")
    rule = RULES.get(name)
    if rule is None and is_object_name(":".join([name, *parts[:1]])):
        rule, parts = load_object(":".join([name, parts[0]]), "rule"), parts[1:]
    try:
        if rule is not None:
            names = [one.name for one in fields(rule) if not one.metadata.get("later")]
            given: dict[str, Any] = {}
            for position, part in enumerate(parts):
                key, _, value = part.rpartition("=")
                given[key or names[position]] = int(value) if value.isdigit() else float(value)
            parsed: UpdateRule = rule(**given)
            rule_facts(parsed)  # refuses one that could not be saved
            return parsed
    except LarcError:
        raise
    except (TypeError, ValueError, IndexError):
        pass
    raise LarcError(
        f"{text!r} names no update rule; write sgd:STEP_SIZE, descent:LENGTH:STEPS, or "
        "module:Class for one of your own."
    )


def rule_facts(rule: UpdateRule) -> dict[str, Any]:
    """Return a rule as plain facts: its name and its fields.

    Examples
    --------
    >>> rule_facts(SGD(0.5))
    {'name': 'SGD', 'step_size': 0.5}
    """
    if not is_dataclass(rule) or isinstance(rule, type):
        raise LarcError(f"the rule {rule!r} is no dataclass; its fields are saved with an episode.")
    try:
        # As they will be read back, so that a saved rule equals the one it was saved from.
        facts: dict[str, Any] = json.loads(json.dumps(asdict(rule)))
    except (TypeError, ValueError) as error:
        raise LarcError(f"a field of the rule {rule!r} cannot be saved as JSON.") from error
    # As ever where nothing newer is asked for: files from before are still the same files.
    for one in fields(rule):
        if one.metadata.get("later") and facts[one.name] == one.default:
            del facts[one.name]
    return {"name": type(rule).__name__, **facts}


def rule_text(rule: UpdateRule) -> str:
    """Return the text that `parse_rule` makes an equal rule of.

    Examples
    --------
    >>> rule_text(SGD(0.1, slowing=0.5))
    'sgd:step_size=0.1:slowing=0.5'
    >>> parse_rule(rule_text(Descent(0.25))) == Descent(0.25)
    True
    """
    names = {kind: name for name, kind in RULES.items()}
    kind = type(rule)
    name = names.get(kind, f"{kind.__module__}:{kind.__qualname__}")
    facts = {key: value for key, value in rule_facts(rule).items() if key != "name"}
    return ":".join([name, *(f"{k}={v!r}" for k, v in facts.items() if v is not None)])
