"""Templates: what a stream is made from, and the controller it becomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch

from larc.domains.ci.experts import Hedge4
from larc.domains.ci.hedge_replay import HedgeExpert
from larc.domains.ci.prompter import REMEMBERED, JobPrompter
from larc.domains.ci.strategies import TRAINED
from larc.errors import LarcError
from larc.learner import Learner
from larc.plugins import is_object_name
from larc.questions import Limits
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
Offers = Callable[[str], tuple[str, SlowState] | None]
#: The most tokens of a job's prompt: it shows two earlier cases, and names have any length.
JOB_TOKENS = 1024
#: Templates that are always there.
BUILT_IN = {
    "default": TemplateSpec(),
    "plain": TemplateSpec(experts=[], sleep=False),
    # As `larc demo` learns: one step of feedback can be seen.
    "playground": TemplateSpec(experts=[], sleep=False, rule="descent:1.0"),
    "solo": TemplateSpec(solo=True),
    "sham": TemplateSpec(
        strategies=[
            StrategySpec(name="keep"),
            StrategySpec(name="reset", retention="reset"),
            StrategySpec(name="sham", sham=True),
        ],
        sleep=False,
    ),
    # As the study of CI jobs plays them: every strategy answers every job.
    "ci": TemplateSpec(
        domain="ci",
        strategies=[
            StrategySpec(
                name=one.name,
                view="remembered" if one.view == REMEMBERED else "plain",
                retention=one.retention,
                sham=one.sham,
            )
            for one in TRAINED
        ],
        experts=[],
        sleep=False,
    ),
}


@dataclass(frozen=True)
class Start:
    """A frozen model and a slow state of it that streams may start from, by their names."""

    substrate: Substrate
    slow: SlowState
    model: str
    state: str


class Models:
    """The frozen models and slow states that a server was started with; templates name them.

    Parameters
    ----------
    starts
        Each model with each of its slow states; the first is for templates that name none.
    rule
        The update rule of streams whose template names none; the slow state's if empty.
    offers
        Returns the name and slow state of a digest, of those that were offered since.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> slow = larc.SlowState.initial(substrate, seed=1)
    >>> models = Models([Start(substrate, slow, "tiny", "untrained")])
    >>> models.controller(TemplateSpec(), models.start(TemplateSpec(model="tiny")), stream=7)
    <Controller of <Session of keep, reset: 0 events, ...>: 0 labels judged, ...>
    """

    def __init__(
        self, starts: Sequence[Start], rule: str = "", offers: Offers | None = None
    ) -> None:
        self.starts, self.rule, self._offers = tuple(starts), rule, offers
        self._moved: dict[str, Start] = {}
        # The service's log tells labels that come again; a session need not remember any.
        self.limits = SessionLimits(labelled=0)

    @property
    def versions(self) -> str:
        """What a batch was computed with, for whoever wants to compute it again."""
        about = {
            "larc": version("larc-lm"),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "slow": [one.slow.digest[:16] for one in self.starts],
        }
        return json.dumps(about, sort_keys=True)

    def start(self, template: TemplateSpec) -> Start:
        """Return the model and slow state that a template names; the first, where it names none."""
        for one in self.starts:
            if template.model in ("", one.model) and template.slow_state in ("", one.state):
                return one
        names = ", ".join(f"{one.model} with {one.state}" for one in self.starts)
        raise Problem(
            "invalid",
            f"the service has no model {template.model or 'at all'!r} with the slow state "
            f"{template.slow_state or 'of any name'!r}; it has {names}.",
        )

    def learner(self, start: Start, rule: str = "", domain: str = "") -> Learner:
        """Return a learner of a slow state; prompts of jobs may be longer than others."""
        text = rule or self.rule
        limits = Limits(prompt=JOB_TOKENS) if domain == "ci" else None
        rules = parse_rule(text) if text else None
        return Learner(start.substrate, start.slow, rules, limits=limits)

    def spec(self, template: TemplateSpec) -> dict[str, Any]:
        """Return a template as it is kept: with the digests of its model and slow state.

        Code of one's own is the operator's to bring, never a request's.
        """
        names = [one.name for one in template.strategies] + template.given + [MIXTURE]
        free = [name for expert in _experts(template) for name in expert.names]
        if len({*names, *free}) < len(names) + len(free):
            raise Problem("invalid", "two predictors have one name; name each differently.")
        for text in [template.rule, *(one.rule for one in template.strategies)]:
            checked_rule(text)
        slow = self.start(template).slow
        kept = template.kept()
        rule = template.rule or self.rule
        return {**kept, "rule": rule, "slow": slow.digest, "substrate": slow.substrate}

    def controller(self, template: TemplateSpec, start: Start, stream: int) -> Controller:
        """Return a fresh controller for a stream."""
        strategies = [
            Strategy(
                one.name,
                view=one.view,
                retention=one.retention,
                sham=one.sham,
                scale=one.scale,
                rule=one.rule,
            )
            for one in template.strategies
        ]
        learner = self.learner(start, template.rule, template.domain)
        seed = template.seed * 2**32 + stream
        prompter = JobPrompter() if template.domain == "ci" else None
        session = Session(learner, strategies, prompter, seed=seed, limits=self.limits)
        experts: list[str | Expert] = [*_experts(template), *template.given]
        sleep = SleepSettings() if template.sleep else None
        return Controller(session, experts, ForecasterSettings(sleep=sleep))

    def checked(self, spec: str) -> tuple[TemplateSpec, Start]:
        """Return a template that was kept and what its streams start from.

        By digest and not by name: it is refused where the service has another state by that name.
        """
        kept = json.loads(spec)
        start = self.known(kept.pop("slow", ""), kept.pop("substrate", ""))
        if start is not None:
            return TemplateSpec(**kept), start
        raise Problem(
            "damaged",
            "it was made with another model or slow state; start the service with it.",
        )

    def known(self, slow: str, substrate: str) -> Start | None:
        """Return the start of a slow state: one the service was started with, or one offered."""
        for one in (*self.starts, *self._moved.copy().values()):
            if (one.slow.digest, one.slow.substrate) == (slow, substrate):
                return one
        bases = [one.substrate for one in self.starts if one.slow.substrate == substrate]
        given = self._offers(slow) if bases and self._offers is not None else None
        if given is None:
            return None
        name, state = given
        state.check_fits(bases[0])
        self._moved[slow] = Start(bases[0], state.to(bases[0].device), bases[0].name, name)
        return self._moved[slow]

    def with_offers(self, offers: Offers) -> Models:
        """Return the same models, with slow states that are offered while the service runs."""
        return Models(self.starts, self.rule, offers)

    def moved(self, spec: str, name: str, digest: str) -> str:
        """Return a stream's spec with another slow state of the same model."""
        return json.dumps({**json.loads(spec), "slow": digest, "slow_state": name}, sort_keys=True)


def _experts(template: TemplateSpec) -> list[Expert]:
    """Return fresh experts of a template: those it names, and those of its domain."""
    experts = [make_expert(name) for name in template.experts]
    return [*experts, HedgeExpert(Hedge4())] if template.domain == "ci" else experts


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
