"""Files that are whole or absent: written aside, flushed, then given their name."""

from __future__ import annotations

import os
from pathlib import Path

from larc.errors import LarcError


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that its name always holds the old content or the new, never a part.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_whole(Path(place) / "a", b"all of it")
    ...     (Path(place) / "a").read_bytes()
    b'all of it'
    """
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _flush_directory(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise LarcError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed: free "
            "some space or choose a place that can be written to."
        ) from error


def _flush_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
