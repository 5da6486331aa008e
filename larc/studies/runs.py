"""A run: a directory that explains itself, carries on where it stopped, and notices changes.

Layout
------
config.json
    What kind of run it is, its settings, and the hash of the data it is about.
units/NAME/
    The files of one unit of work, and ``done.json`` with their hashes, written last.
evidence.jsonl
    What happened in which order. Each line holds the hash of the line before it.
manifest.json
    The hash of every file, once the run is finished (`larc.studies.manifest`).
lock
    Which process works on it; there only meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.files import is_aside, make_directory, write_whole
from larc.studies.locks import LOCK, locked
from larc.studies.manifest import identities

#: Schema 1 held no hash of its data, and left its lock behind. It is read, and gone on with.
SCHEMA = 2
# The unit in which a study of a finished run keeps what it took over from that run.
REPLAY = "replay"
_PARTS = {
    *("config.json", "evidence.jsonl", "manifest.json", LOCK, "report.md", "report.html"),
    *("units", "tables", "figures"),
}
# What a unit keeps only until it is done.
_SCRATCH = ("checkpoint.safetensors", "session.safetensors")


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some content."""
    return hashlib.sha256(content).hexdigest()


def as_json(value: Any) -> bytes:
    """Return a value in the one form this package writes JSON files in."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Read a JSON file of a run, or say which one is missing or damaged."""
    try:
        return json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, LarcError):
            raise
        raise LarcError(f"{path} cannot be read; it is damaged or foreign.") from error


