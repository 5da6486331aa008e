"""The units of the stream study.

For each seed a task-matched training (`Fit`), and for each seed and stream an `Audit`. A training
sees only labels that arrive before the first question of any audit is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from larc.feedback import Label
from larc.learner import Learner
from larc.progress import Display
from larc.rules import parse_rule
from larc.runs.engines import Files
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import ModelUnit, do_all, hashes
from larc.state import SlowState
from larc.stream.experts import make_expert
from larc.stream.prompter import make_prompter
from larc.stream.question import Labelled, Recorded
from larc.stream.queue import split_streams
from larc.stream.session import Session
from larc.stream.strategies import Strategy
from larc.studies.asking import check_questions
from larc.studies.replay import (
    PredictionTable,
    SessionPlayer,
    fit_labels,
    item_weights,
    ordered_after,
    replay,
    session_limits,
)
from larc.studies.settings import fit_name
from larc.studies.stream.experts import Together
from larc.studies.stream.questions import Questions
from larc.studies.stream.settings import StreamSettings
from larc.substrate import Substrate

STRATEGIES = (
    Strategy("RESET", retention="reset"),
    Strategy("CARRY"),
    Strategy("LATEST", retention="latest"),
    Strategy("PERM", sham=True),
    Strategy("UNTRAINED", start="untrained"),
)
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class StreamUnit(ModelUnit):
    """What the units of the study share: a seed, and the questions."""

    settings: StreamSettings
    seed: int
    training: Sequence[Recorded]
    late: Sequence[Recorded]
    audit: Sequence[Recorded]

    def untrained(self, substrate: Substrate) -> SlowState:
        """Return the state from before the training."""
        settings = self.settings
        return SlowState.initial(
            substrate, rank=settings.rank, seed=self.seed, boundary=settings.boundary
        )


@dataclass(frozen=True, kw_only=True)
class Fit(StreamUnit):
    """The task-matched training of one seed."""

    @property
    def name(self) -> str:
        """The unit's name: the seed."""
        return fit_name("", self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Train one epoch on the labels that arrive in time, weighted by the stream's levels."""
        # Everything that will be asked: what cannot be scored is refused before any training.
        asked = [*self.training, *self.late, *self.audit]
        named = [
            (f"{item.name!r} of {item.stream!r}", item.question.prompt, item.question.candidates)
            for item in asked
        ]
        check_questions(substrate, named, self.settings.limits)
        labels = [
            Label(item.question.prompt, item.question.candidates, item.right)
            for item in self.training
        ]
        weights = item_weights(self.training).tolist()
        start = self.untrained(substrate)
        return fit_labels(self, self.seed, substrate, display, start, labels, weights)


@dataclass(frozen=True, kw_only=True)
class Audit(StreamUnit):
    """The replay of one stream's audit with one seed."""

    number: int
    fitted: bytes

    @property
    def name(self) -> str:
        """The unit's name: the seed and the stream's number; its own name may be no file's."""
        return f"audit-{self.seed}-{self.number:04}"

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Replay every strategy and the experts, in causal order."""
        settings = self.settings
        trained = SlowState.from_bytes(self.fitted, self.name).to(substrate.device)
        learner = Learner(substrate, trained, parse_rule(settings.rule), limits=settings.limits)
        session = Session(
            learner,
            STRATEGIES,
            make_prompter(settings.prompter),
            seed=self.seed,
            starts={"untrained": self.untrained(substrate)},
            limits=session_limits(settings),
        )
        experts = Together([make_expert(text) for text in settings.experts])
        experts.learn([Labelled(item.question, item.right) for item in self.training])
        player = SessionPlayer(session, experts, PredictionTable(self.seed), history=self.late)
        replay(self, substrate, player, ordered_after(self.late, self.audit), display)
        return player.files()


def carry_out(
    run: Run, questions: Questions, settings: StreamSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    run.record("questions read", {"counts": questions.counts})
    parts = (questions.training, questions.late, questions.audit)
    fits = [
        Fit(settings=settings, seed=seed, training=parts[0], late=parts[1], audit=parts[2])
        for seed in settings.seeds
    ]
    do_all(run, fits, execution, display)
    run.record("training finished", {"slow": hashes(run, fits, "slow.safetensors")})
    streams = split_streams(questions.audit, stream=lambda item: item.stream)
    audits = [
        Audit(
            settings=settings,
            seed=seed,
            training=[item for item in questions.training if item.stream == stream],
            late=[item for item in questions.late if item.stream == stream],
            audit=audit,
            number=number,
            fitted=run.unit_file(fit_name("", seed), "slow.safetensors"),
        )
        for seed in settings.seeds
        for number, (stream, audit) in enumerate(streams.items())
    ]
    do_all(run, audits, execution, display)
    written = hashes(run, audits, "predictions.parquet")
    run.record("predictions written", {"predictions": written})
