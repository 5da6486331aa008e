"""The units of the controller study.

The unit ``replay`` keeps the predictions of the run; `Mixed` mixes them, in several variants that
show what each part of the controller is worth; and for each seed and repository `Live` lets the
controller keep the states itself, so that one it has ruled out costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from larc.domains.ci.experts import EXPERTS
from larc.domains.ci.hedge_replay import HEDGE, HedgeExpert
from larc.domains.ci.jobs import Job, Observation
from larc.domains.ci.prompter import recorded_job
from larc.domains.ci.strategies import TRAINED
from larc.domains.ci.texts import TEXTS, as_text, text_experts
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet, to_parquet
from larc.progress import Display
from larc.runs.engines import Files
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import ModelUnit, Unit, do_all, hashes
from larc.stream.controller import Controller
from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from larc.stream.question import Labelled, Question, Recorded, labels_of, questions_of
from larc.stream.queue import Arrive, Ask
from larc.studies.audited_run import REPLAY, AuditedRun
from larc.studies.ci.carrying import audit_units, through_units
from larc.studies.ci.units import FURTHER, LEVELS, Audit, audit_name
from larc.studies.controller.settings import ControllerSettings
from larc.studies.replay import PredictionTable, ordered, replay
from larc.substrate import Substrate

MIXED, WORDED = "mixed", "worded"
CONTROLLER, LIVE = "CONTROLLER", "LIVE"
# What the controller chooses among, in the order in which the ablation adds it.
GROUPS = {
    "experts": (HEDGE, *EXPERTS),
    "reset": ("P0M0", "P0M1"),
    "carried": ("P1M0", "P1M1"),
    "latest": ("LATEST_M0", "LATEST_M1"),
    "shrunk": ("TENTH_M0", "TENTH_M1"),
    "descending": ("DESCENT_M0", "DESCENT_M1"),
    "reset, trained through the window": ("THROUGH_P0M0", "THROUGH_P0M1"),
    "carried, trained through the window": ("THROUGH_P1M0", "THROUGH_P1M1"),
    "text": TEXTS,
}


@dataclass(frozen=True)
class Variant:
    """One way to mix: whose predictions, and how trust is learned; ``None`` for a plain mean.

    Trust may depend on the workflow of a job, or, ``by_job``, on its workflow and name.
    """

    name: str
    predictors: tuple[str, ...]
    settings: ForecasterSettings | None
    by_job: bool = False


def variants(
    known: Sequence[str], among: Mapping[str, Sequence[str]] = GROUPS, *, contexts: bool = True
) -> list[Variant]:
    """Return the controller, and what it is without each of its parts.

    Parameters
    ----------
    known
        Who answered.
    among
        Whom the controller chooses among, in the order in which the ablation adds them.
    contexts
        Whether trust may depend on where a question comes from.

    Examples
    --------
    >>> [variant.name for variant in variants(["HEDGE4", "prior", "P0M0", "P1M0"])]
    ['CONTROLLER', 'plain mean', 'no drift', 'no contexts', 'contexts by job', 'one rate',
    'without experts', 'without reset', 'without carried', 'experts', '+ reset']
    """
    groups = {name: tuple(p for p in members if p in known) for name, members in among.items()}
    groups = {name: members for name, members in groups.items() if members}
    everybody = tuple(predictor for members in groups.values() for predictor in members)
    whole = ForecasterSettings()
    chosen = [
        Variant(CONTROLLER, everybody, whole),
        Variant("plain mean", everybody, None),
        Variant("no drift", everybody, replace(whole, shares=(0.0,))),
        *(
            [
                Variant("no contexts", everybody, replace(whole, contexts=0)),
                Variant("contexts by job", everybody, whole, by_job=True),
            ]
            if contexts
            else []
        ),
        Variant("one rate", everybody, replace(whole, rates=(2.0,))),
    ]
    for name, members in groups.items():
        others = tuple(predictor for predictor in everybody if predictor not in members)
        if others:
            chosen.append(Variant(f"without {name}", others, whole))
    sofar: tuple[str, ...] = ()
    for name, members in list(groups.items())[:-1]:  # with the last it is the controller itself
        chosen.append(Variant(f"+ {name}" if sofar else name, (*sofar, *members), whole))
        sofar += members
    return chosen


def carry_out(
    run: Run, about: AuditedRun, settings: ControllerSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    source = about.run
    audits = audit_units(source, about.split, about.settings)
    if not run.is_done(REPLAY):
        through = through_units(source, about.split, about.settings)
        saved = [
            row
            for audit in (*audits, *through)
            for row in from_parquet(source.unit_file(audit.name, "predictions.parquet"), audit.name)
        ]
        facts: dict[str, Any] = {"settings": source.settings}
        run.finish_unit(
            REPLAY, {"predictions.parquet": to_parquet(saved), "run.json": as_json(facts)}
        )
    content = run.unit_file(REPLAY, "predictions.parquet")
    facts = {"results": settings.results, "predictions": {REPLAY: sha256(content)}}
    run.record("replay read", facts)
    texts: list[Unit] = []
    more = b""
    if settings.texts:
        worded = Worded(training=about.split.training, audits=audits)
        do_all(run, [worded], execution, display)
        texts, more = [worded], run.unit_file(worded.name, "predictions.parquet")
    units: list[Unit] = [Mixed(saved=content, more=more, audits=audits), *texts]
    if settings.live:
        units += [Live(settings=audit.settings, audit=audit) for audit in audits]
    do_all(run, units, execution, display)
    run.record("predictions written", {"predictions": hashes(run, units, "predictions.parquet")})


# Experts for text --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Worded(Unit):
    """Experts for text along every audit; they have no seed, and answer alike for all.

    Attributes
    ----------
    training
        The jobs that their slow parts are fitted on.
    audits
        What is answered.
    """

    training: Sequence[Job]
    audits: Sequence[Audit]

    @property
    def name(self) -> str:
        """The unit's name."""
        return WORDED

    def perform(self, display: Display) -> Files:
        """Fit them, and answer every job of each repository in causal order."""
        experts = text_experts(self.training)
        predictions = PredictionTable(0, LEVELS)
        display.unit(self.name, len(self.audits), 0)
        for number, audit in enumerate(self.audits, start=1):
            predictions.seed = audit.seed
            items = {item.name: item for item in map(recorded_job, audit.audit)}
            fresh = [expert.begin() for expert in experts]
            for event in ordered([as_text(item) for item in items.values()]):
                if isinstance(event, Ask):
                    questions = questions_of(event.items)
                    for expert in fresh:
                        for path, policies in expert.ask(questions).items():
                            for item, policy in zip(event.items, policies, strict=True):
                                predictions.add(items[item.name], path, policy)
                else:
                    labelled = [Labelled(item.question, item.right) for item in event.items]
                    for expert in fresh:
                        expert.learn(labelled)
            display.update(number)
        return {"predictions.parquet": predictions.content()}


