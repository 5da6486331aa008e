"""One process at a time on a directory: the others are told which one has it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from larc.errors import LarcError

LOCK = "lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep a directory to this process for a while, or say which process has it.

    The kernel releases the lock however the process ends. The file is there while it is held,
    and after a kill; the next process takes it over.

    Examples
    --------
    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with locked(directory):
    ...     int((directory / "lock").read_text()) == os.getpid()
    True
    >>> (directory / "lock").exists()
    False
    """
    path = directory / LOCK
    lock = _acquire(path)
    try:
        yield
    finally:
        # Removed while it is still held: whoever has opened it meanwhile finds, once the lock is
        # theirs, that it is no longer the file of that name, and opens the new one.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        lock.release()


def holder(directory: Path) -> int | None:
    """Return the process that keeps a directory to itself just now, 0 where it does not say."""
    path = directory / LOCK
    if not path.exists():
        return None
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        return _process(path)
    except OSError:
        return None
    lock.release()
    return None


def check_free(directory: Path) -> None:
    """Refuse a directory that a process works on just now."""
    process = holder(directory)
    if process is not None:
        raise LarcError(f"{directory} is in use by process {process or '?'}; wait for it to end.")


def _acquire(path: Path) -> FileLock:
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise LarcError(
            f"{path.parent} is in use by process {_process(path) or '?'}; wait for it to end."
        ) from error
    except OSError as error:
        raise LarcError(
            f"{path.parent} cannot be written to ({error.strerror or error}); choose another place."
        ) from error
    try:
        if path.read_bytes()[:64].strip(b"0123456789\n"):
            raise LarcError(f"{path} is no lock of larc; move it elsewhere.")
        path.write_text(f"{os.getpid()}\n")
    except OSError as error:
        lock.release()
        raise LarcError(
            f"{path} could not be written ({error.strerror}); free some space."
        ) from error
    except LarcError:
        lock.release()
        raise
    return lock


def _process(path: Path) -> int:
    for _ in range(20):  # it may have taken the lock just now, and be about to say who it is
        with suppress(OSError, ValueError):
            text = path.read_text().strip()
            if text.isdigit():
                return int(text)
        time.sleep(0.01)
    return 0
