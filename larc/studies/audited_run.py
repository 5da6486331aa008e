"""Studies about a finished run of the CI study: which run it is, that it is whole, and its jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from larc.domains.ci.prompter import recorded_job
from larc.domains.ci.split import Split
from larc.errors import LarcError
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.runs.verify import verify
from larc.settings import restored, setting
from larc.studies.ci import STUDY as CI
from larc.studies.ci.queue import audit_queue
from larc.studies.ci.settings import CISettings
from larc.studies.study import Study

#: The unit in which a study of a finished run keeps what it took over from that run.
REPLAY = "replay"


@dataclass(frozen=True)
class AboutRun:
    """Which run a study is about. What was decided for that run holds for the study too."""

    run: str = setting("", "The directory of a finished run of the CI study.")
    results: str = setting("", "The hash of that run's results; found out where it is not given.")
    jobs: tuple[str, ...] = setting((), "Its job histories, where they were moved.", free=True)


S = TypeVar("S", bound=AboutRun)


@dataclass(frozen=True)
class AuditedRun:
    """A finished run with its settings, and the jobs that it trained on and predicted."""

    run: Run
    settings: CISettings
    split: Split


def settled(settings: S) -> S:
    """Return the settings with the hash of the CI run they name, finished and whole."""
    return settled_on(settings, (CI,))


def settled_on(settings: S, studies: Sequence[Study]) -> S:
    """Return the settings with the hash of the run they name, of one of some studies."""
    known = " or ".join(f"`larc study {study.kind}`" for study in studies)
    if not settings.run:
        raise LarcError(f"no run was given; name a finished run of {known} with --run.")
    run = Run(settings.run)
    plans = {study.kind: study.evidence for study in studies}
    if run.kind not in plans:
        raise LarcError(f"{run.path} is a run of {run.kind!r}; give one of {known}.")
    if not run.is_closed:
        raise LarcError(f"{run.path} is not finished; run its own command again to go on.")
    verify(run, plans)
    results = results_hash(run)
    if settings.results not in ("", results):
        raise LarcError(
            f"{run.path} has the results {results}, not {settings.results}; give the run that has."
        )
    return replace(settings, results=results)


def results_hash(run: Run) -> str:
    """Return one hash of everything that a finished run's report is made from.

    It is of the manifest's lines for config, evidence and units. A report that is written again
    changes the manifest, but not what the run found.
    """
    files = run.manifest()["files"]
    digests = {
        name: digest
        for name, digest in files.items()
        if name in ("config.json", "evidence.jsonl") or Path(name).parts[0] == "units"
    }
    return sha256(as_json(digests))


def audited(about: AboutRun) -> AuditedRun:
    """Open the run and read its jobs again, refusing any but those it predicted."""
    run = Run(about.run)
    # It finished within its limits, and what is repeated of it holds no more.
    free = {"pending_limit": sys.maxsize, "total_limit": sys.maxsize}
    settings = restored(CISettings, {**run.settings, **free})
    read = replace(settings, jobs=about.jobs) if about.jobs else settings
    split = audit_queue(read)
    first = settings.seeds[0]
    predicted = {
        (row["repository"], row["name"], row["commit"], row["asked"], row["arrives"], row["label"])
        for unit in run.recorded_units("predictions written", "predictions")
        for row in from_parquet(run.unit_file(unit, "predictions.parquet"), unit)
        if row["seed"] == first
    }
    items = map(recorded_job, split.audit)
    read_again = {(i.stream, i.name, i.group, i.asked, i.arrives, i.label) for i in items}
    if read_again != predicted:
        raise LarcError(
            f"{len(read_again ^ predicted)} jobs differ between the job histories and what "
            f"{run.path} predicted; give the histories it was made from with --jobs."
        )
    return AuditedRun(run, settings, split)


def replayed_settings(run: Run) -> dict[str, Any]:
    """Return the settings of the run that a study of its replay is about."""
    settings: dict[str, Any] = run.unit_json(REPLAY, "run.json")["settings"]
    return settings
