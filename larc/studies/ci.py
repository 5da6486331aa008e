"""The continuous-integration study: predict jobs whose labels arrive late.

Units of work: for each seed a task-matched training (``fit``) and the history of the control paths
(``history``); for each seed and repository an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from larc.ci.calibration import fit_offsets
from larc.ci.driving import HedgeReplay, hedge_after
from larc.ci.experts import EXPERTS
from larc.ci.jobs import Job
from larc.ci.room import REMEMBERED, CIRoom, job_item
from larc.learner import Learner
from larc.progress import Display
from larc.residual import Factors
from larc.rules import parse_rule
from larc.scoring import Label
from larc.state import SlowState
from larc.stored import pack_state, unpack_state
from larc.stream.items import PLAIN, Item
from larc.stream.paths import PathSpec, Retention
from larc.stream.queue import Ask
from larc.stream.session import Session
from larc.studies.ci_queue import queue_counts
from larc.studies.engines import Files
from larc.studies.options import CISettings, Execution
from larc.studies.replaying import (
    Checkpoint,
    fit_labels,
    item_weights,
    ordered,
    replay,
    session_limits,
)
from larc.studies.runs import Run
from larc.studies.starts import earlier_state
from larc.studies.units import accounted, counted, do_all, hashes, recount
from larc.substrate import Substrate

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


def carry_out(run: Run, split: Any, settings: CISettings, execution: Execution) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    starts = {seed: _start_content(settings, seed) for seed in settings.seeds}
    if not run.evidence():  # a run of before this was recorded stays in its order
        run.record("questions read", {"counts": queue_counts(split)})
    first = [
        Work(f"{kind}-{seed}", settings, seed, split.training, start=starts[seed])
        for seed in settings.seeds
        for kind in ("fit", "history")
    ]
    do_all(run, first, perform, execution, display)
    fits = [work for work in first if work.name.startswith("fit-")]
    run.record("training finished", {"slow": hashes(run, fits, "slow.safetensors")})
    audits = audit_works(run, split, settings)
    do_all(run, audits, perform, execution, display)
    written = hashes(run, audits, "predictions.parquet")
    run.record("predictions written", {"predictions": written})


def audit_works(run: Run, split: Any, settings: CISettings) -> list[Work]:
    """Return the audits of a run whose trainings and histories are finished."""
    return [
        Work(
            audit_name(seed, repository),
            settings,
            seed,
            split.training,
            [job for job in split.audit if job.repository == repository],
            _start_content(settings, seed),
            run.unit_file(f"fit-{seed}", "slow.safetensors"),
            run.unit_file(f"history-{seed}", "history.safetensors"),
        )
        for seed in settings.seeds
        for repository in sorted({job.repository for job in split.audit})
    ]


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
    return earlier_state(settings.start, "static", seed, settings)


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
    put, _ = causal_prompts([job_item(job) for job in work.training])
    labels = [
        Label(prompts[view], item.candidates, item.label) for item, prompts in put for view in VIEWS
    ]
    weights = np.repeat(item_weights([item for item, _ in put]), len(VIEWS)).tolist()
    return fit_labels(work, substrate, display, _original(work, substrate), labels, weights)


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
        item_weights([item for item, _ in put]),
    )
    session = _session(work, learner, control_paths(offsets), CIRoom(), original)
    checkpoint = Checkpoint(work, "session.safetensors")
    done = 0
    if checkpoint.exists():
        notes = session.restore(checkpoint.path)
        done = notes["done"]
        recount(substrate, notes)
    events = list(ordered(items))
    with substrate.ledger.operation("history"):
        for number, event in enumerate(events[done:], start=done + 1):
            if isinstance(event, Ask):
                session.hold(event.items)  # nobody reads these answers
            else:
                session.arrive(event.items)
            display.update(min(number, len(items)), 0.0)
            if checkpoint.due(number):
                session.save(checkpoint.path, {"done": number, **counted(substrate)})
    tensors = {
        f"{name}.{factor}": getattr(episode.factors, factor)
        for name, episode in session.episodes.items()
        for factor in ("A", "B")
    }
    steps = {name: episode.step for name, episode in session.episodes.items()}
    facts = {"offsets": list(offsets), "steps": steps}
    return {"history.safetensors": pack_state(HISTORY_FILE, tensors, facts)}


def audit_session(
    work: Work, substrate: Substrate, paths: Sequence[PathSpec] | None = None
) -> Session:
    """Return the session of an audit at its start, with the study's paths or with others.

    Energies depend in their last bits on what shares a physical batch. Only a session with all of
    the study's paths gives the probabilities that the study saved, bit for bit.
    """
    settings = work.settings
    trained = SlowState.from_bytes(work.fitted, work.name).to(substrate.device)
    learner = Learner(substrate, trained, parse_rule(settings.rule), limits=settings.limits)
    _, past = causal_prompts([job_item(job) for job in work.training])
    room, original = past.fork(work.audit[0].repository), _original(work, substrate)
    if paths is not None:
        return _session(work, learner, paths, room, original)
    tensors, facts = unpack_state(work.history, HISTORY_FILE, work.name)
    own = audit_paths(settings, tuple(facts["offsets"]))
    session = _session(work, learner, own, room, original)
    for name, steps in facts["steps"].items():
        episode = session.episodes[name]
        episode.factors = Factors(tensors[f"{name}.A"], tensors[f"{name}.B"]).to(substrate.device)
        episode.step = steps
    return session


def _audit(work: Work, substrate: Substrate, display: Display) -> Files:
    """Replay one repository's audit window: every path, and HEDGE4, in causal order."""
    return replay(
        work,
        audit_session(work, substrate),
        [job_item(job) for job in work.audit],
        HedgeReference(hedge_after(work.training)),
        display,
        levels=("repository", "commit"),
    )


class HedgeReference:
    """HEDGE4 and its experts beside the paths."""

    def __init__(self, replay: HedgeReplay) -> None:
        self.replay = replay

    def ask(self, items: Sequence[Item]) -> dict[str, list[Sequence[float]]]:
        """Return what HEDGE4 and each expert say to questions asked now."""
        forecasts = self.replay.ask([item.source for item in items])
        said: dict[str, list[Sequence[float]]] = {HEDGE: [f.mixture for f in forecasts]}
        for number, expert in enumerate(EXPERTS):
            said[expert] = [f.experts[number] for f in forecasts]
        return said

    def arrive(self, items: Sequence[Item]) -> None:
        """Learn from labels that arrive together."""
        self.replay.arrive([item.source for item in items])

    def state(self) -> Any:
        """Return everything the next event depends on, as JSON values."""
        return self.replay.state()

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""
        self.replay = HedgeReplay.from_state(state)


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
        limits=session_limits(settings),
    )
