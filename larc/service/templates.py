"""Templates: what a stream is made from, and the controller it becomes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import torch

from larc.errors import LarcError
from larc.io.hashes import hash_json
from larc.learner import Learner
from larc.plugins import is_object_name
from larc.rules import UpdateRule, parse_rule
from larc.service.problems import Problem
from larc.service.protocol import StrategySpec, TemplateSpec
from larc.state import SlowState
from larc.stream.controller import Controller
from larc.stream.experts import Expert, make_expert
from larc.stream.mixing.forecaster import ForecasterSettings
from larc.stream.mixing.sleep import SleepSettings
from larc.stream.session import Session, SessionLimits
from larc.stream.strategies import Strategy
from larc.substrate.frozen import Substrate

MIXTURE = "mixture"
#: Templates that are always there.
BUILT_IN = {
    "default": TemplateSpec(),
    "plain": TemplateSpec(experts=[], sleep=False),
    "solo": TemplateSpec(solo=True),
    "sham": TemplateSpec(
        strategies=[
            StrategySpec(name="keep"),
            StrategySpec(name="reset", retention="reset"),
            StrategySpec(name="sham", sham=True),
        ],
        sleep=False,
    ),
}


@dataclass(frozen=True)
class Models:
    """The frozen model and the slow state that every stream of a server starts from.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> models = Models(substrate, larc.SlowState.initial(substrate, seed=1))
    >>> models.controller(TemplateSpec(), stream=7)
    <Controller of <Session of keep, reset: 0 events, ...>: 0 labels judged, ...>
    """

    substrate: Substrate
    slow: SlowState
    rule: str = ""
    # The service's log tells labels that come again; a session need not remember any.
    limits: SessionLimits = field(default_factory=lambda: SessionLimits(labelled=0))

    @property
    def versions(self) -> str:
        """What a batch was computed with, for whoever wants to compute it again."""
        about = {
            "larc": version("larc-lm"),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "slow": self.slow.digest[:16],
        }
        return json.dumps(about, sort_keys=True)

    def learner(self, rule: str = "") -> Learner:
        """Return a learner of the server's slow state."""
        text = rule or self.rule
        return Learner(self.substrate, self.slow, parse_rule(text) if text else None)

    def spec(self, template: TemplateSpec) -> dict[str, Any]:
        """Return a template as it is kept with a stream: with the model and state it is bound to.

        Code of one's own is the operator's to bring, never a request's.
        """
        names = [one.name for one in template.strategies] + template.given + [MIXTURE]
        free = [name for expert in template.experts for name in make_expert(expert).names]
        if len({*names, *free}) < len(names) + len(free):
            raise Problem("invalid", "two predictors have one name; name each differently.")
        for text in [template.rule, *(one.rule for one in template.strategies)]:
            checked_rule(text)
        kept = template.model_dump()
        rule = template.rule or self.rule
        return {
            **kept,
            "rule": rule,
            "slow": self.slow.digest,
            "substrate": self.slow.substrate,
        }

    def controller(self, template: TemplateSpec, stream: int) -> Controller:
        """Return a fresh controller for a stream."""
        strategies = [
            Strategy(
                one.name, retention=one.retention, sham=one.sham, scale=one.scale, rule=one.rule
            )
            for one in template.strategies
        ]
        learner = self.learner(template.rule)
        seed = template.seed * 2**32 + stream
        session = Session(learner, strategies, seed=seed, limits=self.limits)
        experts: list[str | Expert] = [make_expert(name) for name in template.experts]
        experts += template.given
        sleep = SleepSettings() if template.sleep else None
        return Controller(session, experts, ForecasterSettings(sleep=sleep))

    def checked(self, spec: str) -> TemplateSpec:
        """Return the template kept with a stream, refusing one of another model."""
        kept = json.loads(spec)
        if (kept.pop("slow"), kept.pop("substrate")) != (self.slow.digest, self.slow.substrate):
            raise Problem(
                "damaged",
                "the stream was made with another model or slow state; start the service with it.",
            )
        return TemplateSpec(**kept)


def checked_rule(text: str) -> UpdateRule | None:
    """Return the rule a request names: one of the built-in ones, with reasonable numbers.

    Examples
    --------
    >>> checked_rule("sgd:0.1")
    SGD(step_size=0.1)
    >>> checked_rule("os:system")
    Traceback (most recent call last):
    ...
    larc.service.problems.Problem: the rule 'os:system' names code; give sgd:... or descent:...
    """
    if not text:
        return None
    if is_object_name(":".join(text.split(":")[:2])):
        raise Problem("invalid", f"the rule {text!r} names code; give sgd:... or descent:...")
    try:
        rule = parse_rule(text)
    except LarcError as error:
        raise Problem("invalid", str(error)) from error
    if getattr(rule, "steps", 0) > 64 or getattr(rule, "tries", 0) > 16:
        raise Problem("invalid", f"the rule {text!r} takes too many steps; give at most 64.")
    return rule


def digest(spec: dict[str, Any]) -> str:
    """Return a name for exactly this template."""
    return hash_json(spec)