# Mixing what was saved ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mixed(Unit):
    """Every variant's mixture of the predictions that a run saved."""

    saved: bytes
    audits: Sequence[Audit]
    more: bytes = b""

    @property
    def name(self) -> str:
        """The unit's name."""
        return MIXED

    def perform(self, display: Display) -> Files:
        """Mix, in causal order."""
        by_item: dict[tuple[int, str, str], dict[str, Any]] = {}
        rows = from_parquet(self.saved, "the run's predictions")
        rows += from_parquet(self.more, "experts for text") if self.more else []
        for row in rows:
            key = (row["seed"], row["repository"], row["name"])
            by_item.setdefault(key, {})[row["path"]] = row["policy"]
        display.unit(self.name, len(self.audits), 0)
        predictions = PredictionTable(0, LEVELS)
        facts: list[dict[str, Any]] = []
        for number, audit in enumerate(self.audits, start=1):
            predictions.seed = audit.seed
            items = [recorded_job(job) for job in audit.audit]
            policies = {item.name: by_item[audit.seed, item.stream, item.name] for item in items}
            for variant in variants(list(policies[items[0].name])):
                mixture, trust = mix(items, policies, variant)
                for item, policy in mixture:
                    predictions.add(item, variant.name, policy)
                about = {"seed": audit.seed, "repository": items[0].stream, "variant": variant.name}
                facts.append({**about, **trust})
            display.update(number)
        return {"predictions.parquet": predictions.content(), "trust.json": as_json(facts)}


