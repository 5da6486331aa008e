"""The prefix intervention: update size crossed with parameter history, on early jobs of a CI run.

Units of work, for each seed and repository: ``repeat``, which replays the run's own paths and must
give the probabilities that the run saved, and ``paths``, which replays the paths added here.
They are replayed apart because energies depend in their last bits on what shares a batch: only the
run's own paths, all of them together, give its own numbers again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from larc.ci.room import REMEMBERED, job_item
from larc.errors import LarcError
from larc.objectives import FeedbackObjective
from larc.progress import Display
from larc.residual import Factors
from larc.scoring import Label
from larc.stream.items import Item
from larc.stream.paths import PathSpec
from larc.stream.queue import Arrive, Ask
from larc.stream.session import Session
from larc.studies import ci
from larc.studies.engines import Files
from larc.studies.options import CISettings, Execution
from larc.studies.parquet import from_parquet, to_parquet
from larc.studies.prefix_queue import Prefix, PrefixSettings
from larc.studies.replaying import Checkpoint, ordered
from larc.studies.runs import REPLAY, Run, as_json, sha256
from larc.studies.units import accounted, counted, do_all, hashes, recount
from larc.substrate import Substrate

TENTH = 0.1
# What the run calls the paths that are repeated, and what they are called here.
REPEATED = {"P1M1": "CARRY_1", "P0M1": "RESET"}
# A path of the run, if it has it, whose updates are measured beside them.
WATCHED = {"DESCENT_M1": "DESCENT"}
ADDED = (
    PathSpec("CARRY_TENTH", REMEMBERED, "carry", scale=TENTH),
    PathSpec("LATEST_1", REMEMBERED, "latest"),
    PathSpec("LATEST_TENTH", REMEMBERED, "latest", scale=TENTH),
)
# What is kept of the run's own predictions: the full replay, and HEDGE4 for the prefix.
KEPT = (*REPEATED, "PERM_M1", ci.HEDGE)
_PREDICTION = (
    *("seed", "repository", "commit", "name", "asked", "arrives", "label", "path", "policy"),
)
_UPDATE = ("seed", "repository", "batch", "time", "jobs", "path", "before", "after", "increment")


@dataclass(frozen=True)
class Work:
    """One unit of work: an audit of the run, up to when the prefix's last job is asked.

    Attributes
    ----------
    kind
        ``repeat`` or ``paths``.
    audit
        The run's audit, with everything it depended on.
    cutoff
        When the last job of the prefix is asked.
    saved
        The predictions that a repeated audit must give again.
    """

    kind: str
    audit: ci.Work
    cutoff: int
    saved: bytes = b""
    scratch: str = ""

    @property
    def name(self) -> str:
        """The unit's name: its kind, the seed and the repository."""
        return self.audit.name.replace("audit", self.kind, 1)

    @property
    def settings(self) -> CISettings:
        """The run's settings."""
        return self.audit.settings


def carry_out(run: Run, prefix: Prefix, settings: PrefixSettings, execution: Execution) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    source = prefix.about.run
    audits = ci.audit_works(source, prefix.about.split, prefix.about.settings)
    cutoffs = [prefix.cutoffs[audit.audit[0].repository] for audit in audits]
    saved = [source.unit_file(audit.name, "predictions.parquet") for audit in audits]
    if not run.is_done(REPLAY):
        manifest = sha256((source.path / "manifest.json").read_bytes())
        facts = {"manifest": manifest, "settings": source.settings}
        files = {"predictions.parquet": _kept(saved), "run.json": as_json(facts)}
        run.finish_unit(REPLAY, files)
    replay = sha256(run.unit_file(REPLAY, "predictions.parquet"))
    run.record("replay read", {"results": settings.results, "predictions": {REPLAY: replay}})
    repeats = [Work("repeat", *parts) for parts in zip(audits, cutoffs, saved, strict=True)]
    do_all(run, repeats, perform, execution, display)
    run.record("replay repeated", {"predictions": hashes(run, repeats, "predictions.parquet")})
    paths = [Work("paths", *parts) for parts in zip(audits, cutoffs, strict=True)]
    do_all(run, paths, perform, execution, display)
    run.record("predictions written", {"predictions": hashes(run, paths, "predictions.parquet")})


def _kept(saved: Sequence[bytes]) -> bytes:
    rows = [row for content in saved for row in from_parquet(content, "the run's predictions")]
    return to_parquet([row for row in rows if row["path"] in KEPT])


def perform(work: Work, display: Display | None = None) -> Files:
    """Do one unit of work and return its files."""
    return accounted(work, _replay, display)


