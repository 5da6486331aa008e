"""A file of named sections that is saved often: what changed is appended, and nothing else written.

A journal begins with a line that says what it holds. Records follow, one for each save:

    length of the payload    8 bytes, little endian, and the CRC-32 of those
    payload                  a line of JSON (sections removed, names and lengths of those that
                             follow), then the sections that changed
    writer                   16 random bytes of the process that saved it
    digest                   32 bytes: BLAKE2b of the digest before it, the payload and the writer

The sections of the file are those of all records, later ones over earlier ones. A record without
its digest was being written when its process or machine stopped: it is left out, and the file is
what was saved before. Everything else that does not fit is damage, and refused.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from larc.errors import LarcError
from larc.io.files import atomic_write

_DIGEST, _WRITER, _LENGTH = 32, 16, 12
_TAIL = _WRITER + _DIGEST
# How long to wait for another process that saves just now; a save takes milliseconds.
_PATIENCE = 10.0
# A journal is written anew when it is larger than this and than four times what it holds.
_LEAST = 1 << 16


class _Process:
    """Random bytes that are this process's: a fork has others."""

    token = os.urandom(_WRITER)

    @classmethod
    def renew(cls) -> None:
        cls.token = os.urandom(_WRITER)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.renew)


@dataclass(frozen=True)
class _Seen:
    """The file as it was when this journal last read or wrote it."""

    path: Path
    inode: int
    size: int
    tail: bytes


@dataclass
class Family:
    """Many sections ``family/name``, of which few change between two saves.

    Attributes
    ----------
    sections
        All of them, in their order.
    changed
        Those that may have changed since the last save that did not fail, in the order of their
        changes: true for one that was removed or came last meanwhile, false for one that is where
        it was. None where that is not known: then all are compared.
    """

    sections: dict[str, bytes] = field(default_factory=dict)
    changed: Mapping[str, bool] | None = None


#: Sections by name; those of a `Family` have their names in it.
Sections = Mapping[str, bytes | Family]


