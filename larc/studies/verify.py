"""Whether a run is what it says: every file, every hash, and the order of evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.studies.locks import LOCK, holder
from larc.studies.runs import Run, read_file, read_json, sha256

# In these, labels are opened by the replay's own clock, not at the end.
REPLAYS = ("ci", "stream", "prefix", "controller")
ORDER = (
    "questions read",
    "starts read",
    "training finished",
    "replay read",
    "replay repeated",
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
    _check_lock(run)
    said = [_check_files(run)]
    if run.kind == "sweep":
        for child in sorted(run.path.iterdir()):
            if (child / "config.json").exists():
                said += [f"{child.name}: {sentence}" for sentence in verify(child)]
        return said
    said.append(_check_units(run))
    said.append(_check_evidence(run))
    if run.schema > 1:
        said.append(_check_factors(run))
    return said


def _check_lock(run: Run) -> None:
    process = holder(run.path)
    if process is not None:
        raise LarcError(f"{run.path} is in use by process {process or '?'}; wait for it to end.")
    if run.schema > 1 and (run.path / LOCK).exists():
        raise LarcError(
            f"{run.path / LOCK} was left by a process that was killed; run its command again, or "
            f"`larc report {run.path}`."
        )


def _check_files(run: Run) -> str:
    recorded, found = run.manifest()["files"], run.files()
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found:
            raise LarcError(f"{run.path / name} is missing.")
        if name not in recorded:
            raise LarcError(f"{run.path / name} does not belong to the run: it is in no record.")
        if found[name] != recorded[name]:
            raise LarcError(f"{run.path / name} was changed after the run was finished.")
    parents = {parent for name in found for parent in (run.path / name).parents}
    for place in sorted(run.path.rglob("*")):
        if place.is_dir() and place not in parents:
            raise LarcError(f"{place} does not belong to the run: it is in no record.")
    # Every word of it follows from the files it names.
    manifest = run.path / "manifest.json"
    if read_file(manifest) != run.manifest_content(found):
        raise LarcError(f"{manifest} was changed after it was written.")
    return f"{len(found)} files are as the manifest says"


def _check_units(run: Run) -> str:
    units = sorted(path.parent.name for path in run.path.glob("units/*/done.json"))
    for unit in units:
        for name in run.unit_hashes(unit):
            run.unit_file(unit, name)
    return f"{len(units)} units of work are whole"


def _check_factors(run: Run) -> str:
    """Check that every slow state belongs to the frozen model that its unit was made with."""
    units = sorted(path.parent.name for path in run.path.glob("units/*/slow.safetensors"))
    for unit in units:
        content = run.unit_file(unit, "slow.safetensors")
        made_with = read_json(run.path / "units" / unit / "provenance.json")
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


def _check_evidence(run: Run) -> str:
    entries = run.evidence()
    events = [entry["event"] for entry in entries]
    if events != [event for event in ORDER if event in events]:
        raise LarcError(f"{run.path / 'evidence.jsonl'} is out of order: {', '.join(events)}.")
    needed = {"predictions written"} | (set() if run.kind in REPLAYS else {"queries opened"})
    if not needed <= set(events):
        raise LarcError(f"{run.path / 'evidence.jsonl'} does not show predictions before queries.")
    for entry in entries:
        for unit, digest in _hashes(entry):
            if sha256(run.unit_file(*unit)) != digest:
                raise LarcError(
                    f"{run.path / 'units' / '/'.join(unit)} is not what was on record when "
                    f"{entry['event']!r} was."
                )
    if run.kind == "prefix":
        if "replay repeated" not in events:
            raise LarcError(f"{run.path / 'evidence.jsonl'} does not show the repeated replay.")
        return "the run's own predictions were repeated before others were made"
    if run.kind == "controller":
        return "the run's predictions were on record before they were mixed"
    if run.kind in REPLAYS:
        return "trainings were on record before the audit's predictions"
    return "predictions were on record before the queries were opened"


def _hashes(entry: dict[str, Any]) -> list[tuple[tuple[str, str], str]]:
    if entry["event"] == "starts read":  # of another run's files
        return []
    for field, name in (("slow", "slow.safetensors"), ("predictions", "predictions.parquet")):
        if isinstance(entry.get(field), dict):
            return [((unit, name), digest) for unit, digest in entry[field].items()]
    if "queries" in entry:
        unit = entry["event"].removesuffix(" written")
        return [((unit, "queries.parquet"), entry["queries"])]
    return []