def _replay(work: Work, substrate: Substrate, display: Display) -> Files:
    """Replay the prefix of one audit, and measure each update on its own batch."""
    repeated = work.kind == "repeat"
    session = ci.audit_session(work.audit, substrate, None if repeated else ADDED)
    names = REPEATED if repeated else {path.name: path.name for path in ADDED}
    expected = {
        (row["path"], row["name"]): row["policy"]
        for row in (from_parquet(work.saved, work.name) if repeated else ())
    }
    rows: list[list[Any]] = []
    updates: list[list[Any]] = []
    done = 0
    checkpoint = Checkpoint(work, "session.safetensors")
    if checkpoint.exists():
        notes = session.restore(checkpoint.path)
        done, rows, updates = notes["done"], notes["rows"], notes["updates"]
        recount(substrate, notes)
    events = prefix_events([job_item(job) for job in work.audit.audit], work.cutoff)
    display.unit(work.name, len(events), done)
    for number, event in enumerate(events[done:], start=done + 1):
        if isinstance(event, Ask):
            with substrate.ledger.operation("read"):
                answers = session.ask(event.items)
            if repeated:
                _check_equal(work.audit.seed, event.items, answers, expected)
            rows += [
                [*_about(work, item), name, answers[path][place].tolist()]
                for place, item in enumerate(event.items)
                for path, name in names.items()
            ]
        else:
            batch = sum(isinstance(earlier, Arrive) for earlier in events[:number])
            about = [work.audit.seed, event.items[0].stream, batch, event.time, len(event.items)]
            made = measured(session, event.items, {**names, **(WATCHED if repeated else {})})
            updates += [[*about, name, *numbers] for name, numbers in made.items()]
        display.update(number, 0.0)
        if checkpoint.due(number):
            notes = {"done": number, "rows": rows, "updates": updates, **counted(substrate)}
            session.save(checkpoint.path, notes)
    return {
        "predictions.parquet": _table(_PREDICTION, rows),
        "updates.parquet": _table(_UPDATE, updates),
    }


def _about(work: Work, item: Item) -> list[Any]:
    times = (item.asked, item.arrives)
    return [work.audit.seed, item.stream, item.group, item.name, *times, item.label]


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    return to_parquet([dict(zip(columns, row, strict=True)) for row in rows])


def prefix_events(items: Sequence[Item], cutoff: float) -> list[Ask[Item] | Arrive[Item]]:
    """Return the events up to the last question of a prefix; what arrives later informs none.

    Examples
    --------
    >>> items = [Item(name, asked, 5, ("yes", "no"), 0) for name, asked in (("a", 0), ("b", 5))]
    >>> [type(event).__name__ for event in prefix_events(items, cutoff=5)]
    ['Ask', 'Ask']
    """
    events = [event for event in ordered(items) if event.time <= cutoff]
    while isinstance(events[-1], Arrive):
        events.pop()
    return events


def _check_equal(
    seed: int,
    items: Sequence[Item],
    answers: Mapping[str, Sequence[NDArray[Any]]],
    expected: Mapping[tuple[str, str], Sequence[float]],
) -> None:
    """Stop at the first probability that is not the one the run saved, bit for bit."""
    for place, item in enumerate(items):
        for path, name in REPEATED.items():
            difference = abs(answers[path][place] - expected[path, item.name]).max()
            if difference != 0:
                raise LarcError(
                    f"{name} is not what the run saved as {path}: seed {seed}, job {item.name} of "
                    f"{item.stream} differs by {difference:.3g}; repeat the study with the "
                    "machine, the versions and the sources that made the run."
                )


def measured(
    session: Session, items: Sequence[Item], names: Mapping[str, str]
) -> dict[str, tuple[float, float, float]]:
    """Let labels arrive; returns what the update of each path did, by the path's new name.

    That is the mean cross-entropy of the batch before and after it, on the prompts kept from when
    its questions were asked, and the norm of the difference that was realised. The loss before is
    of the pass that gave the gradient; the one after is of a pass without a gradient.
    """
    learner, ledger = session.learner, session.learner.substrate.ledger
    paths = [path for path in session.paths if path.name in names and path.learns]
    labels = [
        [Label(session.pending[i.name][path.view], i.candidates, i.label) for i in items]
        for path in paths
    ]
    episodes = [session.episodes[path.name] for path in paths]
    old = Factors.stack(
        [
            (episode.slow if path.retention == "latest" else episode).factors
            for path, episode in zip(paths, episodes, strict=True)
        ]
    )
    with ledger.operation("update"):
        made = session.arrive(items)
    new = Factors.stack([episode.factors for episode in episodes])
    with ledger.operation("measure"), torch.no_grad():
        objective = FeedbackObjective.of(
            learner.substrate, learner.slow.boundary, labels, learner.limits
        )
        after = objective.losses(new).tolist()
    moved = new.combine(old, torch.sub).norm().tolist()
    return {
        names[path.name]: (made[path.name].loss, *found)
        for path, *found in zip(paths, after, moved, strict=True)
    }