@dataclass
class Journal:
    """Saves sections to a file and reads them back, appending where it can.

    Attributes
    ----------
    kind
        What its files hold; their first line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note"
    >>> journal = Journal("note, version 1")
    >>> first = journal.save(path, {"text": b"a long text" * 9, "count": b"1"})
    >>> again = journal.save(path, {"text": b"a long text" * 9, "count": b"2"})
    >>> again < first
    True
    >>> read_journal(path.read_bytes(), "note")[1]["count"]
    b'2'
    """

    kind: str
    _seen: _Seen | None = field(default=None, repr=False)
    _kept: dict[str, dict[str, bytes]] = field(default_factory=dict, repr=False)
    _size: int = field(default=0, repr=False)
    _digest: bytes = field(default=b"", repr=False)
    _end: int = field(default=0, repr=False)

    def save(self, path: str | Path, sections: Sections, *, durable: bool = False) -> int:
        """Write sections; returns how many bytes were written.

        Of a `Family` that says what changed, nothing else is looked at where it is appended.

        A file that another process or session saved after this journal last read or wrote it is
        not overwritten, and neither is one that another process saved and this one never read.
        """
        path = checked_path(path)
        with _alone(path):
            seen = _look(path)
            appends = self._may_append(path, seen)
            if appends:
                removed, changed = self._changes(sections)
                record = _pack(self._digest, removed, changed)
                size = self._size + self._growth(removed, changed)
                appends = self._end + len(record) <= max(_LEAST, 4 * size)
            if appends:
                self._append(path, record, durable)
                self._take(removed, changed)
                self._size = size
                written = len(record)
            else:
                written = self._write(path, sections)
                self._keep(_flat(sections))
            self._seen = _look(path)
            return written

    def adopt(self, path: str | Path, content: bytes, sections: Mapping[str, bytes] | None) -> None:
        """Go on from a file that was read: ``sections`` are None where it is of another form."""
        path = checked_path(path)
        seen = _look(path)
        if seen is None:
            return
        # As it was read: what was saved since is somebody else's.
        self._seen = _Seen(path, seen.inode, len(content), content[-_TAIL:])
        self._digest, self._end = b"", 0
        self._keep(sections or {})
        if sections is not None:
            self._digest, self._end = _chain_end(content)

    def _may_append(self, path: Path, seen: _Seen | None) -> bool:
        """Whether the file is as this journal left it; refuses one that somebody else saved."""
        if seen is None:
            return False
        if self._seen is not None and self._seen.path == path:
            if self._seen == seen:
                return bool(self._digest)
            raise LarcError(
                f"{path} was saved by another session meanwhile; restore it and take in what came "
                "since, or save elsewhere."
            )
        if _is_journal(path) and seen.tail[:_WRITER] != _Process.token:
            raise LarcError(
                f"{path} holds what another process saved; restore it first, or save elsewhere."
            )
        return False

    def _changes(self, sections: Sections) -> tuple[list[str], dict[str, bytes]]:
        """Return what is to be removed and then put to turn what is kept into these sections.

        The order of sections is kept among those of one family, ``family/name``.
        """
        families = _families(sections)
        removed = [n for name in self._kept if name not in families for n in self._kept[name]]
        put: dict[str, bytes] = {}
        for name, family in families.items():
            kept, after = self._kept.get(name, {}), family.sections
            changed = _compared(kept, after) if family.changed is None else family.changed
            for section, moved in changed.items():
                if section in kept and (moved or section not in after):
                    removed.append(section)
                if section in after and (moved or kept.get(section) != after[section]):
                    put[section] = after[section]
        return removed, put

    def _growth(self, removed: Iterable[str], put: Mapping[str, bytes]) -> int:
        """Return by how many bytes sections grow."""
        before = {*removed, *put}
        gone = sum(len(self._kept.get(_family(name), {}).get(name, b"")) for name in before)
        return sum(map(len, put.values())) - gone

    def _take(self, removed: Iterable[str], put: Mapping[str, bytes]) -> None:
        """Change what is kept as a reader of the record does."""
        for name in removed:
            del self._kept[_family(name)][name]
        for name, content in put.items():
            self._kept.setdefault(_family(name), {})[name] = content

    def _keep(self, sections: Mapping[str, bytes]) -> None:
        """Keep other sections than before."""
        self._kept = {}
        self._take((), sections)
        self._size = sum(map(len, sections.values()))

    def _append(self, path: Path, record: bytes, durable: bool) -> None:
        try:
            handle = os.open(path, os.O_RDWR)
            try:
                os.ftruncate(handle, self._end)  # a record that was never finished
                os.lseek(handle, self._end, os.SEEK_SET)
                rest = memoryview(record)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if durable:
                    os.fsync(handle)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(handle, self._end)
                self._seen = _look(path)
                raise
            finally:
                os.close(handle)
        except OSError as error:
            raise LarcError(
                f"{path} could not be written ({error.strerror or error}); it is what it was: free "
                "some space or choose a place that can be written to."
            ) from error
        self._end += len(record)
        self._digest = record[-_DIGEST:]

    def _write(self, path: Path, sections: Sections) -> int:
        content = journal_content(self.kind, sections)
        atomic_write(path, content)
        self._digest, self._end = content[-_DIGEST:], len(content)
        return self._end


def journal_content(kind: str, sections: Sections) -> bytes:
    """Return sections as a journal that was saved once."""
    head = f"{kind}\n".encode()
    return head + _pack(_first_digest(head), [], _flat(sections))


def read_journal(content: bytes, title: str) -> tuple[str, dict[str, bytes]]:
    """Return a journal's kind and its sections, refusing what is damaged or of another title.

    Examples
    --------
    >>> read_journal(b"poem, version 1", "note")
    Traceback (most recent call last):
    ...
    ValueError: no journal of a note
    """
    if not is_journal(content, title):
        raise ValueError(f"no journal of a {title}")
    sections: dict[str, bytes] = {}
    records = 0
    for payload, digest, expected in _records(content):
        if digest != expected:
            raise ValueError("a record was changed")
        line, _, rest = payload.partition(b"\n")
        about = json.loads(line)
        for name in about["removed"]:
            del sections[name]
        start = 0
        for name, length in about["sections"]:
            if not isinstance(name, str) or not 0 <= length <= len(rest) - start:
                raise ValueError("a section is not where it should be")
            sections[name] = rest[start : start + length]
            start += length
        records += 1
    if not records:
        raise ValueError("no record is whole")
    return content.partition(b"\n")[0].decode(), sections


def is_journal(content: bytes, title: str) -> bool:
    r"""Whether content begins as a journal of this title does.

    Examples
    --------
    >>> is_journal(b"note, version 1\n", "note"), is_journal(b"notes, version 1\n", "note")
    (True, False)
    """
    return content.startswith(f"{title}, version ".encode()) and b"\n" in content[:256]