def mix(
    items: Sequence[Recorded],
    given: Mapping[str, Mapping[str, Sequence[float]]],
    variant: Variant,
    context: Callable[[Question, Variant], str] | None = None,
) -> tuple[list[tuple[Recorded, list[float]]], dict[str, Any]]:
    """Mix predictions in causal order; returns what was said of each item, and what to know of it.

    Parameters
    ----------
    items
        One stream.
    given
        For each item by name, every predictor's probabilities.
    variant
        How.
    context
        What trust may depend on; by default the workflow of a question's job.
    """
    context = context or (lambda question, how: context_of(question, by_job=how.by_job))
    mixture: list[tuple[Recorded, list[float]]] = []
    if variant.settings is None:
        for item in items:
            rows = [given[item.name][predictor] for predictor in variant.predictors]
            mixture.append((item, np.mean(rows, axis=0).tolist()))
        return mixture, {}
    forecaster = Forecaster(variant.predictors, variant.settings)
    for event in ordered(items):
        if isinstance(event, Ask):
            for item in event.items:
                policies = {name: given[item.name][name] for name in variant.predictors}
                where = context(item.question, variant)
                forecast = forecaster.predict(item.name, policies, where)
                mixture.append((item, list(forecast.probabilities)))
        else:
            forecaster.learn([(item.name, item.right) for item in event.items])
    return mixture, _told(forecaster)


def context_of(question: Question, *, by_job: bool = False) -> str:
    """Return what trust may depend on: the workflow of a question's job, or that and its name."""
    job: Observation = question.source
    workflow = str(job.workflow_path or job.workflow_id or "")
    return f"{workflow} {job.job_name}" if by_job else workflow


def _told(forecaster: Forecaster) -> dict[str, Any]:
    report = forecaster.report()
    return {
        "bound": asdict(forecaster.bound()),
        "contexts": forecaster.components.starts,
        "regrets": forecaster.regrets(),
        "trust": asdict(report),
    }


# Keeping the states ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Live(ModelUnit):
    """One audit of the run, replayed by a controller that keeps the states itself."""

    audit: Audit

    @property
    def name(self) -> str:
        """The unit's name: the seed and the repository."""
        return audit_name("live", self.audit.seed, self.audit.repository)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Replay the audit."""
        # The states that the run has, so that it is compared with mixing them.
        available = (*TRAINED, *(FURTHER if self.settings.further else ()))
        strategies = [
            one for one in available if any(one.name in names for names in GROUPS.values())
        ]
        session = self.audit.audit_session(substrate, strategies)
        player = LivePlayer(session, self.audit.expert(), PredictionTable(self.audit.seed, LEVELS))
        items = [recorded_job(job) for job in self.audit.audit]
        replay(self, substrate, player, list(ordered(items)), display)
        facts = {**_told(player.controller.forecaster), "awake": player.awake}
        return {
            "predictions.parquet": player.predictions.content(),
            "trust.json": as_json(facts),
        }


class LivePlayer:
    """Plays a controller, and keeps what it said and who was awake."""

    def __init__(self, session: Any, expert: HedgeExpert, predictions: PredictionTable) -> None:
        self.controller = Controller(session, [expert])
        self.expert, self.predictions = expert, predictions
        self.awake: list[list[Any]] = []
        self.events = 0
        self.ledger = session.learner.substrate.ledger

    def _note_awake(self) -> None:
        self.events += 1
        awake = list(self.controller.awake)
        if not self.awake or self.awake[-1][1] != awake:
            self.awake.append([self.events, awake])

    def ask(self, event: Ask[Recorded]) -> None:
        """Answer the questions of one moment."""
        self._note_awake()
        questions = questions_of(event.items)
        contexts = [context_of(question) for question in questions]
        with self.ledger.operation("read"):
            answers = self.controller.ask(questions, contexts=contexts)
        for item, answer in zip(event.items, answers, strict=True):
            self.predictions.add(item, LIVE, answer.forecast.probabilities)

    def learn(self, event: Arrive[Recorded]) -> None:
        """Learn from the labels of one moment."""
        self._note_awake()
        with self.ledger.operation("update"):
            self.controller.learn(labels_of(event.items))

    def save(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write everything that the next event depends on."""
        progress = {"rows": self.predictions.rows, "awake": self.awake}
        self.controller.save(path, {**progress, **notes})

    def restore(self, path: Path, questions: Sequence[Question]) -> dict[str, Any]:
        """Go back to what was saved."""
        notes: dict[str, Any] = self.controller.restore(path, questions)
        self.predictions.rows, self.awake = notes["rows"], notes["awake"]
        self.events = notes["done"]
        if "reference" in notes:  # where version 0.1 kept the expert
            self.expert.restore(notes["reference"])
        return notes
