"""Everything that a run of the continuous-integration study does, in its order."""

from __future__ import annotations

from dataclasses import replace

from larc.domains.ci.prompter import recorded_job
from larc.domains.ci.split import Split
from larc.errors import LarcError
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.progress import Display
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import do_all, hashes
from larc.settings import identifying, restored
from larc.studies.ci.prompts import asked_texts
from larc.studies.ci.queue import queue_counts
from larc.studies.ci.settings import THROUGH_SETTINGS, CISettings
from larc.studies.ci.through import ThroughAudit, ThroughFit, ThroughLabels, through_name
from larc.studies.ci.units import Audit, Fit, History, history_name
from larc.studies.replay_tables import predicted_rows
from larc.studies.settings import fit_name
from larc.studies.starts import earlier_state


def carry_out(run: Run, split: Split, settings: CISettings, execution: Execution) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    starts = {seed: _start_content(settings, seed) for seed in settings.seeds}
    if not run.evidence():  # a run of before this was recorded stays in its order
        run.record("questions read", {"counts": queue_counts(split)})
    asked = asked_texts([*split.training, *split.audit])
    fits = [
        Fit(settings=settings, seed=seed, training=split.training, start=starts[seed], asked=asked)
        for seed in settings.seeds
    ]
    histories = [
        History(settings=settings, seed=seed, training=split.training, start=starts[seed])
        for seed in settings.seeds
    ]
    seeds = settings.seeds if settings.through else ()
    labels = [
        ThroughLabels(settings=settings, seed=seed, training=split.training, start=starts[seed])
        for seed in (seeds if settings.through_share < 1 else ())
    ]
    if settings.taken_from:
        run.record("units taken", {"units": take_units(run, split, settings)})
    first = [unit for pair in zip(fits, histories, strict=True) for unit in pair]
    do_all(run, [*first, *labels], execution, display)
    begun = {one.seed: run.unit_file(one.name, "slow.safetensors") for one in labels}
    through = [
        ThroughFit(
            settings=settings,
            seed=seed,
            training=split.training,
            start=begun.get(seed, starts[seed]),
        )
        for seed in seeds
    ]
    do_all(run, through, execution, display)
    run.record("training finished", {"slow": hashes(run, [*fits, *through], "slow.safetensors")})
    audits = [*audit_units(run, split, settings), *through_units(run, split, settings)]
    do_all(run, audits, execution, display)
    written = hashes(run, audits, "predictions.parquet")
    run.record("predictions written", {"predictions": written})


def take_units(run: Run, split: Split, settings: CISettings) -> dict[str, str]:
    """Keep the units of the finished run that the settings name; returns the hashes of each."""
    earlier = Run(settings.taken_from)
    if earlier.kind != "ci" or not earlier.is_closed:
        raise LarcError(f"{settings.taken_from} is no finished run of `larc study ci`.")
    plain = replace(settings, **{name: getattr(CISettings, name) for name in THROUGH_SETTINGS})
    ours, theirs = (identifying(s) for s in (plain, restored(CISettings, earlier.settings)))
    differing = sorted(n for n in ours | theirs if ours.get(n) != theirs.get(n))
    # By what was asked and what became of it: the hash of data has other parts with each version.
    audited = [recorded_job(job) for job in split.audit]
    asked = {(one.name, one.asked, one.arrives, one.label) for one in audited}
    answered = {(r["name"], r["asked"], r["arrives"], r["label"]) for r in predicted_rows(earlier)}
    if differing or asked != answered:
        raise LarcError(
            f"{settings.taken_from} has other {', '.join(differing) or 'jobs'}; name a run that "
            "differs in the settings of --through alone, or leave --taken-from out."
        )
    for unit in earlier.units():
        if not run.is_done(unit):
            files = {name: earlier.unit_file(unit, name) for name in earlier.unit_hashes(unit)}
            run.finish_unit(unit, files)
    return {unit: sha256(as_json(earlier.unit_hashes(unit))) for unit in earlier.units()}


def audit_units(run: Run, split: Split, settings: CISettings) -> list[Audit]:
    """Return the audits of a run whose trainings and histories are finished."""
    return [
        Audit(
            settings=settings,
            seed=seed,
            training=split.training,
            start=_start_content(settings, seed),
            audit=[job for job in split.audit if job.repository == repository],
            fitted=run.unit_file(fit_name("", seed), "slow.safetensors"),
            history=run.unit_file(history_name(seed), "history.safetensors"),
        )
        for seed in settings.seeds
        for repository in sorted({job.repository for job in split.audit})
    ]


def through_units(run: Run, split: Split, settings: CISettings) -> list[ThroughAudit]:
    """Return the audits of states trained through the window, where these are asked for."""
    return [
        ThroughAudit(
            settings=settings,
            seed=seed,
            training=split.training,
            audit=[job for job in split.audit if job.repository == repository],
            through=run.unit_file(through_name(seed), "slow.safetensors"),
        )
        for seed in (settings.seeds if settings.through else ())
        for repository in sorted({job.repository for job in split.audit})
    ]


def _start_content(settings: CISettings, seed: int) -> bytes:
    if not settings.start:
        return b""
    return earlier_state(settings.start, "static", seed, settings)
