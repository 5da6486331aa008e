"""One process at a time on a directory: the others are told which one has it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from larc.errors import LarcError

LOCK = "lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep a directory to this process for a while, or say which process has it.

    The kernel lets go of the lock however the process ends. The file is there while it is held,
    and after a kill; the next process takes it over.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> with locked(place):
    ...     int((place / "lock").read_text()) == os.getpid()
    True
    >>> (place / "lock").exists()
    False
    """
    path = directory / LOCK
    handle = _take(path)
    try:
        yield
    finally:
        # Removed while it is still held: whoever has opened it meanwhile finds, once the lock is
        # theirs, that it is no longer the file of that name, and opens the new one.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(handle)


def holder(directory: Path) -> int | None:
    """Return the process that keeps a directory to itself just now, 0 where it does not say."""
    try:
        handle = os.open(directory / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _process(handle)
    finally:
        os.close(handle)
    return None


def _take(path: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LarcError(
                f"{path.parent} cannot be written to ({error.strerror}); choose another place."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            process = _process(handle)
            os.close(handle)
            raise LarcError(
                f"{path.parent} is in use by process {process or '?'}; wait for it to end."
            ) from error
        except OSError as error:
            os.close(handle)
            raise LarcError(
                f"{path.parent} cannot be kept to one process ({error.strerror}); choose a place "
                "on another file system."
            ) from error
        if _is_named(handle, path):
            break
        os.close(handle)
    try:
        if os.read(handle, 64).strip(b"0123456789\n"):
            raise LarcError(f"{path} is no lock of larc; move it elsewhere.")
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        os.close(handle)
        raise LarcError(
            f"{path} could not be written ({error.strerror}); free some space."
        ) from error
    except LarcError:
        os.close(handle)
        raise
    return handle


def _is_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def _process(handle: int) -> int:
    for _ in range(20):  # it may have taken the lock just now, and be about to say who it is
        text = os.pread(handle, 64, 0).strip()
        if text.isdigit():
            return int(text)
        time.sleep(0.01)
    return 0
