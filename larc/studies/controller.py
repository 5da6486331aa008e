"""The controller study: which of a CI run's states to trust, decided by labels as they arrive.

Units of work: ``replay`` keeps the predictions of the run; ``mixed`` mixes them, in several
variants that show what each part of the controller is worth; and for each seed and repository
``live`` lets the controller keep the states itself, so that one it has ruled out costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from larc.ci.driving import hedge_after
from larc.ci.experts import EXPERTS
from larc.ci.jobs import Job
from larc.ci.room import job_item
from larc.progress import Display
from larc.stream.controller import Controller
from larc.stream.forecaster import Forecaster, ForecasterSettings
from larc.stream.items import Item
from larc.stream.queue import Ask
from larc.studies import ci
from larc.studies.about import AuditedRun
from larc.studies.controller_queue import ControllerSettings
from larc.studies.engines import Files
from larc.studies.options import CISettings, Execution
from larc.studies.parquet import from_parquet, to_parquet
from larc.studies.replaying import Checkpoint, ordered
from larc.studies.runs import REPLAY, Run, as_json, sha256
from larc.studies.units import accounted, counted, do_all, hashes, recount
from larc.substrate import Substrate

MIXED = "mixed"
CONTROLLER, LIVE = "CONTROLLER", "LIVE"
# What the controller chooses among, in the order in which the ablation adds it.
GROUPS = {
    "experts": (ci.HEDGE, *EXPERTS),
    "reset": ("P0M0", "P0M1"),
    "carried": ("P1M0", "P1M1"),
    "latest": ("LATEST_M0", "LATEST_M1"),
    "shrunk": ("TENTH_M0", "TENTH_M1"),
    "descending": ("DESCENT_M0", "DESCENT_M1"),
}
_PREDICTION = (
    *("seed", "repository", "commit", "name", "asked", "arrives", "label", "path", "policy"),
)


@dataclass(frozen=True)
class Variant:
    """One way to mix: whose predictions, and how trust is learned; ``None`` for a plain mean.

    Trust may depend on the workflow of a job, or, ``by_job``, on its workflow and name.
    """

    name: str
    predictors: tuple[str, ...]
    settings: ForecasterSettings | None
    by_job: bool = False


def variants(known: Sequence[str]) -> list[Variant]:
    """Return the controller, and what it is without each of its parts.

    Examples
    --------
    >>> [variant.name for variant in variants(["HEDGE4", "prior", "P0M0", "P1M0"])]
    ['CONTROLLER', 'plain mean', 'no drift', 'no contexts', 'contexts by job', 'one rate',
    'without experts', 'without reset', 'without carried', 'experts', '+ reset']
    """
    groups = {name: tuple(p for p in own if p in known) for name, own in GROUPS.items()}
    groups = {name: own for name, own in groups.items() if own}
    everybody = tuple(predictor for own in groups.values() for predictor in own)
    whole = ForecasterSettings()
    made = [
        Variant(CONTROLLER, everybody, whole),
        Variant("plain mean", everybody, None),
        Variant("no drift", everybody, replace(whole, shares=(0.0,))),
        Variant("no contexts", everybody, replace(whole, contexts=0)),
        Variant("contexts by job", everybody, whole, by_job=True),
        Variant("one rate", everybody, replace(whole, rates=(2.0,))),
    ]
    for name, own in groups.items():
        others = tuple(predictor for predictor in everybody if predictor not in own)
        if others:
            made.append(Variant(f"without {name}", others, whole))
    sofar: tuple[str, ...] = ()
    for name, own in list(groups.items())[:-1]:  # with the last it is the controller itself
        sofar += own
        made.append(Variant(f"+ {name}" if made[-1].name in _ADDING else name, sofar, whole))
    return made


_ADDING = ("experts", *(f"+ {name}" for name in GROUPS))


def carry_out(
    run: Run, about: AuditedRun, settings: ControllerSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    source = about.run
    audits = ci.audit_works(source, about.split, about.settings)
    if not run.is_done(REPLAY):
        saved = [
            row
            for audit in audits
            for row in from_parquet(source.unit_file(audit.name, "predictions.parquet"), audit.name)
        ]
        facts = {"settings": source.settings}
        run.finish_unit(
            REPLAY, {"predictions.parquet": to_parquet(saved), "run.json": as_json(facts)}
        )
    saved_hash = sha256(run.unit_file(REPLAY, "predictions.parquet"))
    run.record("replay read", {"results": settings.results, "predictions": {REPLAY: saved_hash}})
    if not run.is_done(MIXED):
        run.finish_unit(MIXED, _mixed(run.unit_file(REPLAY, "predictions.parquet"), audits))
    written = {MIXED: sha256(run.unit_file(MIXED, "predictions.parquet"))}
    if settings.live:
        works = [Live(audit) for audit in audits]
        do_all(run, works, perform, execution, display)
        written |= hashes(run, works, "predictions.parquet")
    run.record("predictions written", {"predictions": written})


# Mixing what was saved ---------------------------------------------------------------------------


def _mixed(saved: bytes, audits: Sequence[ci.Work]) -> Files:
    said: dict[tuple[int, str, str], dict[str, Any]] = {}
    for row in from_parquet(saved, "the run's predictions"):
        key = (row["seed"], row["repository"], row["name"])
        said.setdefault(key, {})[row["path"]] = row["policy"]
    rows: list[list[Any]] = []
    told: list[dict[str, Any]] = []
    for audit in audits:
        items = [job_item(job) for job in audit.audit]
        own = {item.name: said[audit.seed, item.stream, item.name] for item in items}
        for variant in variants(list(own[items[0].name])):
            made, facts = mix(items, own, variant)
            rows += [
                [
                    audit.seed,
                    i.stream,
                    i.group,
                    i.name,
                    i.asked,
                    i.arrives,
                    i.label,
                    variant.name,
                    p,
                ]
                for i, p in made
            ]
            about = {"seed": audit.seed, "repository": items[0].stream, "variant": variant.name}
            told.append({**about, **facts})
    return {"predictions.parquet": _table(rows), "trust.json": as_json(told)}


def mix(
    items: Sequence[Item], said: Mapping[str, Mapping[str, Sequence[float]]], variant: Variant
) -> tuple[list[tuple[Item, list[float]]], dict[str, Any]]:
    """Mix predictions in causal order; returns what was said of each item, and what to know of it.

    Parameters
    ----------
    items
        One stream.
    said
        For each item by name, every predictor's probabilities.
    variant
        How.
    """
    made: list[tuple[Item, list[float]]] = []
    if variant.settings is None:
        for item in items:
            rows = [said[item.name][predictor] for predictor in variant.predictors]
            made.append((item, np.mean(rows, axis=0).tolist()))
        return made, {}
    forecaster = Forecaster(variant.predictors, variant.settings)
    for event in ordered(items):
        if isinstance(event, Ask):
            for item in event.items:
                own = {name: said[item.name][name] for name in variant.predictors}
                context = context_of(item, by_job=variant.by_job)
                forecast = forecaster.predict(item.name, own, context)
                made.append((item, list(forecast.probabilities)))
        else:
            forecaster.learn([(item.name, item.label) for item in event.items])
    return made, _told(forecaster)


def context_of(item: Item, *, by_job: bool = False) -> str:
    """Return what trust may depend on: the workflow of an item's job, or that and its name."""
    job: Job = item.source
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


