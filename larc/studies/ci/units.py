"""The units of the continuous-integration study.

For each seed a task-matched training (`Fit`) and the history of the control strategies (`History`);
for each seed and repository an `Audit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from larc.domains.ci.calibration import fit_offsets
from larc.domains.ci.hedge_replay import HedgeExpert, hedge_after
from larc.domains.ci.jobs import Job
from larc.domains.ci.prompter import REMEMBERED, JobPrompter, recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.feedback import Label
from larc.io.states import pack_state, unpack_state
from larc.learner import Learner
from larc.progress import Display
from larc.residual import Factors
from larc.rules import parse_rule
from larc.runs.engines import Files
from larc.runs.units import ModelUnit
from larc.state import SlowState
from larc.stream.prompter import PLAIN
from larc.stream.question import Question, Recorded, labels_of, questions_of
from larc.stream.queue import Arrive, Ask
from larc.stream.session import Session
from larc.stream.strategies import Retention, Strategy
from larc.studies.asking import check_questions
from larc.studies.ci.prompts import causal_prompts
from larc.studies.ci.settings import CISettings
from larc.studies.replay import (
    PredictionTable,
    SessionPlayer,
    fit_labels,
    item_weights,
    ordered,
    replay,
    session_limits,
)
from larc.studies.settings import fit_name
from larc.substrate import Substrate

HISTORY_FILE = "larc history of control paths, version 1"
VIEWS = (PLAIN, REMEMBERED)
LEVELS = ("repository", "commit")
# Ways to keep less, or more carefully: what a controller chooses among.
_KINDS: tuple[tuple[str, Retention, float, str], ...] = (
    ("LATEST_", "latest", 1.0, ""),
    ("TENTH_", "keep", 0.1, ""),
    ("DESCENT_", "keep", 1.0, "descent:0.1"),
)
FURTHER = tuple(
    Strategy(f"{name}{memory}", view, retention, scale=scale, rule=rule)
    for name, retention, scale, rule in _KINDS
    for memory, view in (("M0", PLAIN), ("M1", REMEMBERED))
)


def control_strategies(offsets: tuple[float, ...]) -> tuple[Strategy, ...]:
    """Return the strategies that start from before the task-matched training."""
    return (
        Strategy("ORIGINAL", REMEMBERED, "keep", start="original"),
        Strategy("CALIBRATED", REMEMBERED, "keep", start="original", offsets=offsets),
    )


def audit_strategies(settings: CISettings, offsets: tuple[float, ...]) -> tuple[Strategy, ...]:
    """Return every strategy that an audit replays."""
    return (*TRAINED, *control_strategies(offsets), *(FURTHER if settings.further else ()))


@dataclass(frozen=True, kw_only=True)
class JobUnit(ModelUnit):
    """What the units of the study share: a seed, the training jobs, and the state to start from."""

    settings: CISettings
    seed: int
    training: Sequence[Job]
    start: bytes = b""

    def original(self, substrate: Substrate) -> SlowState:
        """Return the state from before the task-matched training."""
        if self.start:
            return SlowState.from_bytes(self.start, "the start").to(substrate.device)
        settings = self.settings
        return SlowState.initial(
            substrate, rank=settings.rank, seed=self.seed, boundary=settings.boundary
        )

    def session(
        self,
        learner: Learner,
        strategies: Sequence[Strategy],
        prompter: JobPrompter,
        starts: Mapping[str, SlowState],
    ) -> Session:
        """Return a session of some strategies."""
        return Session(
            learner,
            strategies,
            prompter,
            seed=self.seed,
            starts=starts,
            limits=session_limits(self.settings),
        )


@dataclass(frozen=True, kw_only=True)
class Fit(JobUnit):
    """The task-matched training of one seed; ``asked`` is checked first: all texts of the study."""

    asked: Sequence[tuple[str, str, Sequence[str]]] = ()

    @property
    def name(self) -> str:
        """The unit's name: the seed."""
        return fit_name("", self.seed)

    @property
    def share(self) -> float:
        """The share of an epoch that is trained."""
        return 1.0

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Train on both views of every training job, weighted by the queue's levels."""
        check_questions(substrate, self.asked, self.settings.limits)
        put, _ = causal_prompts([recorded_job(job) for job in self.training])
        labels = [
            Label(prompts[view], item.question.candidates, item.right)
            for item, prompts in put
            for view in VIEWS
        ]
        weights = np.repeat(item_weights([item for item, _ in put]), len(VIEWS)).tolist()
        start = self.original(substrate)
        return fit_labels(self, self.seed, substrate, display, start, labels, weights, self.share)


