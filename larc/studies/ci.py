"""The continuous-integration study: predict jobs whose labels arrive late.

Units of work: for each seed a task-matched training (``fit``) and the history of the control paths
(``history``); for each seed and repository an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.ci.calibration import fit_offsets
from larc.ci.experts import EXPERTS, Arrival, Forecast, Hedge4
from larc.ci.jobs import Job
from larc.ci.room import REMEMBERED, CIRoom, job_item
from larc.evaluation import nested_weights
from larc.learner import Learner
from larc.progress import Display
from larc.residual import Factors
from larc.rules import parse_rule
from larc.scoring import Label
from larc.state import SlowState
from larc.stored import pack_state, unpack_state
from larc.stream.items import PLAIN, Item
from larc.stream.paths import PathSpec, Retention
from larc.stream.queue import Ask, order_events
from larc.stream.session import Session, SessionFull, SessionLimits
from larc.studies.engines import Files
from larc.studies.options import CISettings, Execution
from larc.studies.parquet import to_parquet
from larc.studies.runs import Run, as_json
from larc.studies.units import accounted, counted, do_all, hashes, recount
from larc.substrate import Substrate
from larc.training import AdamW, LabelTrainer

CHECKPOINT_EVERY = 16
HISTORY_FILE = "larc history of control paths, version 1"
VIEWS = (PLAIN, REMEMBERED)
TRAINED = (
    PathSpec("P0M0", PLAIN, "reset"),
    PathSpec("P1M0", PLAIN, "carry"),
    PathSpec("P0M1", REMEMBERED, "reset"),
    PathSpec("P1M1", REMEMBERED, "carry"),
    PathSpec("PERM_M1", REMEMBERED, "carry", permuted=True),
)
# Ways to keep less, or more carefully: what a controller chooses among.
_KINDS: tuple[tuple[str, Retention, float, str], ...] = (
    ("LATEST_", "latest", 1.0, ""),
    ("TENTH_", "carry", 0.1, ""),
    ("DESCENT_", "carry", 1.0, "descent:0.1"),
)
FURTHER = tuple(
    PathSpec(f"{name}{memory}", view, retention, scale=scale, rule=rule)
    for name, retention, scale, rule in _KINDS
    for memory, view in (("M0", PLAIN), ("M1", REMEMBERED))
)
HEDGE = "HEDGE4"
_PREDICTION = (
    *("seed", "repository", "commit", "name", "asked", "arrives", "label", "path", "policy"),
)
_UPDATE = ("time", "path", "loss", "distance")


def control_paths(offsets: tuple[float, ...]) -> tuple[PathSpec, ...]:
    """Return the paths that start from before the task-matched training."""
    return (
        PathSpec("ORIGINAL", REMEMBERED, "carry", start="original"),
        PathSpec("CALIBRATED", REMEMBERED, "carry", start="original", offsets=offsets),
    )


def audit_paths(settings: CISettings, offsets: tuple[float, ...]) -> tuple[PathSpec, ...]:
    """Return every path that an audit replays."""
    return (*TRAINED, *control_paths(offsets), *(FURTHER if settings.further else ()))


@dataclass(frozen=True)
class Work:
    """One unit of work, with everything it depends on."""

    name: str
    settings: CISettings
    seed: int
    training: Sequence[Job]
    audit: Sequence[Job] = ()
    start: bytes = b""
    fitted: bytes = b""
    history: bytes = b""
    scratch: str = ""


def causal_prompts(items: Sequence[Item]) -> tuple[list[tuple[Item, dict[str, str]]], CIRoom]:
    """Return every item with its prompts as of when it was asked, and the room at the end."""
    room, put = CIRoom(), []
    for event in ordered(items):
        if isinstance(event, Ask):
            put += [(item, dict(room.prompts(item))) for item in event.items]
        else:
            room.learned(event.items)
    return put, room


def ordered(items: Sequence[Item]) -> Any:
    """Return the events of a queue; items carry their own times and names."""
    return order_events(
        items,
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    )


def job_weights(items: Sequence[Item]) -> NDArray[np.float64]:
    """Return the weights of jobs: equal repositories, commits within them, jobs within those."""
    return nested_weights(
        [item.stream for item in items],
        [item.group for item in items],
        [item.name for item in items],
    )


def carry_out(run: Run, split: Any, settings: CISettings, execution: Execution) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    starts = {seed: _start_content(settings, seed) for seed in settings.seeds}
    first = [
        Work(f"{kind}-{seed}", settings, seed, split.training, start=starts[seed])
        for seed in settings.seeds
        for kind in ("fit", "history")
    ]
    do_all(run, first, perform, execution, display)
    fits = [work for work in first if work.name.startswith("fit-")]
    run.record("training finished", {"slow": hashes(run, fits, "slow.safetensors")})
    repositories = sorted({job.repository for job in split.audit})
    audits = [
        Work(
            audit_name(seed, repository),
            settings,
            seed,
            split.training,
            [job for job in split.audit if job.repository == repository],
            starts[seed],
            run.unit_file(f"fit-{seed}", "slow.safetensors"),
            run.unit_file(f"history-{seed}", "history.safetensors"),
        )
        for seed in settings.seeds
        for repository in repositories
    ]
    do_all(run, audits, perform, execution, display)
    written = hashes(run, audits, "predictions.parquet")
    run.record("predictions written", {"predictions": written})


def audit_name(seed: int, repository: str) -> str:
    """Return the name of an audit's unit.

    Examples
    --------
    >>> audit_name(7, "o/r")
    'audit-7-o_r'
    """
    return f"audit-{seed}-{repository.replace('/', '_')}"


def _start_content(settings: CISettings, seed: int) -> bytes:
    if not settings.start:
        return b""
    return Run(settings.start).unit_file(f"train-static-{seed}", "slow.safetensors")


def perform(work: Work, display: Display | None = None) -> Files:
    """Do one unit of work and return its files."""
    makers = {"fit": _fit, "history": _history, "audit": _audit}
    return accounted(work, makers[work.name.split("-")[0]], display)


def _original(work: Work, substrate: Substrate) -> SlowState:
    if work.start:
        return SlowState.from_bytes(work.start, "the start").to(substrate.device)
    settings = work.settings
    return SlowState.initial(
        substrate, rank=settings.rank, seed=work.seed, boundary=settings.boundary
    )


def _fit(work: Work, substrate: Substrate, display: Display) -> Files:
    """Train one epoch on both views of every training job, weighted by the queue's levels."""
    settings = work.settings
    put, _ = causal_prompts([job_item(job) for job in work.training])
    weights = job_weights([item for item, _ in put])
    labels = [
        Label(prompts[view], item.candidates, item.label) for item, prompts in put for view in VIEWS
    ]
    trainer = LabelTrainer(
        substrate,
        _original(work, substrate),
        labels,
        np.repeat(weights, len(VIEWS)).tolist(),
        batch=settings.batch,
        seed=work.seed,
        outer=AdamW(learning_rate=settings.learning_rate),
        limits=settings.limits,
    )
    losses: list[float] = []
    checkpoint = Path(work.scratch) / "checkpoint.safetensors"
    if checkpoint.exists():
        notes = trainer.restore(checkpoint)
        losses = notes["losses"]
        recount(substrate, notes)
    display.unit(work.name, trainer.epoch, trainer.updates)
    with substrate.ledger.operation("fit"):
        while trainer.updates < trainer.epoch:
            losses.append(trainer.advance())
            display.update(trainer.updates, losses[-1])
            if trainer.updates % CHECKPOINT_EVERY == 0 and checkpoint.parent.is_dir():
                trainer.save(checkpoint, {"losses": losses, **counted(substrate)})
    return {"slow.safetensors": trainer.slow.to_bytes(), "curve.json": as_json(losses)}


