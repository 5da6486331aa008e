"""Units of states that were trained through the training window."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from larc.domains.ci.prompter import recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.learner import Learner
from larc.progress import Display
from larc.rules import parse_rule
from larc.runs.engines import Files
from larc.state import SlowState
from larc.stream.question import Recorded
from larc.stream.strategies import Strategy
from larc.studies.ci.prompts import causal_prompts
from larc.studies.ci.units import LEVELS, VIEWS, AuditUnit, Fit, JobUnit, audit_name
from larc.studies.fitting import fit_trainer
from larc.studies.replay import PredictionTable, SessionPlayer, ordered, replay
from larc.substrate import Substrate
from larc.training.base import AdamW
from larc.training.streams import StreamSettings, StreamTrainer


def through_strategies(rule: str) -> tuple[Strategy, ...]:
    """Return the paper's strategies from a state trained through the window, under its rule."""
    return tuple(replace(one, name=f"THROUGH_{one.name}", rule=rule) for one in TRAINED)


def through_name(seed: int) -> str:
    """Return the name of the unit that trains a state through the window.

    Examples
    --------
    >>> through_name(7)
    'through-7'
    """
    return f"through-{seed}"


@dataclass(frozen=True, kw_only=True)
class ThroughLabels(Fit):
    """The first updates of such a training, where not all go through the window: the paper's."""

    @property
    def name(self) -> str:
        """The unit's name: the seed."""
        return f"through-labels-{self.seed}"

    @property
    def share(self) -> float:
        """What is left of the epoch by the updates that go through the window."""
        return 1 - self.settings.through_share


@dataclass(frozen=True, kw_only=True)
class ThroughFit(JobUnit):
    """The training of one seed through the training window, to as many updates as `Fit` makes."""

    @property
    def name(self) -> str:
        """The unit's name: the seed."""
        return through_name(self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Train on both views of every repository's jobs, each a stream with its real delays."""
        settings = self.settings
        put, _ = causal_prompts([recorded_job(job) for job in self.training])
        streams: dict[tuple[str, str], list[Recorded]] = {}
        for item, prompts in put:
            for view in VIEWS:
                question = replace(item.question, prompt=prompts[view], source=None)
                streams.setdefault((item.stream, view), []).append(replace(item, question=question))
        trainer = StreamTrainer(
            substrate,
            self.original(substrate),
            [streams[key] for key in sorted(streams)],
            StreamSettings(
                gradient=settings.through,  # type: ignore[arg-type]  # checked by the settings
                window=settings.window,
                batch=settings.windows,
                rule=parse_rule(settings.through_rule or settings.rule),
                seed=self.seed,
                outer=AdamW(learning_rate=settings.through_rate or settings.learning_rate),
                step_rate=settings.step_rate,
            ),
            settings.limits,
        )
        epoch = math.ceil(len(VIEWS) * len(put) / settings.batch)
        updates = epoch - round((1 - settings.through_share) * epoch)
        with substrate.ledger.operation("fit"):
            return fit_trainer(self, trainer, updates, substrate, display)


@dataclass(frozen=True, kw_only=True)
class ThroughAudit(AuditUnit):
    """The same from a state trained through the training window, in a session of its own.

    So what the paper's strategies say does not depend on whether these are asked for.
    """

    through: bytes

    @property
    def name(self) -> str:
        """The unit's name: the seed and the repository."""
        return audit_name("through-audit", self.seed, self.repository)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Replay the strategies in causal order."""
        settings = self.settings
        slow = SlowState.from_bytes(self.through, self.name).to(substrate.device)
        rule = slow.rule or settings.through_rule or settings.rule
        learner = Learner(substrate, slow, parse_rule(rule), limits=settings.limits)
        _, past = causal_prompts([recorded_job(job) for job in self.training])
        session = self.session(learner, through_strategies(rule), past.fork(self.repository), {})
        player = SessionPlayer(session, None, PredictionTable(self.seed, LEVELS))
        items = [recorded_job(job) for job in self.audit]
        replay(self, substrate, player, list(ordered(items)), display)
        return player.files()
