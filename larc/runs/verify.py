"""Whether a run is what it says: every file, every hash, and the order of evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from larc.errors import LarcError
from larc.io.hashes import sha256
from larc.io.json_files import parse_json
from larc.runs.evidence import EVIDENCE, EvidencePlan, Step
from larc.runs.run import MANIFEST, REPORT_DIRECTORIES, Run
from larc.runs.store import DirectoryStore


def verify(run: Run | str | Path, plans: Mapping[str, EvidencePlan]) -> list[str]:
    """Check a finished run; returns what was checked, or raises with what differs.

    Parameters
    ----------
    run
        The run, or where it is.
    plans
        The order of evidence by kind of run. A run of another kind has its files checked alone.
    """
    run = run if isinstance(run, Run) else Run(run)
    run.check_unlocked()
    checked = [_check_files(run)]
    children = run.children()
    if children:
        for child in children:
            name = child.path.name
            checked += [f"{name}: {sentence}" for sentence in verify(child, plans)]
        return checked
    checked.append(_check_units(run))
    if run.kind in plans:
        checked.append(_check_evidence(run, plans[run.kind]))
    else:
        checked.append(
            f"{len(run.evidence())} events are in a chain (no study is known for {run.kind!r})"
        )
    if run.schema > 1:
        checked.append(_check_factors(run))
    return checked


def check_resumable(run: Run, plan: EvidencePlan) -> None:
    """Refuse to go on with a run whose evidence is gone, or shorter than what the run has done.

    Otherwise going on would put on record today, over queries that are open, what has to have been
    on record before they were opened.
    """
    events = [event["event"] for event in run.evidence()]
    if run.is_closed:
        recorded = run.manifest()["files"].get(EVIDENCE)
        if recorded is not None and recorded not in _evidence_so_far(run):
            raise LarcError(_gone(run, "what its manifest says"))
    kept = {(unit, name) for unit in run.units() for name in run.unit_hashes(unit)}
    for number, step in enumerate(plan.steps):
        if not step.field or step.event in events:
            continue
        earlier = {other.file for other in plan.steps[: number + 1]}
        for later in plan.steps[number + 1 :]:
            if any(_belongs(later, unit, name, earlier) for unit, name in kept):
                raise LarcError(_gone(run, f"{step.event!r}, which comes before {later.event!r}"))


def _belongs(step: Step, unit: str, name: str, earlier: set[str]) -> bool:
    """Say whether a file that a run has kept can only be of a step, and of none of the earlier."""
    if step.unit:
        return unit == step.unit
    if step.prefix:
        return name == step.file and unit.startswith(step.prefix)
    return name == step.file and name not in earlier


def _evidence_so_far(run: Run) -> set[str]:
    """Return the hash of the evidence at each of its lines: later ones were added since."""
    content = run.read(EVIDENCE) if run.exists(EVIDENCE) else b""
    ends = [number for number, byte in enumerate(content, start=1) if byte == ord("\n")]
    return {sha256(content[:end]) for end in (0, *ends, len(content))}


def _gone(run: Run, lacking: str) -> str:
    return (
        f"{run.path / EVIDENCE} lacks {lacking}: it was removed or changed. Evidence is not made "
        "anew over what is open already; bring the file back, or choose another --out."
    )


def _check_files(run: Run) -> str:
    recorded, files = run.manifest()["files"], run.files()
    # Up to version 0.1.0 a manifest named the report too, which follows from the rest.
    reports = {name: digest for name, digest in recorded.items() if run.role(name) == "report"}
    for name in sorted(recorded.keys() | files.keys() - reports.keys()):
        if name in reports:
            continue
        if name not in files:
            raise LarcError(f"{run.path / name} is missing.")
        if name not in recorded:
            raise LarcError(f"{run.path / name} does not belong to the run: it is in no record.")
        if files[name] != recorded[name]:
            raise LarcError(f"{run.path / name} was changed after the run was finished.")
    for name in run.store.names():
        if run.role(name) == "foreign":
            raise LarcError(f"{run.path / name} does not belong to the run: it is in no record.")
    _check_directories(run)
    # Every word of it follows from the files it names.
    if run.read(MANIFEST) != run.manifest_content({**reports, **files}):
        raise LarcError(f"{run.path / MANIFEST} was changed after it was written.")
    return f"{len(files)} files are as the manifest says"


def _check_directories(run: Run) -> None:
    """Refuse a directory that no file of the run is in."""
    if not isinstance(run.store, DirectoryStore):
        return
    known = {parent for name in run.store.names() for parent in (run.path / name).parents}
    for path in sorted(run.path.rglob("*")):
        if path.is_dir() and path not in known and path.name not in REPORT_DIRECTORIES:
            raise LarcError(f"{path} does not belong to the run: it is in no record.")


def _check_units(run: Run) -> str:
    units = run.units()
    for unit in units:
        for name in run.unit_hashes(unit):
            run.unit_file(unit, name)
    return f"{len(units)} units of work are whole"


def _check_factors(run: Run) -> str:
    """Check that every slow state belongs to the frozen model that its unit was made with."""
    units = [unit for unit in run.units() if run.unit_has(unit, "slow.safetensors")]
    for unit in units:
        content = run.unit_file(unit, "slow.safetensors")
        provenance = run.path / "units" / unit / "provenance.json"
        made_with = parse_json(run.read(f"units/{unit}/provenance.json"), provenance)
        try:
            size = int.from_bytes(content[:8], "little")
            about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["larc"])
            fits = about["facts"]["substrate"] == made_with["substrate"]["digest"]
        except (ValueError, KeyError, TypeError, RecursionError):
            fits = False
        if not fits:
            raise LarcError(
                f"{run.path / 'units' / unit / 'slow.safetensors'} does not belong to the "
                "substrate that the unit was made with."
            )
    return f"{len(units)} slow states belong to the substrate that is on record"


def _check_evidence(run: Run, plan: EvidencePlan) -> str:
    events = run.evidence()
    plan.check([event["event"] for event in events], str(run.path / EVIDENCE))
    for event in events:
        step: Step = plan.step(event["event"])
        for unit, name, digest in step.hashes(event):
            if sha256(run.unit_file(unit, name)) != digest:
                raise LarcError(
                    f"{run.path / 'units' / unit / name} is not what was on record when "
                    f"{event['event']!r} was."
                )
    return plan.sentence