def _history(work: Work, substrate: Substrate, display: Display) -> Files:
    """Fit the calibration, then let both control paths learn from the pooled training labels."""
    settings = work.settings
    items = [job_item(job) for job in work.training]
    original = _original(work, substrate)
    learner = Learner(substrate, original, parse_rule(settings.rule), limits=settings.limits)
    put, _ = causal_prompts(items)
    display.unit(work.name, len(items), 0)
    with substrate.ledger.operation("calibration"):
        start = learner.begin()
        reads = learner.read_many(
            [(start, prompts[REMEMBERED], item.candidates) for item, prompts in put]
        )
    offsets = fit_offsets(
        np.stack([read.double().numpy() for read in reads]),
        [item.label for item, _ in put],
        job_weights([item for item, _ in put]),
    )
    session = _session(work, learner, control_paths(offsets), CIRoom(), original)
    checkpoint = Path(work.scratch) / "session.safetensors"
    done = 0
    if checkpoint.exists():
        done = session.restore(checkpoint)["done"]
    events = list(ordered(items))
    with substrate.ledger.operation("history"):
        for number, event in enumerate(events[done:], start=done + 1):
            if isinstance(event, Ask):
                session.hold(event.items)  # nobody reads these answers
            else:
                session.arrive(event.items)
            display.update(min(number, len(items)), 0.0)
            if number % CHECKPOINT_EVERY == 0 and checkpoint.parent.is_dir():
                session.save(checkpoint, {"done": number})
    tensors = {
        f"{name}.{factor}": getattr(episode.factors, factor)
        for name, episode in session.episodes.items()
        for factor in ("A", "B")
    }
    steps = {name: episode.step for name, episode in session.episodes.items()}
    facts = {"offsets": list(offsets), "steps": steps}
    return {"history.safetensors": pack_state(HISTORY_FILE, tensors, facts)}


