"""An output that takes long to make: its parts are kept beside it until it is whole.

``OUT.partial/`` holds every finished unit of work, ``OUT.fetched`` says afterwards what ``OUT``
is. No file in either place ends like a file of jobs, so reading a directory of them passes by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from larc.errors import LarcError
from larc.io.files import atomic_write
from larc.io.locks import LOCK, locked

# Another number wherever the units of work change their form.
_FORMAT = 1


class Partial:
    """The finished units of an unfinished output, each written whole or not at all.

    Nothing is written before the first unit is: a refusal at the first question leaves no trace.
    One process at a time may work on an output.

    Parameters
    ----------
    out
        The output.
    wanted
        What it is to hold. Units of anything else are refused, and so is a finished output of
        anything else.

    Examples
    --------
    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "jobs.jsonl"
    >>> with Partial(out, {"repository": "o/r"}) as partial:
    ...     partial.save("first", {"rows": 1})
    >>> with Partial(out, {"repository": "o/r"}) as partial:
    ...     partial.load("first"), partial.load("second")
    ...     partial.finish(b"all of it", {"jobs": 1})
    ({'rows': 1}, None)
    >>> with Partial(out, {"repository": "o/r"}) as partial:
    ...     partial.finished()["jobs"]
    1
    >>> sorted(path.name for path in out.parent.iterdir())
    ['jobs.jsonl', 'jobs.jsonl.fetched']
    """

    def __init__(self, out: Path, wanted: Mapping[str, str]) -> None:
        self.out = out
        self._directory = out.with_name(f"{out.name}.partial")
        self._record = out.with_name(f"{out.name}.fetched")
        self._wanted: dict[str, Any] = {"format": _FORMAT, **wanted}
        self._lock = ExitStack()
        self._taken = False

    def __enter__(self) -> Partial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()
        self._taken = False

    def finished(self) -> dict[str, Any] | None:
        """Return the counts of a finished output, or ``None`` where there is work to do.

        Raises
        ------
        LarcError
            Where the output, or the work on it, is not what is wanted.
        """
        if self.out.is_dir():
            raise LarcError(f"{self.out} is a directory; give the name of a file.")
        if self.out.exists():
            record = _read(self._record)
            if record is None or record.get("sha256") != _digest(self.out):
                raise LarcError(
                    f"{self.out} exists and is not as a fetch left it; choose another file, or "
                    "delete it."
                )
            self._compare(record, self.out)
            # The last run may have been stopped while it cleaned up.
            self._remove()
            return record
        if self._directory.exists():
            self._take()
        return None

    def load(self, unit: str) -> dict[str, Any] | None:
        """Return a unit that was finished before, or ``None``."""
        return _read(self._directory / unit)

    def save(self, unit: str, document: Mapping[str, object]) -> None:
        """Keep a finished unit."""
        self._take()
        atomic_write(self._directory / unit, _as_json(document))

    def finish(self, content: bytes, counts: Mapping[str, int]) -> None:
        """Give the output its content and its name, and remove the units."""
        self._take()
        digest = hashlib.sha256(content).hexdigest()
        # Both are written among the units, so that a kill leaves nothing half-made beside the
        # output; the record gets its name first, so that no output is ever without one.
        record, whole = self._directory / "record", self._directory / "whole"
        atomic_write(record, _as_json({**self._wanted, **counts, "sha256": digest}))
        atomic_write(whole, content)
        try:
            record.replace(self._record)
            whole.replace(self.out)
        except OSError as error:
            raise LarcError(f"{self.out} could not be written ({error.strerror}).") from error
        self._remove()

    def _take(self) -> None:
        """Make the directory of the units this process's own, if it is not yet."""
        if self._taken:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LarcError(f"{self._directory} could not be made ({error.strerror}).") from error
        self._lock.enter_context(locked(self._directory))
        self._taken = True
        known = _read(self._directory / "arguments")
        if known is not None:
            self._compare(known, self._directory)
        elif any(
            path.name != LOCK and not path.name.startswith(".")
            for path in self._directory.iterdir()
        ):
            raise LarcError(f"{self._directory} holds something else; choose another output.")
        else:
            atomic_write(self._directory / "arguments", _as_json(self._wanted))

    def _compare(self, known: Mapping[str, Any], path: Path) -> None:
        for name, value in self._wanted.items():
            if known.get(name) != value:
                raise LarcError(
                    f"{path} was fetched with {name} {known.get(name)!r}, not {value!r}; choose "
                    "another output, or delete it."
                )

    def _remove(self) -> None:
        # The output is whole: that its parts cannot be removed is no reason to fail.
        with suppress(OSError):
            arguments = self._directory / "arguments"
            for path in self._directory.iterdir():
                if path != arguments:
                    path.unlink(missing_ok=True)
            # Last: until it is gone, what is left of the directory still says what it is.
            arguments.unlink(missing_ok=True)
            self._directory.rmdir()


def _as_json(document: Mapping[str, object]) -> bytes:
    # The second line is the hash of the first.
    text = json.dumps(document, indent=None, sort_keys=True).encode()
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode()


def _read(path: Path) -> dict[str, Any] | None:
    """Return a stored document; one that is missing or damaged is simply not there."""
    try:
        text, _, digest = path.read_bytes().partition(b"\n")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    # Up to version 0.1.0 there was no hash.
    whole = digest in (b"", hashlib.sha256(text).hexdigest().encode())
    return document if whole and isinstance(document, dict) else None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LarcError(f"{path} cannot be read: {error.strerror or error}.") from error