def _family(name: str) -> str:
    return name.partition("/")[0]


def _families(sections: Sections) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for name, content in sections.items():
        if isinstance(content, Family):
            families[name] = content
        else:
            families.setdefault(_family(name), Family()).sections[name] = content
    return families


def _flat(sections: Sections) -> dict[str, bytes]:
    flat: dict[str, bytes] = {}
    for name, content in sections.items():
        if isinstance(content, Family):
            flat |= content.sections
        else:
            flat[name] = content
    return flat


def _compared(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, bool]:
    """Return what may have changed in a family, as a `Family` says it.

    All that comes after the first that is not where it was has moved.
    """
    kept = [name for name in before if name in after]
    still = 0
    for name, other in zip(kept, after, strict=False):
        if name != other:
            break
        still += 1
    removed = {name: True for name in before if name not in after}
    return removed | {name: number >= still for number, name in enumerate(after)}


def checked_path(path: str | Path) -> Path:
    """Return where a file is, from the root, refusing what is no path."""
    try:
        absolute = Path(path).absolute()
        os.fsencode(absolute)
    except (TypeError, ValueError) as error:
        raise LarcError(f"{path!r} is no path; give the path of a file.") from error
    if "\0" in str(absolute) or not absolute.name:
        raise LarcError(f"{path!r} is no path; give the path of a file.")
    return absolute


def _pack(before: bytes, removed: list[str], sections: Mapping[str, bytes]) -> bytes:
    about = {"removed": removed, "sections": [[n, len(c)] for n, c in sections.items()]}
    payload = b"".join((json.dumps(about).encode(), b"\n", *sections.values()))
    return b"".join(
        (
            _packed_length(len(payload)),
            payload,
            _Process.token,
            _chained(before, payload, _Process.token),
        )
    )


def _packed_length(length: int) -> bytes:
    packed = length.to_bytes(8, "little")
    return packed + zlib.crc32(packed).to_bytes(4, "little")


def _chained(before: bytes, payload: bytes, writer: bytes) -> bytes:
    digest = blake2b(before, digest_size=_DIGEST)
    digest.update(payload)
    digest.update(writer)
    return digest.digest()


def _first_digest(head: bytes) -> bytes:
    return blake2b(head, digest_size=_DIGEST).digest()


def _records(content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the payloads of whole records, with the digests they have and should have."""
    start = content.index(b"\n") + 1
    before = _first_digest(content[:start])
    while len(content) - start >= _LENGTH:
        packed = content[start : start + _LENGTH]
        length = int.from_bytes(packed[:8], "little")
        middle = start + _LENGTH + length
        end = middle + _TAIL
        digest = content[end - _DIGEST : end]
        if not any(packed) and not any(content[start:]):
            return  # room was made for it, and then the machine stopped
        if packed != _packed_length(length):
            raise ValueError("a length was changed")
        if end > len(content) or (end == len(content) and not any(digest)):
            return  # it was being written
        payload, writer = content[start + _LENGTH : middle], content[middle : middle + _WRITER]
        expected = _chained(before, payload, writer)
        yield payload, digest, expected
        start, before = end, digest


def _chain_end(content: bytes) -> tuple[bytes, int]:
    """Return the last digest and where its record ends."""
    last, end = b"", content.index(b"\n") + 1
    for payload, digest, _ in _records(content):
        last = digest
        end += _LENGTH + len(payload) + _TAIL
    return last, end


def _look(path: Path) -> _Seen | None:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            file.seek(max(0, about.st_size - _TAIL))
            return _Seen(path, about.st_ino, about.st_size, file.read(_TAIL))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LarcError(f"{path} could not be read ({error.strerror or error}).") from error


def _is_journal(path: Path) -> bool:
    with path.open("rb") as file:
        return b", version " in file.read(256).partition(b"\n")[0]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from saving the same file for the moment."""
    if not path.parent.is_dir():  # a lock would make it
        raise LarcError(
            f"{path} could not be written (there is no directory {path.parent}); nothing was "
            "changed: choose a place that can be written to."
        )
    aside = path.with_name(f".{path.name}.lock")
    lock = FileLock(aside, timeout=_PATIENCE)
    try:
        lock.acquire()
    except Timeout as error:
        raise LarcError(f"{path} is being saved by another process; try again.") from error
    except OSError as error:
        raise LarcError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed: free "
            "some space or choose a place that can be written to."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        lock.release()
