"""The units of the prefix intervention, for each seed and repository of a CI run.

`Repeat` replays the run's own strategies and must give the probabilities that the run saved;
`Added` replays the strategies added here. They are replayed apart because energies depend in
their last bits on what shares a batch: only the run's own strategies, all of them together, give
its own numbers again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray

from larc.domains.ci.hedge_replay import HEDGE
from larc.domains.ci.prompter import REMEMBERED, recorded_job
from larc.errors import LarcError
from larc.feedback import Label
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet, to_parquet
from larc.objectives import FeedbackObjective
from larc.progress import Display
from larc.residual import Factors
from larc.runs.engines import Files
from larc.runs.run import MANIFEST, Run
from larc.runs.settings import Execution
from larc.runs.units import ModelUnit, do_all, hashes
from larc.stream.question import Question, Recorded, labels_of, questions_of
from larc.stream.queue import Arrive, Ask
from larc.stream.session import Session
from larc.stream.strategies import Strategy
from larc.studies.audited_run import REPLAY
from larc.studies.ci.carrying import audit_units
from larc.studies.ci.units import LEVELS, Audit, audit_name
from larc.studies.prefix.queue import Prefix
from larc.studies.prefix.settings import PrefixSettings
from larc.studies.replay import Events, PredictionTable, ordered, replay, table_content
from larc.substrate import Substrate

TENTH = 0.1
# What the run calls the strategies that are repeated, and what they are called here.
REPEATED = {"P1M1": "CARRY_1", "P0M1": "RESET"}
# A strategy of the run, if it has it, whose updates are measured beside them.
WATCHED = {"DESCENT_M1": "DESCENT"}
ADDED = (
    Strategy("CARRY_TENTH", REMEMBERED, "keep", scale=TENTH),
    Strategy("LATEST_1", REMEMBERED, "latest"),
    Strategy("LATEST_TENTH", REMEMBERED, "latest", scale=TENTH),
)
# What is kept of the run's own predictions: the full replay, and HEDGE4 for the prefix.
KEPT = (*REPEATED, "PERM_M1", HEDGE)
_UPDATE = ("seed", "repository", "batch", "time", "jobs", "path", "before", "after", "increment")


@dataclass(frozen=True, kw_only=True)
class PrefixUnit(ModelUnit):
    """An audit of the run, up to when the prefix's last job is asked.

    Attributes
    ----------
    audit
        The run's audit, with everything it depended on.
    cutoff
        When the last job of the prefix is asked.
    """

    KIND: ClassVar[str]
    audit: Audit
    cutoff: int

    @property
    def name(self) -> str:
        """The unit's name: its kind, the seed and the repository."""
        return audit_name(self.KIND, self.audit.seed, self.audit.repository)

    def play(self, substrate: Substrate, player: PrefixPlayer, display: Display) -> Files:
        """Replay the prefix, and measure each update on its own batch."""
        items = [recorded_job(job) for job in self.audit.audit]
        replay(self, substrate, player, prefix_events(items, self.cutoff), display)
        return player.files()


@dataclass(frozen=True, kw_only=True)
class Repeat(PrefixUnit):
    """The run's own strategies again; ``saved`` has the predictions that they must give."""

    KIND = "repeat"
    saved: bytes

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Replay the run's own strategies, stopping at the first probability that differs."""
        expected = {
            (row["path"], row["name"]): row["policy"] for row in from_parquet(self.saved, self.name)
        }
        session = self.audit.audit_session(substrate)
        player = PrefixPlayer(session, self.audit.seed, REPEATED, WATCHED, expected)
        return self.play(substrate, player, display)


@dataclass(frozen=True, kw_only=True)
class Added(PrefixUnit):
    """The strategies that the intervention adds."""

    KIND = "paths"

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Replay them."""
        session = self.audit.audit_session(substrate, ADDED)
        names = {strategy.name: strategy.name for strategy in ADDED}
        return self.play(substrate, PrefixPlayer(session, self.audit.seed, names), display)


class PrefixPlayer:
    """Plays a session, keeps some of its answers under new names, and measures their updates.

    Parameters
    ----------
    session, seed
        Who answers.
    names
        The strategies to keep, and what they are called here.
    watched
        Further ones whose updates alone are measured.
    expected
        Probabilities that must come out bit for bit, by strategy and question.
    """

    def __init__(
        self,
        session: Session,
        seed: int,
        names: Mapping[str, str],
        watched: Mapping[str, str] | None = None,
        expected: Mapping[tuple[str, str], Sequence[float]] | None = None,
    ) -> None:
        self.session, self.seed, self.names = session, seed, names
        self.measured = {**names, **(watched or {})}
        self.expected = expected
        self.predictions = PredictionTable(seed, LEVELS)
        self.updates: list[list[Any]] = []
        self.batches = 0
        self.ledger = session.learner.substrate.ledger

    def ask(self, event: Ask[Recorded]) -> None:
        """Answer the questions of one moment."""
        with self.ledger.operation("read"):
            answers = self.session.ask(questions_of(event.items))
        if self.expected is not None:
            _check_equal(self.seed, event.items, answers, self.expected)
        by_path = {name: answers[strategy] for strategy, name in self.names.items()}
        self.predictions.add_all(event.items, by_path)

    def learn(self, event: Arrive[Recorded]) -> None:
        """Learn from the labels of one moment, and measure what that did."""
        self.batches += 1
        about = [self.seed, event.items[0].stream, self.batches, event.time, len(event.items)]
        done = measured(self.session, event.items, self.measured)
        self.updates += [[*about, name, *numbers] for name, numbers in done.items()]

    def save(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write everything that the next event depends on."""
        progress = {"rows": self.predictions.rows, "updates": self.updates, "batches": self.batches}
        self.session.save(path, {**progress, **notes})

    def restore(self, path: Path, questions: Sequence[Question]) -> dict[str, Any]:
        """Go back to what was saved."""
        notes: dict[str, Any] = self.session.restore(path, questions)
        self.predictions.rows, self.updates = notes["rows"], notes["updates"]
        # Version 0.1 did not keep the number; every batch of feedback has an update.
        counted = max((row[2] for row in self.updates), default=0)
        self.batches = notes.get("batches", counted)
        return notes

    def files(self) -> Files:
        """Return the tables of predictions and of updates."""
        return {
            "predictions.parquet": self.predictions.content(),
            "updates.parquet": table_content(_UPDATE, self.updates),
        }


