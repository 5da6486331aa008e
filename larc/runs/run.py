"""A run: a directory or an archive that explains itself, resumes, and notices changes.

Layout
------
config.json
    What kind of run it is, its settings, and the hash of the data it is about.
units/NAME/
    The files of one unit of work, and ``done.json`` with their hashes, written last.
evidence.jsonl
    What happened in which order. Each line holds the hash of the line before it.
manifest.json
    The hash of every file above, written when the last unit is done: the run closes itself.
report.html, report.md, tables/, figures/
    The report, which follows from the files above and belongs to no record.
lock
    Which process works on it; there only meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from larc.errors import LarcError
from larc.io.files import atomic_write, is_aside, make_directory
from larc.io.hashes import sha256
from larc.io.json_files import as_json, parse_json
from larc.io.locks import LOCK, check_free, locked
from larc.runs.evidence import EVIDENCE, Event, extended_chain, read_chain
from larc.runs.manifest import identities
from larc.runs.store import DirectoryStore, Store, locate

#: Schema 1 held no hash of its data, and left its lock behind. It is read and resumed.
SCHEMA = 2
CONFIG, MANIFEST, DONE = "config.json", "manifest.json", "done.json"
REPORT_FILES, REPORT_DIRECTORIES = ("report.md", "report.html"), ("tables", "figures")
# What a unit keeps only until it is done.
_SCRATCH = ("checkpoint.safetensors", "session.safetensors")

Role = Literal["evidence", "manifest", "report", "lock", "foreign"]


class Run:
    """One run.

    Examples
    --------
    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp()) / "run"
    >>> run = Run.start(directory, "example", {"size": 1})
    >>> run.finish_unit("a", {"x.txt": b"content"})
    >>> run.close()
    >>> Run(directory).unit_file("a", "x.txt"), Run(directory).is_closed
    (b'content', True)
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.store = locate(path)
        self._open()

    @classmethod
    def _at(cls, path: Path, store: Store) -> Run:
        run = cls.__new__(cls)
        run.path, run.store = path, store
        run._open()
        return run

    def _open(self) -> None:
        name = self.path / CONFIG
        config = parse_json(self.read(CONFIG), name)
        if not isinstance(config, dict) or not {"kind", "schema", "settings"} <= set(config):
            raise LarcError(f"{name} describes no run of larc.")
        schema, kind, settings = config["schema"], config["kind"], config["settings"]
        if type(schema) is int and schema > SCHEMA:
            raise LarcError(
                f"{self.path} was written by a newer larc (schema {schema}, this one reads up to "
                f"{SCHEMA}); use the version that wrote it."
            )
        sound = type(schema) is int and isinstance(kind, str) and isinstance(settings, dict)
        if not sound or schema < 1 or not isinstance(config.get("data", ""), str):
            raise LarcError(f"{name} describes no run of larc.")
        self._check_form(CONFIG, config)
        self.schema: int = schema
        self.kind: str = kind
        self.settings: dict[str, Any] = settings
        #: The hash of what the run is about; empty where it is not known.
        self.data: str = config.get("data", "")

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return f"<Run of {self.kind!r} at {str(self.path)!r}, {len(self.units())} units, {state}>"

    @staticmethod
    def start(path: str | Path, kind: str, settings: Mapping[str, Any], data: str = "") -> Run:
        """Make a run directory, or resume one that has the same settings and data."""
        path = Path(path)
        if not (path / CONFIG).exists():
            _check_empty(path)
            make_directory(path)
            config = {"data": data, "kind": kind, "schema": SCHEMA, "settings": dict(settings)}
            with locked(path):  # of two that start at once, one
                if not (path / CONFIG).exists():
                    atomic_write(path / CONFIG, as_json(config))
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

    # Files ---------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """The directory the run is written in; an archive has none."""
        if not isinstance(self.store, DirectoryStore):
            raise LarcError(
                f"{self.path} is packed and is only read; `larc unpack` makes a directory of it."
            )
        return self.path

    def read(self, name: str) -> bytes:
        """Return the content of a file of the run, or say what is wrong with it."""
        return self.store.read(name)

    def exists(self, name: str) -> bool:
        """Whether the run has a file of that name."""
        return self.store.exists(name)

    def children(self) -> list[Run]:
        """Return the runs inside this one, which is a sweep, by name."""
        names = {PurePosixPath(name).parts[0] for name in self.store.names() if "/" in name}
        return [self.child(name) for name in sorted(names) if self.exists(f"{name}/{CONFIG}")]

    def child(self, name: str) -> Run:
        """Return one run inside this one."""
        return Run._at(self.path / name, self.store.below(name))

    def role(self, name: str) -> Role:
        """Say what a file is to the run: part of its record, of its report, or foreign."""
        first, *rest = PurePosixPath(name).parts
        if name in (CONFIG, EVIDENCE) or (first == "units" and len(rest) == 2):
            return "evidence"
        if name == MANIFEST:
            return "manifest"
        if name == LOCK:
            return "lock"
        if name in REPORT_FILES or (first in REPORT_DIRECTORIES and len(rest) == 1):
            return "report"
        if rest and self.exists(f"{first}/{CONFIG}"):  # of a run inside this one
            inner = self.role("/".join(rest))
            return "evidence" if inner == "manifest" else inner
        return "foreign"

    def files(self) -> dict[str, str]:
        """Return the hash of every file that the record of the run consists of."""
        names = [name for name in self.store.names() if self.role(name) == "evidence"]
        return {name: sha256(self.read(name)) for name in names}

    def check_foreign(self) -> None:
        """Refuse files that no run has, and units that are not as they were.

        A report must not be made beside somebody's own files, nor from damaged ones.
        """
        for name in self.store.names():
            if self.role(name) == "foreign" and not is_aside(Path(name)):
                raise LarcError(
                    f"{self.path / name} does not belong to the run; move it elsewhere."
                )
        for unit in self.units():
            hashes = self.unit_hashes(unit)
            for name in self.unit_names(unit):
                if name != DONE and name not in hashes:
                    raise LarcError(
                        f"{self.path / 'units' / unit / name} does not belong to the run; "
                        "move it elsewhere."
                    )
            for name in hashes:
                self.unit_file(unit, name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the directory to this process, or say which process has it."""
        with locked(self.directory):
            self._tidy()
            yield

    def check_unlocked(self) -> None:
        """Refuse a run that a process works on, or that a killed one left."""
        if not isinstance(self.store, DirectoryStore):
            return
        check_free(self.path)
        if self.schema > 1 and (self.path / LOCK).exists():
            raise LarcError(
                f"{self.path / LOCK} was left by a process that was killed; run its command again, "
                f"or `larc report {self.path}`."
            )

    def _tidy(self) -> None:
        """Remove what a killed process left: files half written, and scratch of finished units."""
        for directory in (self.path, *(self.path / name for name in REPORT_DIRECTORIES)):
            for child in directory.glob(".*"):
                _remove_if(is_aside(child), child)
        for child in self.path.glob("units/*/*"):
            over = child.name in _SCRATCH and self.is_done(child.parent.name)
            _remove_if(over or is_aside(child), child)

    # Units of work -------------------------------------------------------------------------------

    def scratch(self, unit: str) -> Path:
        """Return a directory for what a unit needs only until it is done."""
        return make_directory(self.directory / "units" / unit)

    def units(self) -> list[str]:
        """Return the names of the units that are done."""
        parts = [PurePosixPath(name).parts for name in self.store.names()]
        return [p[1] for p in parts if len(p) == 3 and p[0] == "units" and p[2] == DONE]

    def unit_names(self, unit: str) -> list[str]:
        """Return the names of the files in a unit's directory."""
        return self.store.below(f"units/{unit}").names()

    def is_done(self, unit: str) -> bool:
        """Whether a unit's files are all there."""
        return self.exists(f"units/{unit}/{DONE}")

    def finish_unit(self, unit: str, files: Mapping[str, bytes]) -> None:
        """Write a unit's files, their hashes last, and remove what it no longer needs."""
        directory = self.scratch(unit)
        for name, content in files.items():
            atomic_write(directory / name, content)
        atomic_write(directory / DONE, as_json({n: sha256(c) for n, c in files.items()}))
        for name in _SCRATCH:
            _remove_if(name not in files, directory / name)

    def unit_hashes(self, unit: str) -> dict[str, str]:
        """Return the files of a finished unit and their hashes."""
        name = self.path / "units" / unit / DONE
        hashes = parse_json(self.read(f"units/{unit}/{DONE}"), name)
        if not isinstance(hashes, dict) or not all(map(_is_plain, hashes)):
            raise LarcError(f"{name} is no record of a unit's files; it is damaged or foreign.")
        return hashes

    def unit_file(self, unit: str, name: str) -> bytes:
        """Return a file of a finished unit, checked against its hash."""
        if not _is_plain(unit) or not _is_plain(name):
            raise LarcError(f"{unit}/{name} is no file of a unit of {self.path}.")
        expected = self.unit_hashes(unit).get(name)
        path = self.path / "units" / unit / name
        if not self.exists(f"units/{unit}/{name}"):
            raise LarcError(f"{path} is missing; the run is not whole.")
        content = self.read(f"units/{unit}/{name}")
        if sha256(content) != expected:
            raise LarcError(f"{path} was changed after it was written.")
        return content

    def unit_json(self, unit: str, name: str) -> Any:
        """Return the value of a JSON file of a finished unit."""
        return parse_json(self.unit_file(unit, name), self.path / "units" / unit / name)

    def unit_has(self, unit: str, name: str) -> bool:
        """Whether a unit has a file of that name."""
        return self.exists(f"units/{unit}/{name}")

    # Order of evidence ---------------------------------------------------------------------------

    def evidence(self) -> list[Event]:
        """Return what was recorded, refusing a record whose chain is broken."""
        content = self.read(EVIDENCE) if self.exists(EVIDENCE) else b""
        return read_chain(content, str(self.path / EVIDENCE))

    def recorded(self, event: str) -> Event | None:
        """Return an event that is on record."""
        return next((entry for entry in self.evidence() if entry["event"] == event), None)

    def recorded_units(self, event: str, field: str) -> list[str]:
        """Return the units whose hashes an event holds, or say that the run is not finished."""
        entry = self.recorded(event)
        if entry is None:
            raise LarcError(f"{self.path} is not finished; run the study's command again to go on.")
        return list(entry[field])

    def record(self, event: str, facts: Mapping[str, Any]) -> None:
        """Add one event after all that happened so far; an event that is there stays as it is."""
        if self.recorded(event) is None:
            before = self.read(EVIDENCE) if self.exists(EVIDENCE) else b""
            atomic_write(self.directory / EVIDENCE, extended_chain(before, event, facts))

    # The manifest --------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the run is finished: all its units are done, and its manifest says so."""
        return self.exists(MANIFEST)

    def close(self) -> None:
        """Write down what the finished run consists of and what it was made with."""
        atomic_write(self.directory / MANIFEST, self.manifest_content(self.files()))

    def made_with(self) -> list[Any]:
        """Return what the units were made with, each distinct answer once."""
        facts: list[Any] = []
        for name in self.store.names():
            parts = PurePosixPath(name).parts
            if len(parts) == 3 and parts[0] == "units" and parts[2] == "provenance.json":
                provenance = parse_json(self.read(name), self.path / name)
                if provenance not in facts:
                    facts.append(provenance)
        return facts

    def manifest_content(self, files: Mapping[str, str]) -> bytes:
        """Return what a manifest of files with these hashes says."""
        made_with = self.made_with()
        facts: dict[str, Any] = {"files": dict(files), "kind": self.kind, "made_with": made_with}
        if self.schema > 1:
            facts["identities"] = identities(self.data, files, made_with)
        return as_json(facts)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of a finished run."""
        name = self.path / MANIFEST
        manifest: dict[str, Any] = parse_json(self.read(MANIFEST), name)
        if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
            raise LarcError(f"{name} is no manifest of a run.")
        self._check_form(MANIFEST, manifest)
        return manifest

    def _check_form(self, name: str, value: Any) -> None:
        """Refuse a file that says the same in another form than this package writes."""
        try:
            same = as_json(value) == self.read(name)
        except UnicodeEncodeError:  # a text that no file of this package can hold
            same = False
        if not same:
            raise LarcError(f"{self.path / name} was changed after it was written.")


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
