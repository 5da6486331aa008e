"""Numbered lines of a plain or gzip file, as far as it can be read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from larc.errors import LarcError

#: A longer line is no record of a job: it is passed over without being held in memory.
LONGEST_LINE = 16 * 2**20
_CHUNK = 2**18
_GZIP_MAGIC = b"\x1f\x8b"


class Damaged(Exception):
    """The stream ends in damage; everything before it was given out."""


class TooLong(bytes):
    """Stands for a line that is longer than :data:`LONGEST_LINE`; holds only its beginning."""


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the contents of a file, unpacked where they are gzip, whatever its name says.

    Raises
    ------
    Damaged
        After all that could be unpacked, where the gzip stream is truncated or corrupt.
    LarcError
        Where the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_GZIP_MAGIC))
            file.seek(0)
            if head == _GZIP_MAGIC:
                yield from _unpacked(file)
            else:
                while chunk := file.read(_CHUNK):
                    yield chunk
    except OSError as error:
        raise LarcError(f"{path} cannot be read: {error.strerror or error}.") from error


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    # zlib rather than the gzip module: that one drops what it unpacked just before the damage.
    unpacker = zlib.decompressobj(wbits=31)
    packed = b""
    while packed or (packed := file.read(_CHUNK)):
        if unpacker.eof:
            # Another member may follow, and so may the zero bytes some archivers pad with.
            packed = packed.lstrip(b"\0")
            if not packed:
                continue
            unpacker = zlib.decompressobj(wbits=31)
        try:
            chunk = unpacker.decompress(packed, _CHUNK)
        except zlib.error as error:
            raise Damaged(str(error)) from error
        packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
        if chunk:
            yield chunk
    if not unpacker.eof:
        raise Damaged("the gzip stream ends before its end marker")


def read_lines(path: Path) -> Iterator[bytes]:
    r"""Yield the lines of a plain or gzip file, without their ends.

    A line that is too long is yielded as :class:`TooLong`. On damage the unfinished line is not
    yielded: :class:`Damaged` stands for it.

    Examples
    --------
    >>> import gzip, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.gz"
    >>> _ = path.write_bytes(gzip.compress(b"one\ntwo"))
    >>> list(read_lines(path))
    [b'one', b'two']
    """
    rest = b""
    skipping = False
    for chunk in read_chunks(path):
        lines = chunk.split(b"\n")
        if skipping:
            if len(lines) == 1:
                continue
            lines[0] = b""
        elif rest:
            lines[0] = rest + lines[0]
        rest = lines.pop()
        if skipping:
            # The remainder of the long line ends here, and the line was yielded already.
            del lines[0]
            skipping = False
        yield from lines
        if len(rest) > LONGEST_LINE:
            yield TooLong(rest[:80])
            rest, skipping = b"", True
    if rest:
        yield rest