def _table(rows: Sequence[Sequence[Any]]) -> bytes:
    return to_parquet([dict(zip(_PREDICTION, row, strict=True)) for row in rows])


# Keeping the states ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Live:
    """One audit of the run, replayed by a controller that keeps the states itself."""

    audit: ci.Work
    scratch: str = ""

    @property
    def name(self) -> str:
        """The unit's name: the seed and the repository."""
        return self.audit.name.replace("audit", "live", 1)

    @property
    def settings(self) -> CISettings:
        """The run's settings."""
        return self.audit.settings


def perform(work: Live, display: Display | None = None) -> Files:
    """Do one unit of work and return its files."""
    return accounted(work, _live, display)


def _live(work: Live, substrate: Substrate, display: Display) -> Files:
    # The states that the run has, so that it is compared with mixing them.
    kept = (*ci.TRAINED, *(ci.FURTHER if work.settings.further else ()))
    paths = [path for path in kept if any(path.name in own for own in GROUPS.values())]
    session = ci.audit_session(work.audit, substrate, paths)
    controller = Controller(session, GROUPS["experts"])
    beside = ci.HedgeReference(hedge_after(work.audit.training))
    rows: list[list[Any]] = []
    awake: list[list[Any]] = []
    done = 0
    checkpoint = Checkpoint(work, "session.safetensors")
    if checkpoint.exists():
        notes = controller.restore(checkpoint.path)
        done, rows, awake = (notes[n] for n in ("done", "rows", "awake"))
        beside.restore(notes["reference"])
        recount(substrate, notes)
    events = list(ordered([job_item(job) for job in work.audit.audit]))
    display.unit(work.name, len(events), done)
    for number, event in enumerate(events[done:], start=done + 1):
        if not awake or awake[-1][1] != list(controller.awake):
            awake.append([number, list(controller.awake)])
        if isinstance(event, Ask):
            said = {n: [np.array(p) for p in own] for n, own in beside.ask(event.items).items()}
            with substrate.ledger.operation("read"):
                answers = controller.ask(
                    event.items, said, [context_of(item) for item in event.items]
                )
            rows += [
                [work.audit.seed, i.stream, i.group, i.name, i.asked, i.arrives, i.label, LIVE, p]
                for i, p in _said(event.items, answers)
            ]
        else:
            with substrate.ledger.operation("update"):
                controller.arrive(event.items)
            beside.arrive(event.items)
        display.update(number, 0.0)
        if checkpoint.due(number):
            notes = {"done": number, "rows": rows, "awake": awake}
            notes |= {"reference": beside.state(), **counted(substrate)}
            controller.save(checkpoint.path, notes)
    facts = {**_told(controller.forecaster), "awake": awake}
    return {"predictions.parquet": _table(rows), "trust.json": as_json(facts)}


def _said(items: Sequence[Item], answers: Sequence[Any]) -> Iterator[tuple[Item, list[float]]]:
    for item, answer in zip(items, answers, strict=True):
        yield item, list(answer.forecast.probabilities)
