"""The episodic protocol: train arms, predict, and only then open what the predictions are about.

Its parts are independent units of work: a training for each objective and seed, a set of
predictions for each arm and seed. All trainings end before the first prediction; all predictions
are written and hashed before the first query is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from larc.errors import LarcError
from larc.interventions import CELLS, predict
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.learner import Learner
from larc.progress import Display
from larc.rules import parse_rule
from larc.runs.engines import Files
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import ModelUnit, do_all, hashes
from larc.state import SlowState
from larc.studies.asking import check_questions
from larc.studies.episodic.names import (
    FINAL_QUERIES,
    QUERIES,
    prediction_name,
    training_name,
)
from larc.studies.episodic.settings import UNTRAINED, EpisodicSettings, TaskSet
from larc.studies.episodic.tables import predictions_content, queries_content
from larc.studies.fitting import fit_trainer
from larc.studies.starts import earlier_state
from larc.substrate import Substrate
from larc.tasks import Task
from larc.training.base import AdamW
from larc.training.tasks import Trainer, TrainingSettings

CHECKPOINT_EVERY = 8


@dataclass(frozen=True, kw_only=True)
class Training(ModelUnit):
    """The slow training of one objective with one seed."""

    settings: EpisodicSettings
    objective: str
    seed: int
    tasks: Sequence[Task]
    asked: Sequence[tuple[str, str, Sequence[str]]] = ()
    slow: bytes = b""

    @property
    def name(self) -> str:
        """The unit's name: the objective and the seed."""
        return training_name(self.objective, self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Train from where a stopped training was."""
        settings = self.settings
        # Everything that will be asked: what cannot be scored is refused before any training.
        check_questions(substrate, self.asked, settings.limits)
        start = _start(self, substrate)
        how = _how(settings, self.objective, self.seed)
        trainer = Trainer(substrate, start, self.tasks, how, settings.limits)
        files = fit_trainer(
            self, trainer, settings.updates, substrate, display, every=CHECKPOINT_EVERY
        )
        if settings.step_rate and trainer.slow.step_size is not None:
            files["step.json"] = as_json({"step_size": trainer.slow.step_size})
        elif settings.step_rate and trainer.slow.rule:
            files["step.json"] = as_json({"rule": trainer.slow.rule})
        return files


@dataclass(frozen=True, kw_only=True)
class Prediction(ModelUnit):
    """The predictions of one arm with one seed, on closed tasks."""

    settings: EpisodicSettings
    arm: str
    seed: int
    tasks: Sequence[Task]
    names: Sequence[str]
    texts: Sequence[str] = ()
    slow: bytes = b""
    final: bool = False

    @property
    def name(self) -> str:
        """The unit's name: the arm and the seed."""
        return prediction_name(self.arm, self.seed, final=self.final)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Predict every task under real and sham feedback, kept and reset."""
        settings = self.settings
        display.unit(self.name, 0, 0)
        slow = _start(self, substrate)
        # Without a rule, a state steps by the size or the rule it has learned.
        learned = settings.step_rate and (slow.step_size is not None or slow.rule)
        predicted = predict(
            substrate,
            slow,
            self.tasks,
            seed=self.seed,
            rule=None if learned else parse_rule(settings.rule),
            inner_steps=settings.inner_steps,
            limits=settings.limits,
        )
        policies: dict[str, Sequence[Any]] = {cell: getattr(predicted, cell) for cell in CELLS}
        if self.texts:
            # Feedback as text, read at the slow state itself: nothing is adapted.
            learner = Learner(substrate, slow, limits=settings.limits)
            start = learner.begin()
            asked = zip(self.texts, self.tasks, strict=True)
            with substrate.ledger.operation("text"):
                reads = learner.read_many([(start, text, t.candidates) for text, t in asked])
            policies["text"] = [read.double().numpy() for read in reads]
        content = predictions_content(self.arm, self.seed, self.names, self.tasks, policies)
        # One number for each task: what its feedback took.
        spent = {"evaluations": predicted.evaluations}
        return {"predictions.parquet": content, "feedback.json": as_json(spent)}


def carry_out(run: Run, tasks: TaskSet, settings: EpisodicSettings, execution: Execution) -> None:
    """Do whatever a run still lacks, in the order of evidence."""
    if getattr(parse_rule(settings.rule), "steps", 1) > 1:
        raise LarcError(
            f"--rule {settings.rule} takes several steps on one piece of feedback; give one step "
            "and --inner-steps: sham feedback is dealt anew at each."
        )
    for objective in settings.objectives:
        _how(settings, objective, settings.seeds[0])  # refused now rather than after trainings
    display = Display()
    trainings = [
        Training(
            settings=settings,
            objective=objective,
            seed=seed,
            tasks=tasks.training,
            asked=tasks.asked,
        )
        for objective in settings.objectives
        for seed in settings.seeds
    ]
    if settings.start and not all(run.is_done(unit.name) for unit in trainings):
        trainings = _from_earlier(run, trainings, settings)
    do_all(run, trainings, execution, display)
    run.record("training finished", {"slow": hashes(run, trainings, "slow.safetensors")})
    predictions = _predictions(run, tasks, settings)
    do_all(run, predictions, execution, display)
    written = hashes(run, predictions, "predictions.parquet")
    run.record("predictions written", {"predictions": written})
    open_queries(run, tasks, QUERIES)


def evaluate_finally(
    run: Run, tasks: TaskSet, settings: EpisodicSettings, execution: Execution
) -> None:
    """Predict and score reserved tasks with the states of a finished run: once, and on record."""
    if not run.is_done(QUERIES):
        raise LarcError(f"{run.path} is not finished; finish it before its final evaluation.")
    run.record("final evaluation begun", {"tasks": len(tasks.development)})
    predictions = _predictions(run, tasks, settings, final=True)
    do_all(run, predictions, execution, Display())
    written = hashes(run, predictions, "predictions.parquet")
    run.record("final predictions written", {"predictions": written})
    open_queries(run, tasks, FINAL_QUERIES)


def _predictions(
    run: Run, tasks: TaskSet, settings: EpisodicSettings, *, final: bool = False
) -> list[Prediction]:
    """Return the predictions of a trained run, each with the slow state it starts from."""
    return [
        Prediction(
            settings=settings,
            arm=arm,
            seed=seed,
            tasks=tasks.development,
            names=tasks.names,
            texts=tasks.texts,
            # The untrained arm makes its own.
            slow=b""
            if arm == UNTRAINED
            else run.unit_file(training_name(arm, seed), "slow.safetensors"),
            final=final,
        )
        for arm in settings.arms
        for seed in settings.seeds
    ]


def open_queries(run: Run, tasks: TaskSet, unit: str) -> None:
    """Open the queries of tasks whose predictions are on record, and keep them."""
    run.record(f"{unit} opened", {})
    if not run.is_done(unit):
        content = queries_content(tasks.names, tasks.development, tasks.open_queries())
        run.finish_unit(unit, {"queries.parquet": content})
    run.record(f"{unit} written", {"queries": sha256(run.unit_file(unit, "queries.parquet"))})


def _from_earlier(
    run: Run, trainings: Sequence[Training], settings: EpisodicSettings
) -> list[Training]:
    """Give trainings the states they start from, and keep on record which those were."""
    started = [
        replace(unit, slow=earlier_state(settings.start, unit.objective, unit.seed, settings))
        for unit in trainings
    ]
    starts = {unit.name: sha256(unit.slow) for unit in started}
    recorded = run.recorded("starts read")
    if recorded is not None and recorded["slow"] != starts:
        raise LarcError(
            f"the states of {settings.start} are not those that this run began with; bring "
            "them back, or choose another --out."
        )
    run.record("starts read", {"slow": starts})
    return started


def _how(settings: EpisodicSettings, objective: str, seed: int) -> TrainingSettings:
    return TrainingSettings(
        objective=objective,  # type: ignore[arg-type]  # checked by TrainingSettings itself
        batch=settings.batch,
        inner_steps=settings.inner_steps,
        rule=parse_rule(settings.rule),
        seed=seed,
        outer=AdamW(learning_rate=settings.learning_rate),
        step_rate=settings.step_rate,
    )


def _start(unit: Training | Prediction, substrate: Substrate) -> SlowState:
    if unit.slow:
        return SlowState.from_bytes(unit.slow, unit.name).to(substrate.device)
    settings = unit.settings
    return SlowState.initial(
        substrate, rank=settings.rank, seed=unit.seed, boundary=settings.boundary
    )
