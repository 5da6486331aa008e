"""Files that are whole or absent: written aside, flushed, then given their name."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from larc.checks import checked_path
from larc.errors import LarcError

# What a file or directory is called until it is whole; a killed process may leave one behind.
_ASIDE = re.compile(r"\..+\.\d+\.part")


def read_whole(path: str | Path) -> bytes:
    """Return what a file holds; what is no file, such as an endless device, is an `OSError`.

    Examples
    --------
    >>> read_whole("/dev/zero")
    Traceback (most recent call last):
    ...
    OSError: [Errno 22] it is no regular file: '/dev/zero'
    """
    # Not waiting: nobody may ever write to a pipe.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read()


def atomic_write(path: str | Path, content: bytes) -> None:
    """Write a file so that its name always holds the old content or the new, never a part.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     atomic_write(Path(directory) / "a", b"all of it")
    ...     (Path(directory) / "a").read_bytes()
    b'all of it'
    """
    path = checked_path(path)
    refuse_special(path)
    aside = _aside(path)
    try:
        try:
            with aside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        _flush_directory(path.parent)
    except OSError as error:
        raise LarcError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed: free "
            "some space or choose a place that can be written to."
        ) from error


def refuse_special(path: Path) -> None:
    """Refuse to put a file where a device, a pipe or a socket is: it would be gone.

    Examples
    --------
    >>> refuse_special(Path("/dev/null"))
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: /dev/null is no file but a device, a pipe or a socket; give another path.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # what is wrong with it is told where it is written
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
        raise LarcError(f"{path} is no file but a device, a pipe or a socket; give another path.")


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Give a directory to fill, which gets its name when the block ends well, and never before.

    A name that is taken is refused before anything is made.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with atomic_directory(Path(directory) / "new") as new:
    ...         atomic_write(new / "a", b"1")
    ...     sorted(child.name for child in Path(directory).rglob("*"))
    ['a', 'new']
    """
    path = checked_path(path)
    if path.is_symlink() or path.exists():
        raise LarcError(f"{path} exists already; remove it or choose another directory.")
    aside = _aside(path)
    make_directory(path.parent)
    try:
        with suppress(FileNotFoundError):
            shutil.rmtree(aside)  # of an earlier process with the same number
        aside.mkdir()
        yield aside
        _flush_directory(aside)
        aside.replace(path)
        _flush_directory(path.parent)
    except OSError as error:
        raise LarcError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed: free "
            "some space or choose a place that can be written to."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def make_directory(path: str | Path) -> Path:
    """Make a directory and those above it, or say why it cannot be made."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LarcError(
            f"{path} could not be made ({error.strerror}); choose a place that can be written to."
        ) from error
    return path


def is_aside(path: Path) -> bool:
    """Whether a file is one that was being written when its process was killed.

    Examples
    --------
    >>> is_aside(Path("run/.config.json.1234.part")), is_aside(Path("run/config.json"))
    (True, False)
    """
    return _ASIDE.fullmatch(path.name) is not None


def _aside(path: Path) -> Path:
    if not path.name:
        raise LarcError(f"{path} is no name of a file or directory to write; give one.")
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _flush_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