@dataclass(frozen=True, kw_only=True)
class History(JobUnit):
    """What the control strategies of one seed learn from the pooled training labels."""

    @property
    def name(self) -> str:
        """The unit's name: the seed."""
        return history_name(self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Fit the calibration, then let both control strategies learn."""
        settings = self.settings
        items = [recorded_job(job) for job in self.training]
        original = self.original(substrate)
        learner = Learner(substrate, original, parse_rule(settings.rule), limits=settings.limits)
        put, _ = causal_prompts(items)
        display.unit(self.name, len(items), 0)
        with substrate.ledger.operation("calibration"):
            start = learner.begin()
            reads = learner.read_many(
                [(start, prompts[REMEMBERED], item.question.candidates) for item, prompts in put]
            )
        offsets = fit_offsets(
            np.stack([read.double().numpy() for read in reads]),
            [item.right for item, _ in put],
            item_weights([item for item, _ in put]),
        )
        strategies = control_strategies(offsets)
        session = self.session(learner, strategies, JobPrompter(), {"original": original})
        with substrate.ledger.operation("history"):
            replay(self, substrate, HistoryPlayer(session), list(ordered(items)), display)
        tensors = {
            f"{name}.{factor}": getattr(episode.factors, factor)
            for name, episode in session.episodes.items()
            for factor in ("A", "B")
        }
        steps = {name: episode.step for name, episode in session.episodes.items()}
        facts = {"offsets": list(offsets), "steps": steps}
        return {"history.safetensors": pack_state(HISTORY_FILE, tensors, facts)}


class HistoryPlayer:
    """Holds questions whose answers nobody reads, and learns from their labels."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def ask(self, event: Ask[Recorded]) -> None:
        """Hold the questions of one moment."""
        self.session.hold(questions_of(event.items))

    def learn(self, event: Arrive[Recorded]) -> None:
        """Learn from the labels of one moment."""
        self.session.learn(labels_of(event.items))

    def save(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write everything that the next event depends on."""
        self.session.save(path, notes)

    def restore(self, path: Path, questions: Sequence[Question]) -> dict[str, Any]:
        """Go back to what was saved."""
        notes: dict[str, Any] = self.session.restore(path, questions)
        return notes


@dataclass(frozen=True, kw_only=True)
class AuditUnit(JobUnit):
    """What the replays of one repository's audit window share: its jobs."""

    audit: Sequence[Job]

    @property
    def repository(self) -> str:
        """The repository whose jobs are predicted."""
        return self.audit[0].repository


@dataclass(frozen=True, kw_only=True)
class Audit(AuditUnit):
    """The replay of one repository's audit window with one seed."""

    fitted: bytes
    history: bytes

    @property
    def name(self) -> str:
        """The unit's name: the seed and the repository."""
        return audit_name("audit", self.seed, self.repository)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Replay every strategy, and HEDGE4, in causal order."""
        items = [recorded_job(job) for job in self.audit]
        predictions = PredictionTable(self.seed, LEVELS)
        player = SessionPlayer(self.audit_session(substrate), self.expert(), predictions)
        replay(self, substrate, player, list(ordered(items)), display)
        return player.files()

    def expert(self) -> HedgeExpert:
        """Return HEDGE4 as it is after the training jobs."""
        return HedgeExpert(hedge_after(self.training).hedge)

    def audit_session(
        self, substrate: Substrate, strategies: Sequence[Strategy] | None = None
    ) -> Session:
        """Return the session of the audit at its start, with the study's strategies or with others.

        Energies depend in their last bits on what shares a physical batch. Only a session with all
        of the study's strategies gives the probabilities that the study saved, bit for bit.
        """
        settings = self.settings
        trained = SlowState.from_bytes(self.fitted, self.name).to(substrate.device)
        learner = Learner(substrate, trained, parse_rule(settings.rule), limits=settings.limits)
        _, past = causal_prompts([recorded_job(job) for job in self.training])
        prompter, starts = past.fork(self.repository), {"original": self.original(substrate)}
        if strategies is not None:
            return self.session(learner, strategies, prompter, starts)
        tensors, facts = unpack_state(self.history, HISTORY_FILE, self.name)
        chosen = audit_strategies(settings, tuple(facts["offsets"]))
        session = self.session(learner, chosen, prompter, starts)
        for name, steps in facts["steps"].items():
            episode = session.episodes[name]
            factors = Factors(tensors[f"{name}.A"], tensors[f"{name}.B"])
            episode.factors, episode.step = factors.to(substrate.device), steps
        return session


def history_name(seed: int) -> str:
    """Return the name of the unit of the control strategies' history."""
    return f"history-{seed}"


def audit_name(kind: str, seed: int, repository: str) -> str:
    """Return the name of a unit of some kind about one repository's audit.

    Examples
    --------
    >>> audit_name("audit", 7, "o/r")
    'audit-7-o_r'
    """
    return f"{kind}-{seed}-{repository.replace('/', '_')}"
