"""Whether a run is what it says: every file, every hash, and the order of evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.studies.runs import Run, read_json, sha256

ORDER = (
    "training finished",
    "predictions written",
    "queries opened",
    "queries written",
    "final evaluation begun",
    "final predictions written",
    "final-queries opened",
    "final-queries written",
)


def verify(path: str | Path) -> list[str]:
    """Check a finished run; returns what was checked, or raises with what differs."""
    run = Run(path)
    said = [_check_files(run)]
    if run.kind == "sweep":
        for child in sorted(run.path.iterdir()):
            if (child / "config.json").exists():
                said += [f"{child.name}: {sentence}" for sentence in verify(child)]
        return said
    said.append(_check_units(run))
    said.append(_check_evidence(run))
    return said


def _check_files(run: Run) -> str:
    recorded: dict[str, str] = run.manifest()["files"]
    found = run.files()
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found:
            raise LarcError(f"{run.path / name} is missing.")
        if name not in recorded:
            raise LarcError(f"{run.path / name} does not belong to the run: it is in no record.")
        if found[name] != recorded[name]:
            raise LarcError(f"{run.path / name} was changed after the run was finished.")
    return f"{len(found)} files are as the manifest says"


def _check_units(run: Run) -> str:
    units = sorted(path.parent for path in run.path.glob("units/*/done.json"))
    for unit in units:
        for name in read_json(unit / "done.json"):
            run.unit_file(unit.name, name)
    return f"{len(units)} units of work are whole"


def _check_evidence(run: Run) -> str:
    entries = run.evidence()
    events = [entry["event"] for entry in entries]
    if events != [event for event in ORDER if event in events]:
        raise LarcError(f"{run.path / 'evidence.jsonl'} is out of order: {', '.join(events)}.")
    # Labels of a replay are opened by its own clock, not at the end.
    needed = (
        {"predictions written"} if run.kind == "ci" else {"predictions written", "queries opened"}
    )
    if not needed <= set(events):
        raise LarcError(f"{run.path / 'evidence.jsonl'} does not show predictions before queries.")
    for entry in entries:
        for unit, digest in _hashes(entry):
            if sha256(run.unit_file(*unit)) != digest:
                raise LarcError(
                    f"{run.path / 'units' / '/'.join(unit)} is not what was on record when "
                    f"{entry['event']!r} was."
                )
    if run.kind == "ci":
        return "trainings were on record before the audit's predictions"
    return "predictions were on record before the queries were opened"


def _hashes(entry: dict[str, Any]) -> list[tuple[tuple[str, str], str]]:
    if "slow" in entry:
        return [((unit, "slow.safetensors"), digest) for unit, digest in entry["slow"].items()]
    if "predictions" in entry:
        names = entry["predictions"].items()
        return [((unit, "predictions.parquet"), digest) for unit, digest in names]
    if "queries" in entry:
        unit = entry["event"].removesuffix(" written")
        return [((unit, "queries.parquet"), entry["queries"])]
    return []
