"""Where the files of a run are: in a directory, or packed in one archive.

An archive, ``NAME.larc``, is a tar file compressed by xz: sorted names, no times, no owners, so
that the same files are the same bytes. It is read as a whole; nothing is ever unpacked to be read.
"""

from __future__ import annotations

import io
import lzma
import os
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Protocol

from larc.errors import LarcError
from larc.io.files import read_whole

SUFFIX = ".larc"
#: An archive that would unpack to more is refused: no run is that large.
LARGEST = 2**30
_CHUNK = 2**24


class Store(Protocol):
    """The files of a run by their names, parts separated by slashes."""

    def read(self, name: str) -> bytes:
        """Return a file's content, or say what is wrong with it."""

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""

    def below(self, name: str) -> Store:
        """Return what is in one directory of it."""


class DirectoryStore:
    """Files in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes:
        """Return a file's content, or say what is wrong with it."""
        path = self.root / name
        try:
            return read_whole(path)
        except FileNotFoundError as error:
            raise LarcError(f"{path} is missing; this is not a whole run of larc.") from error
        except PermissionError as error:
            raise LarcError(f"{path} may not be read by this user; change who may.") from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LarcError(f"{path} cannot be read ({reason}).") from error

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        path = self.root / name
        try:
            return path.is_file()
        except OSError as error:
            raise LarcError(f"{path} cannot be read ({error.strerror or error}).") from error

    def names(self) -> list[str]:
        """Return the names of all files, sorted; refuses what is neither file nor directory."""
        names = []
        _check_readable(self.root)
        for path in sorted(self.root.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                _check_readable(path)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise LarcError(f"{path} does not belong to the run: it is no file of its own.")
            if path.is_file():
                names.append(path.relative_to(self.root).as_posix())
        return names

    def below(self, name: str) -> DirectoryStore:
        """Return what is in one directory of it."""
        return DirectoryStore(self.root / name)


def _check_readable(directory: Path) -> None:
    """Refuse a directory that may not be listed: searching it would find nothing."""
    try:
        os.scandir(directory).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise LarcError(f"{directory} cannot be read ({error.strerror or error}).") from error


class ArchiveStore:
    """Files of an archive, or of one directory in it."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self.path, self.prefix = path, prefix
        self._files = archived_files(path)

    def read(self, name: str) -> bytes:
        """Return a file's content, or say that there is none."""
        try:
            return self._files[self.prefix + name]
        except KeyError as error:
            missing = f"{self.path}/{self.prefix}{name}"
            raise LarcError(f"{missing} is missing; this is not a whole run of larc.") from error

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self.prefix + name in self._files

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(n.removeprefix(self.prefix) for n in self._files if n.startswith(self.prefix))

    def below(self, name: str) -> ArchiveStore:
        """Return what is in one directory of it."""
        return ArchiveStore(self.path, f"{self.prefix}{name}/")


def locate(path: str | Path) -> tuple[Path, Store]:
    """Return the store of a run, and the path that messages call it by.

    A run is a directory with a ``config.json``, an archive, or a run inside the archive of a sweep.
    The suffix may be left out: ``results/ci`` is found in ``results/ci.larc``.
    """
    path = Path(path)
    try:
        if path.is_file() and path.suffix == SUFFIX:
            return path, ArchiveStore(path)
        if not (path / "config.json").is_file():
            archive = path.with_name(f"{path.name}{SUFFIX}")
            if path.name and archive.is_file():
                return archive, ArchiveStore(archive)
            outer = path.parent
            if outer.suffix != SUFFIX:
                outer = outer.with_name(f"{outer.name}{SUFFIX}") if outer.name else outer
            if outer.suffix == SUFFIX and outer.is_file():
                return outer / path.name, ArchiveStore(outer, f"{path.name}/")
    except OSError as error:
        raise LarcError(f"{path} cannot be read ({error.strerror or error}).") from error
    return path, DirectoryStore(path)


def archive_content(files: Mapping[str, bytes]) -> bytes:
    """Return files packed into one archive; the same files give the same bytes.

    Examples
    --------
    >>> content = archive_content({"b": b"2", "a/c": b"1"})
    >>> content == archive_content({"a/c": b"1", "b": b"2"})
    True
    >>> unpacked(content, "x.larc")
    {'a/c': b'1', 'b': b'2'}
    """
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))
    return lzma.compress(sink.getvalue(), preset=9)


def archived_files(path: Path) -> Mapping[str, bytes]:
    """Return the files of an archive by name; an archive that has not changed is read once."""
    try:
        facts = path.stat()
    except OSError as error:
        raise LarcError(f"{path} cannot be read ({error.strerror or error}).") from error
    return _archived(path.absolute(), facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=32)
def _archived(path: Path, changed: int, size: int) -> Mapping[str, bytes]:
    try:
        content = read_whole(path)
    except OSError as error:
        raise LarcError(f"{path} cannot be read ({error.strerror or error}).") from error
    return unpacked(content, str(path))


def unpacked(content: bytes, name: str) -> dict[str, bytes]:
    """Return the files of an archive's content, refusing one that is damaged or foreign."""
    try:
        files: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(_decompressed(content, name))) as archive:
            for entry in archive:
                if not entry.isfile() or not _is_inside(entry.name) or entry.name in files:
                    raise LarcError(f"{name} holds {entry.name!r}, which no run has.")
                reader = archive.extractfile(entry)
                assert reader is not None  # it is a file
                files[entry.name] = reader.read()
    except LarcError:
        raise
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, OSError) as error:
        raise LarcError(f"{name} is damaged, or no archive of larc ({error}).") from error
    return files


def _decompressed(content: bytes, name: str) -> bytes:
    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    parts, size = [decompressor.decompress(content, _CHUNK)], 0
    while not decompressor.eof:
        size += len(parts[-1])
        if size > LARGEST:
            raise LarcError(f"{name} unpacks to more than {LARGEST} bytes, which no run does.")
        if decompressor.needs_input:
            raise EOFError("it ends too early")
        parts.append(decompressor.decompress(b"", _CHUNK))
    if decompressor.unused_data:
        raise ValueError("something follows its end")
    return b"".join(parts)


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name