def read_file(path: Path) -> bytes:
    """Read a file of a run, or say which one is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise LarcError(f"{path} is missing; this is not a whole run of larc.") from error
    except (OSError, ValueError) as error:
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
        place = self.path / "config.json"
        config = read_json(place)
        if not isinstance(config, dict) or not {"kind", "schema", "settings"} <= set(config):
            raise LarcError(f"{place} describes no run of larc.")
        schema, kind, settings = config["schema"], config["kind"], config["settings"]
        if type(schema) is int and schema > SCHEMA:
            raise LarcError(
                f"{self.path} was written by a newer larc (schema {schema}, this one reads up to "
                f"{SCHEMA}); use the version that wrote it."
            )
        sound = type(schema) is int and isinstance(kind, str) and isinstance(settings, dict)
        if not sound or schema < 1 or not isinstance(config.get("data", ""), str):
            raise LarcError(f"{place} describes no run of larc.")
        _check_form(place, config)
        self.schema: int = schema
        self.kind: str = kind
        self.settings: dict[str, Any] = settings
        #: The hash of what the run is about; empty where it is not known.
        self.data: str = config.get("data", "")

    @staticmethod
    def start(path: str | Path, kind: str, settings: Mapping[str, Any], data: str = "") -> Run:
        """Make a run directory, or go back to one that has the same settings and data."""
        path = Path(path)
        if not (path / "config.json").exists():
            _check_empty(path)
            make_directory(path)
            config = {"data": data, "kind": kind, "schema": SCHEMA, "settings": dict(settings)}
            with locked(path):  # of two that start at once, one
                if not (path / "config.json").exists():
                    write_whole(path / "config.json", as_json(config))
        run = Run(path)
        given = json.loads(as_json(dict(settings)))
        for name in sorted(given.keys() | run.settings.keys()):
            if run.kind != kind or given.get(name) != run.settings.get(name):
                raise LarcError(
                    f"{path} is a run of {run.kind!r} with {name} = {run.settings.get(name)!r}, "
                    f"not {given.get(name)!r}; choose another --out, or give the settings it has."
                )
        if run.data and data and run.data != data:
            raise LarcError(
                f"{path} was started on other data, which has changed since; choose another --out, "
                "or bring the data back as it was."
            )
        return run

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the directory to this process, or say which process has it."""
        with locked(self.path):
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Remove what a killed process left: files half written, and scratch of finished units."""
        for place in (self.path, *(self.path / name for name in ("tables", "figures"))):
            for child in place.glob(".*"):
                _remove_if(is_aside(child), child)
        for child in self.path.glob("units/*/*"):
            over = child.name in _SCRATCH and self.is_done(child.parent.name)
            _remove_if(over or is_aside(child), child)

    # Units of work -------------------------------------------------------------------------------

    def scratch(self, unit: str) -> Path:
        """Return a directory for what a unit needs only until it is done."""
        return make_directory(self.path / "units" / unit)

    def is_done(self, unit: str) -> bool:
        """Whether a unit's files are all there."""
        return (self.path / "units" / unit / "done.json").exists()

    def finish_unit(self, unit: str, files: Mapping[str, bytes]) -> None:
        """Write a unit's files, their hashes last, and remove what it no longer needs."""
        place = self.scratch(unit)
        for name, content in files.items():
            write_whole(place / name, content)
        write_whole(place / "done.json", as_json({n: sha256(c) for n, c in files.items()}))
        for name in _SCRATCH:
            _remove_if(name not in files, place / name)

    def unit_hashes(self, unit: str) -> dict[str, str]:
        """Return the files of a finished unit and their hashes."""
        path = self.path / "units" / unit / "done.json"
        found = read_json(path)
        if not isinstance(found, dict) or not all(map(_is_plain, found)):
            raise LarcError(f"{path} is no record of a unit's files; it is damaged or foreign.")
        return found

    def unit_file(self, unit: str, name: str) -> bytes:
        """Return a file of a finished unit, checked against its hash."""
        if not _is_plain(unit) or not _is_plain(name):
            raise LarcError(f"{unit}/{name} is no file of a unit of {self.path}.")
        place = self.path / "units" / unit
        expected = self.unit_hashes(unit).get(name)
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
        for number, line in enumerate(read_file(path).splitlines(), start=1):
            try:
                entry = json.loads(line)
                chained = entry["previous"] == previous and isinstance(entry["event"], str)
            except (ValueError, KeyError, TypeError, RecursionError):
                chained = False
            if not chained:
                raise LarcError(f"{path}, line {number}, does not follow from the line before it.")
            lines.append(entry)
            previous = sha256(line)
        return lines

    def has_recorded(self, event: str) -> bool:
        """Whether an event is on record."""
        return any(entry["event"] == event for entry in self.evidence())

    def record(self, event: str, facts: Mapping[str, Any]) -> None:
        """Add one event after all that happened so far; an event that is there stays as it is."""
        if self.has_recorded(event):
            return
        path = self.path / "evidence.jsonl"
        before = read_file(path) if path.exists() else b""
        previous = sha256(before.splitlines()[-1]) if before else ""
        line = json.dumps({"event": event, **facts, "previous": previous}, sort_keys=True)
        write_whole(path, before + line.encode() + b"\n")

    def check_foreign(self) -> None:
        """Refuse files that no run has, and units that are not as they were.

        A report must not be made over somebody's own files, nor from damaged ones.
        """
        for child in sorted(self.path.iterdir()):
            variation = child.is_dir() and (child / "config.json").exists()
            if child.name not in _PARTS and not variation:
                raise LarcError(f"{child} does not belong to the run; move it elsewhere.")
        for child in sorted(self.path.glob("units/*/*")):
            unit = child.parent.name
            if self.is_done(unit) and child.name not in {*self.unit_hashes(unit), "done.json"}:
                raise LarcError(f"{child} does not belong to the run; move it elsewhere.")
        for done in sorted(self.path.glob("units/*/done.json")):
            for name in self.unit_hashes(done.parent.name):
                self.unit_file(done.parent.name, name)

    # Files ---------------------------------------------------------------------------------------

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of the run as a whole."""
        make_directory((self.path / name).parent)
        write_whole(self.path / name, content)

    def files(self) -> dict[str, str]:
        """Return the hash of every file of the run but its manifest and its lock."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            name = str(path.relative_to(self.path))
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise LarcError(f"{path} does not belong to the run: it is no file of its own.")
            if path.is_file() and name not in ("manifest.json", LOCK):
                found[name] = sha256(read_file(path))
        return found

    def made_with(self) -> list[Any]:
        """Return what the units were made with, each distinct answer once."""
        found: list[Any] = []
        for path in sorted(self.path.glob("units/*/provenance.json")):
            facts = read_json(path)
            if facts not in found:
                found.append(facts)
        return found

    def manifest_content(self, files: Mapping[str, str]) -> bytes:
        """Return what a manifest of files with these hashes says."""
        made_with = self.made_with()
        facts: dict[str, Any] = {"files": dict(files), "kind": self.kind, "made_with": made_with}
        if self.schema > 1:
            facts["identities"] = identities(self.data, files, made_with)
        return as_json(facts)

    def write_manifest(self) -> None:
        """Write down what the finished run consists of and what it was made with."""
        self.write_file("manifest.json", self.manifest_content(self.files()))

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of a finished run."""
        path = self.path / "manifest.json"
        manifest: dict[str, Any] = read_json(path)
        if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
            raise LarcError(f"{path} is no manifest of a run.")
        _check_form(path, manifest)
        return manifest

    def is_listed(self, name: str) -> bool:
        """Whether the manifest, where there is one, names a file: it was there at the last report.

        What was stopped before its report was made is not over.
        """
        return (self.path / "manifest.json").exists() and name in self.manifest()["files"]


def _check_form(path: Path, value: Any) -> None:
    """Refuse a file that says the same in another form than this package writes."""
    try:
        same = as_json(value) == read_file(path)
    except UnicodeEncodeError:  # a text that no file of this package can hold
        same = False
    if not same:
        raise LarcError(f"{path} was changed after it was written.")


def _is_plain(name: str) -> bool:
    """Whether a name stays in the directory it is looked for in."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _check_empty(path: Path) -> None:
    try:
        taken = path.exists() and any(
            child.name != LOCK and not is_aside(child) for child in path.iterdir()
        )
    except OSError as error:
        raise LarcError(f"{path} could not be made ({error.strerror}).") from error
    if taken:
        raise LarcError(f"{path} holds something else; choose another --out.")


def _remove_if(wanted: bool, path: Path) -> None:
    try:
        if wanted:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise LarcError(f"{path} could not be removed ({error.strerror}).") from error