def _audit(work: Work, substrate: Substrate, display: Display) -> Files:
    """Replay one repository's audit window: every path, and HEDGE4, in causal order."""
    settings = work.settings
    trained = SlowState.from_bytes(work.fitted, work.name).to(substrate.device)
    original = _original(work, substrate)
    tensors, facts = unpack_state(work.history, HISTORY_FILE, work.name)
    learner = Learner(substrate, trained, parse_rule(settings.rule), limits=settings.limits)
    items = [job_item(job) for job in work.audit]
    _, past = causal_prompts([job_item(job) for job in work.training])
    paths = audit_paths(settings, tuple(facts["offsets"]))
    session = _session(work, learner, paths, past.fork(items[0].stream), original)
    for name, steps in facts["steps"].items():
        episode = session.episodes[name]
        episode.factors = Factors(tensors[f"{name}.A"], tensors[f"{name}.B"]).to(substrate.device)
        episode.step = steps
    hedge = _hedge_after(work.training)
    rows: list[dict[str, Any]] = []
    forecasts: dict[str, Forecast] = {}
    updates: list[dict[str, Any]] = []
    done = 0
    checkpoint = Path(work.scratch) / "session.safetensors"
    if checkpoint.exists():
        notes = session.restore(checkpoint)
        done, rows, updates = notes["done"], notes["rows"], notes["updates"]
        hedge = Hedge4.from_state(notes["hedge"])
        forecasts = {k: _forecast(v) for k, v in notes["forecasts"].items()}
        recount(substrate, notes)

    def save(number: int) -> None:
        notes = {
            "done": number,
            "rows": rows,
            "updates": updates,
            "hedge": _plain(hedge.state()),
            "forecasts": {name: [f.mixture, f.experts] for name, f in forecasts.items()},
            **counted(substrate),
        }
        session.save(checkpoint, notes)

    events = list(ordered(items))
    display.unit(work.name, len(events), done)
    for number, event in enumerate(events[done:], start=done + 1):
        if isinstance(event, Ask):
            try:
                with substrate.ledger.operation("read"):
                    answers = session.ask(event.items)
            except SessionFull:
                save(number - 1)
                raise
            for place, item in enumerate(event.items):
                forecasts[item.name] = forecast = hedge.predict(item.source.observation)
                said = {name: own[place].tolist() for name, own in answers.items()}
                said |= {HEDGE: list(forecast.mixture)}
                said |= {e: list(p) for e, p in zip(EXPERTS, forecast.experts, strict=True)}
                rows += [_row(work.seed, item, name, policy) for name, policy in said.items()]
        else:
            with substrate.ledger.operation("update"):
                made = session.arrive(event.items)
            hedge.update(
                [
                    Arrival(item.source.observation, forecasts.pop(item.name), item.label)
                    for item in event.items
                ]
            )
            updates += [
                {"time": event.time, "path": n, "loss": u.loss, "distance": u.distance}
                for n, u in made.items()
            ]
        display.update(number, 0.0)
        if number % CHECKPOINT_EVERY == 0 and checkpoint.parent.is_dir():
            save(number)
    # Rows that went through a checkpoint come back with their fields in another order.
    return {
        "predictions.parquet": to_parquet([{n: row[n] for n in _PREDICTION} for row in rows]),
        "updates.parquet": to_parquet([{n: row[n] for n in _UPDATE} for row in updates]),
    }


def _plain(state: Any) -> Any:
    """Return a state as JSON values; lists of numbers keep every bit of their arrays."""
    if isinstance(state, np.ndarray):
        return state.tolist()
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return [_plain(value) for value in state] if isinstance(state, list | tuple) else state


def _hedge_after(training: Sequence[Job]) -> Hedge4:
    """Return HEDGE4 after the pooled training history."""
    hedge, forecasts = Hedge4(), {}
    for event in ordered([job_item(job) for job in training]):
        if isinstance(event, Ask):
            for item in event.items:
                forecasts[item.name] = hedge.predict(item.source.observation)
        else:
            hedge.update(
                [
                    Arrival(item.source.observation, forecasts.pop(item.name), item.label)
                    for item in event.items
                ]
            )
    return hedge


def _forecast(saved: Any) -> Forecast:
    mixture, experts = saved
    parts: Any = [tuple(expert) for expert in experts]  # four, as they were saved
    return Forecast(tuple(mixture), tuple(parts))


def _row(seed: int, item: Item, path: str, policy: list[float]) -> dict[str, Any]:
    return {
        "seed": seed,
        "repository": item.stream,
        "commit": item.group,
        "name": item.name,
        "asked": item.asked,
        "arrives": item.arrives,
        "label": item.label,
        "path": path,
        "policy": policy,
    }


def _session(
    work: Work, learner: Learner, paths: Sequence[PathSpec], room: CIRoom, original: SlowState
) -> Session:
    settings = work.settings
    return Session(
        learner,
        paths,
        room,
        seed=work.seed,
        starts={"original": original},
        limits=SessionLimits(settings.pending_limit, settings.total_limit),
    )
