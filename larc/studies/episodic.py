"""The episodic protocol: train arms, predict, and only then open what the predictions are about.

Its parts are independent units of work: a training for each objective and seed, a set of
predictions for each arm and seed. All trainings end before the first prediction; all predictions
are written and hashed before the first query is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.interventions import CELLS, predict
from larc.learner import Learner
from larc.progress import Display
from larc.rules import parse_rule
from larc.state import SlowState
from larc.studies.engines import Files
from larc.studies.options import UNTRAINED, EpisodicSettings, Execution, TaskSet
from larc.studies.parquet import predictions_content, queries_content
from larc.studies.runs import Run, as_json, sha256
from larc.studies.starts import earlier_state
from larc.studies.stopping import stoppable
from larc.studies.units import accounted, counted, do_all, hashes, recount
from larc.substrate import Substrate
from larc.tasks import Task
from larc.trainer import AdamW
from larc.training import Trainer, TrainingSettings

CHECKPOINT_EVERY = 8


@dataclass(frozen=True)
class Work:
    """One unit of work, with everything it depends on."""

    name: str
    settings: EpisodicSettings
    arm: str
    seed: int
    tasks: Sequence[Task]
    names: Sequence[str] = ()
    texts: Sequence[str] = ()
    slow: bytes = b""
    scratch: str = ""


def carry_out(run: Run, tasks: TaskSet, settings: EpisodicSettings, execution: Execution) -> None:
    """Do whatever a run still lacks, in the order of evidence."""
    if getattr(parse_rule(settings.rule), "steps", 1) > 1:
        raise LarcError(
            f"--rule {settings.rule} takes several steps on one piece of feedback; give one step "
            "and --inner-steps: sham feedback is dealt anew at each."
        )
    for arm in settings.objectives:
        _how(settings, arm, settings.seeds[0])  # refused now rather than after other trainings
    display = Display()
    trainings = [
        Work(f"train-{arm}-{seed}", settings, arm, seed, tasks.training)
        for arm in settings.objectives
        for seed in settings.seeds
    ]
    if settings.start and not all(run.is_done(work.name) for work in trainings):
        trainings = _from_earlier(run, trainings, settings)
    do_all(run, trainings, perform, execution, display)
    run.record("training finished", {"slow": hashes(run, trainings, "slow.safetensors")})
    predictions = [
        Work(
            f"predict-{arm}-{seed}",
            settings,
            arm,
            seed,
            tasks.development,
            tasks.names,
            tasks.texts,
        )
        for arm in settings.arms
        for seed in settings.seeds
    ]
    do_all(run, [_with_start(run, work) for work in predictions], perform, execution, display)
    written = hashes(run, predictions, "predictions.parquet")
    run.record("predictions written", {"predictions": written})
    open_queries(run, tasks, "queries")


def evaluate_finally(
    run: Run, tasks: TaskSet, settings: EpisodicSettings, execution: Execution
) -> None:
    """Predict and score reserved tasks with the states of a finished run: once, and on record."""
    if not run.is_done("queries"):
        raise LarcError(f"{run.path} is not finished; finish it before its final evaluation.")
    run.record("final evaluation begun", {"tasks": len(tasks.development)})
    works = [
        Work(
            f"final-{arm}-{seed}", settings, arm, seed, tasks.development, tasks.names, tasks.texts
        )
        for arm in settings.arms
        for seed in settings.seeds
    ]
    do_all(run, [_with_start(run, work) for work in works], perform, execution, Display())
    written = hashes(run, works, "predictions.parquet")
    run.record("final predictions written", {"predictions": written})
    open_queries(run, tasks, "final-queries")


def open_queries(run: Run, tasks: TaskSet, unit: str) -> None:
    """Open the queries of tasks whose predictions are on record, and keep them."""
    run.record(f"{unit} opened", {})
    if not run.is_done(unit):
        content = queries_content(tasks.names, tasks.development, tasks.open_queries())
        run.finish_unit(unit, {"queries.parquet": content})
    run.record(f"{unit} written", {"queries": sha256(run.unit_file(unit, "queries.parquet"))})


def _from_earlier(run: Run, trainings: Sequence[Work], settings: EpisodicSettings) -> list[Work]:
    """Give trainings the states they start from, and keep on record which those were."""
    found = [
        replace(work, slow=earlier_state(settings.start, work.arm, work.seed, settings))
        for work in trainings
    ]
    starts = {work.name: sha256(work.slow) for work in found}
    for event in run.evidence():
        if event["event"] == "starts read" and event["slow"] != starts:
            raise LarcError(
                f"the states of {settings.start} are not those that this run began with; bring "
                "them back, or choose another --out."
            )
    run.record("starts read", {"slow": starts})
    return found


def _with_start(run: Run, work: Work) -> Work:
    """Give a prediction the slow state it starts from; the untrained arm makes its own."""
    if work.arm == UNTRAINED:
        return work
    return replace(work, slow=run.unit_file(f"train-{work.arm}-{work.seed}", "slow.safetensors"))


def perform(work: Work, display: Display | None = None) -> Files:
    """Do one unit of work and return its files."""
    return accounted(work, _train if work.name.startswith("train-") else _predict, display)


def _how(settings: EpisodicSettings, arm: str, seed: int) -> TrainingSettings:
    return TrainingSettings(
        objective=arm,  # type: ignore[arg-type]  # checked by TrainingSettings itself
        batch=settings.batch,
        inner_steps=settings.inner_steps,
        rule=parse_rule(settings.rule),
        seed=seed,
        outer=AdamW(learning_rate=settings.learning_rate),
        step_rate=settings.step_rate,
    )


def _train(work: Work, substrate: Substrate, display: Display) -> Files:
    settings = work.settings
    slow, how = _start(work, substrate), _how(settings, work.arm, work.seed)
    trainer = Trainer(substrate, slow, work.tasks, how, settings.limits)
    losses: list[float] = []
    checkpoint = Path(work.scratch) / "checkpoint.safetensors"
    # A worker on another machine has no such directory, and does its unit in one go.
    resumable = bool(work.scratch) and checkpoint.parent.is_dir()
    if resumable and checkpoint.exists():
        notes = trainer.restore(checkpoint)
        losses = notes["losses"]
        recount(substrate, notes)
    display.unit(work.name, settings.updates, trainer.updates)
    with stoppable() as stopped:
        while trainer.updates < settings.updates:
            losses.append(trainer.advance())
            display.update(trainer.updates, losses[-1])
            stop = stopped()  # asked once: it may be heard at any moment, also while saving
            if resumable and (stop or trainer.updates % CHECKPOINT_EVERY == 0):
                trainer.save(checkpoint, {"losses": losses, **counted(substrate)})
            if stop:
                raise KeyboardInterrupt
    files = {"slow.safetensors": trainer.slow.to_bytes(), "curve.json": as_json(losses)}
    if settings.step_rate and trainer.slow.step_size is not None:
        files["step.json"] = as_json({"step_size": trainer.slow.step_size})
    return files


def _start(work: Work, substrate: Substrate) -> SlowState:
    if work.slow:
        return SlowState.from_bytes(work.slow, work.name).to(substrate.device)
    return SlowState.initial(
        substrate, rank=work.settings.rank, seed=work.seed, boundary=work.settings.boundary
    )


def _predict(work: Work, substrate: Substrate, display: Display) -> Files:
    settings = work.settings
    display.unit(work.name, 0, 0)
    slow = _start(work, substrate)
    # Without a rule, a state steps by the size it has learned.
    learned = settings.step_rate and slow.step_size is not None
    rule = None if learned else parse_rule(settings.rule)
    found = predict(
        substrate,
        slow,
        work.tasks,
        seed=work.seed,
        rule=rule,
        inner_steps=settings.inner_steps,
        limits=settings.limits,
    )
    policies: dict[str, Sequence[Any]] = {cell: getattr(found, cell) for cell in CELLS}
    if work.texts:
        # Feedback as text, read at the slow state itself: nothing is adapted.
        learner = Learner(substrate, slow, limits=settings.limits)
        start = learner.begin()
        with substrate.ledger.operation("text"):
            reads = learner.read_many(
                [
                    (start, text, t.candidates)
                    for text, t in zip(work.texts, work.tasks, strict=True)
                ]
            )
        policies["text"] = [read.double().numpy() for read in reads]
    content = predictions_content(work.arm, work.seed, work.names, work.tasks, policies)
    # One number for each task: what its feedback took.
    spent = {"evaluations": found.evaluations}
    return {"predictions.parquet": content, "feedback.json": as_json(spent)}
