"""Everything that a run of the continuous-integration study does, in its order."""

from __future__ import annotations

from larc.domains.ci.split import Split
from larc.progress import Display
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.units import do_all, hashes
from larc.studies.ci.prompts import asked_texts
from larc.studies.ci.queue import queue_counts
from larc.studies.ci.settings import CISettings
from larc.studies.ci.through import ThroughAudit, ThroughFit, through_name
from larc.studies.ci.units import Audit, Fit, History, history_name
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
    through = [
        ThroughFit(settings=settings, seed=seed, training=split.training, start=starts[seed])
        for seed in (settings.seeds if settings.through else ())
    ]
    first = [unit for pair in zip(fits, histories, strict=True) for unit in pair]
    do_all(run, [*first, *through], execution, display)
    run.record("training finished", {"slow": hashes(run, [*fits, *through], "slow.safetensors")})
    audits = [*audit_units(run, split, settings), *through_units(run, split, settings)]
    do_all(run, audits, execution, display)
    written = hashes(run, audits, "predictions.parquet")
    run.record("predictions written", {"predictions": written})


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
