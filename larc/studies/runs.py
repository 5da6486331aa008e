"""A run: a directory that explains itself, carries on where it stopped, and notices changes.

Layout
------
config.json
    What kind of run it is and its settings.
units/NAME/
    The files of one unit of work, and ``done.json`` with their hashes, written last.
evidence.jsonl
    What happened in which order. Each line holds the hash of the line before it.
manifest.json
    The hash of every file, once the run is finished.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.files import write_whole

SCHEMA = 1
_UNTRACKED = {"manifest.json", "lock"}
_PARTS = {
    *("config.json", "evidence.jsonl", "manifest.json", "lock", "report.md", "report.html"),
    *("units", "tables", "figures"),
}


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some content."""
    return hashlib.sha256(content).hexdigest()


def as_json(value: Any) -> bytes:
    """Return a value in the one form this package writes JSON files in."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Read a JSON file of a run, or say which one is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise LarcError(f"{path} is missing; this is not a whole run of larc.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise LarcError(f"{path} cannot be read; it is damaged or foreign.") from error


class Run:
    """One run directory.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(place, "example", {"size": 1})
    >>> run.finish_unit("a", {"x.txt": b"content"})
    >>> Run(place).unit_file("a", "x.txt")
    b'content'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        config = read_json(self.path / "config.json")
        if not isinstance(config, dict) or not {"kind", "schema", "settings"} <= set(config):
            raise LarcError(f"{self.path / 'config.json'} describes no run of larc.")
        if config["schema"] != SCHEMA:
            raise LarcError(
                f"{self.path} was written by another version of larc (schema {config['schema']}, "
                f"this one reads {SCHEMA}); use the version that wrote it."
            )
        self.kind: str = config["kind"]
        self.settings: dict[str, Any] = config["settings"]

    @staticmethod
    def start(path: str | Path, kind: str, settings: Mapping[str, Any]) -> Run:
        """Make a run directory, or go back to one that has the same settings."""
        path = Path(path)
        if not (path / "config.json").exists():
            if path.exists() and any(child.name != "lock" for child in path.iterdir()):
                raise LarcError(f"{path} holds something else; choose another --out.")
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LarcError(f"{path} could not be made ({error.strerror}).") from error
            config = {"kind": kind, "schema": SCHEMA, "settings": dict(settings)}
            write_whole(path / "config.json", as_json(config))
        run = Run(path)
        given = json.loads(as_json(dict(settings)))
        for name in sorted(given.keys() | run.settings.keys()):
            if run.kind != kind or given.get(name) != run.settings.get(name):
                raise LarcError(
                    f"{path} is a run of {run.kind!r} with {name} = {run.settings.get(name)!r}, "
                    f"not {given.get(name)!r}; choose another --out, or give the settings it has."
                )
        return run

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the directory to this process, or say which process has it."""
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                raise LarcError(
                    f"{self.path} is in use by process {file.read().strip() or '?'}; wait for it "
                    "to end."
                ) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            # The file stays: removing it would let two later processes lock two different files.
            yield

    # Units of work -------------------------------------------------------------------------------

    def scratch(self, unit: str) -> Path:
        """Return a directory for what a unit needs only until it is done."""
        place = self.path / "units" / unit
        place.mkdir(parents=True, exist_ok=True)
        return place

    def is_done(self, unit: str) -> bool:
        """Whether a unit's files are all there."""
        return (self.path / "units" / unit / "done.json").exists()

    def finish_unit(self, unit: str, files: Mapping[str, bytes]) -> None:
        """Write a unit's files, their hashes last, and remove what it no longer needs."""
        place = self.scratch(unit)
        for name, content in files.items():
            write_whole(place / name, content)
        write_whole(place / "done.json", as_json({n: sha256(c) for n, c in files.items()}))
        for child in place.iterdir():
            if child.name not in files and child.name != "done.json":
                child.unlink()

    def unit_file(self, unit: str, name: str) -> bytes:
        """Return a file of a finished unit, checked against its hash."""
        place = self.path / "units" / unit
        expected = read_json(place / "done.json").get(name)
        try:
            content = (place / name).read_bytes()
        except OSError as error:
            raise LarcError(f"{place / name} is missing; the run is not whole.") from error
        if sha256(content) != expected:
            raise LarcError(f"{place / name} was changed after it was written.")
        return content

    # Order of evidence ---------------------------------------------------------------------------

    def evidence(self) -> list[dict[str, Any]]:
        """Return what was recorded, refusing a record whose chain is broken."""
        path = self.path / "evidence.jsonl"
        if not path.exists():
            return []
        lines, previous = [], ""
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                entry = json.loads(line)
                chained = entry["previous"] == previous
            except (ValueError, KeyError, TypeError):
                chained = False
            if not chained:
                raise LarcError(f"{path}, line {number}, does not follow from the line before it.")
            lines.append(entry)
            previous = sha256(line)
        return lines

    def record(self, event: str, facts: Mapping[str, Any]) -> None:
        """Add one event after all that happened so far; an event that is there stays as it is."""
        entries = self.evidence()
        if any(entry["event"] == event for entry in entries):
            return
        path = self.path / "evidence.jsonl"
        before = path.read_bytes() if path.exists() else b""
        previous = sha256(before.splitlines()[-1]) if before else ""
        line = json.dumps({"event": event, **facts, "previous": previous}, sort_keys=True)
        write_whole(path, before + line.encode() + b"\n")

    def check_foreign(self) -> None:
        """Refuse files that no run has: a report must not be made over somebody's own."""
        for child in sorted(self.path.iterdir()):
            variation = child.is_dir() and (child / "config.json").exists()
            if child.name not in _PARTS and not variation:
                raise LarcError(f"{child} does not belong to the run; move it elsewhere.")
        for child in sorted(self.path.glob("units/*/*")):
            done = child.parent / "done.json"
            if done.exists() and child.name not in {*read_json(done), "done.json"}:
                raise LarcError(f"{child} does not belong to the run; move it elsewhere.")

    # Manifest ------------------------------------------------------------------------------------

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of the run as a whole."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / name, content)

    def files(self) -> dict[str, str]:
        """Return the hash of every file of the run but the manifest itself."""
        return {
            str(path.relative_to(self.path)): sha256(path.read_bytes())
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and str(path.relative_to(self.path)) not in _UNTRACKED
        }

    def write_manifest(self, facts: Mapping[str, Any]) -> None:
        """Write down what the finished run consists of and what it was made with."""
        self.write_file("manifest.json", as_json({**facts, "files": self.files()}))

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of a finished run."""
        path = self.path / "manifest.json"
        manifest: dict[str, Any] = read_json(path)
        if not isinstance(manifest, dict) or "files" not in manifest:
            raise LarcError(f"{path} is no manifest of a run.")
        if as_json(manifest) != path.read_bytes():
            raise LarcError(f"{path} was changed after it was written.")
        return manifest