def carry_out(run: Run, prefix: Prefix, settings: PrefixSettings, execution: Execution) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    source = prefix.about.run
    audits = audit_units(source, prefix.about.split, prefix.about.settings)
    saved = [source.unit_file(audit.name, "predictions.parquet") for audit in audits]
    if not run.is_done(REPLAY):
        facts = {"manifest": sha256(source.read(MANIFEST)), "settings": source.settings}
        files = {"predictions.parquet": _kept(saved), "run.json": as_json(facts)}
        run.finish_unit(REPLAY, files)
    digest = sha256(run.unit_file(REPLAY, "predictions.parquet"))
    run.record("replay read", {"results": settings.results, "predictions": {REPLAY: digest}})
    about: list[dict[str, Any]] = [
        {
            "settings": audit.settings,
            "audit": audit,
            "cutoff": prefix.cutoffs[audit.repository],
        }
        for audit in audits
    ]
    repeats = [Repeat(**facts, saved=content) for facts, content in zip(about, saved, strict=True)]
    do_all(run, repeats, execution, display)
    run.record("replay repeated", {"predictions": hashes(run, repeats, "predictions.parquet")})
    added = [Added(**facts) for facts in about]
    do_all(run, added, execution, display)
    run.record("predictions written", {"predictions": hashes(run, added, "predictions.parquet")})


def _kept(saved: Sequence[bytes]) -> bytes:
    rows = [row for content in saved for row in from_parquet(content, "the run's predictions")]
    return to_parquet([row for row in rows if row["path"] in KEPT])


def prefix_events(items: Sequence[Recorded], cutoff: float) -> Events:
    """Return the events up to the last question of a prefix; what arrives later informs none.

    Examples
    --------
    >>> from larc.stream.question import Question
    >>> items = [Recorded(Question(name, ("yes", "no")), asked, 5, label=0)
    ...          for name, asked in (("a", 0), ("b", 5))]
    >>> [type(event).__name__ for event in prefix_events(items, cutoff=5)]
    ['Ask', 'Ask']
    """
    events = [event for event in ordered(items) if event.time <= cutoff]
    while isinstance(events[-1], Arrive):
        events.pop()
    return events


def _check_equal(
    seed: int,
    items: Sequence[Recorded],
    answers: Mapping[str, Sequence[NDArray[Any]]],
    expected: Mapping[tuple[str, str], Sequence[float]],
) -> None:
    """Stop at the first probability that is not the one the run saved, bit for bit."""
    for number, item in enumerate(items):
        for strategy, name in REPEATED.items():
            difference = abs(answers[strategy][number] - expected[strategy, item.name]).max()
            if difference != 0:
                raise LarcError(
                    f"{name} is not what the run saved as {strategy}: seed {seed}, job {item.name} "
                    f"of {item.stream} differs by {difference:.3g}; repeat the study with the "
                    "machine, the versions and the sources that made the run."
                )


def measured(
    session: Session, items: Sequence[Recorded], names: Mapping[str, str]
) -> dict[str, tuple[float, float, float]]:
    """Let labels arrive; returns what the update of each path did, by the path's new name.

    That is the mean cross-entropy of the batch before and after it, on the prompts kept from when
    its questions were asked, and the norm of the difference that was realised. The loss before is
    of the pass that gave the gradient; the one after is of a pass without a gradient.
    """
    learner, ledger = session.learner, session.learner.substrate.ledger
    chosen = [one for one in session.strategies if one.name in names and one.learns]
    labels = [
        [
            Label(session.pending[i.name].prompts[one.view], i.question.candidates, i.right)
            for i in items
        ]
        for one in chosen
    ]
    episodes = [session.episodes[one.name] for one in chosen]
    old = Factors.stack(
        [
            (episode.slow if one.retention == "latest" else episode).factors
            for one, episode in zip(chosen, episodes, strict=True)
        ]
    )
    with ledger.operation("update"):
        done = session.learn(labels_of(items))
    new = Factors.stack([episode.factors for episode in episodes])
    with ledger.operation("measure"), torch.no_grad():
        objective = FeedbackObjective.of(
            learner.substrate,
            learner.slow.boundary,
            labels,
            learner.limits,
            normalise=learner.slow.normalise,
        )
        after = objective.losses(new).tolist()
    moved = new.combine(old, torch.sub).norm().tolist()
    return {
        names[one.name]: (done[one.name].loss, *numbers)
        for one, *numbers in zip(chosen, after, moved, strict=True)
    }
