"""The Hub's layout for slow states: a directory with ``config.json`` and safetensors files.

The first state is in ``model.safetensors``, further ones in ``seed-N.safetensors``. The config says
what each is. Nothing here knows how a state is made: it moves content and what is said about it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from larc.checks import checked_path, instance, whole_number
from larc.errors import LarcError, reason
from larc.io.files import atomic_write, read_whole
from larc.io.states import whole

KIND = "larc slow states"
VERSION = 1
CONFIG = "config.json"
FIRST = "model.safetensors"

About = Mapping[str, Any]


def write_layout(directory: Path, states: Sequence[tuple[About, bytes]]) -> None:
    """Write states, each with what is said about it, into a directory that is being made.

    Examples
    --------
    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> write_layout(directory, [({"seed": 7}, b"first"), ({"seed": 8}, b"second")])
    >>> sorted(path.name for path in directory.iterdir())
    ['config.json', 'model.safetensors', 'seed-8.safetensors']
    >>> read_layout(directory, seed=8)[1:]
    ({'seed': 8}, b'second')
    """
    listed = []
    for number, (about, content) in enumerate(states):
        file = f"seed-{about['seed']}.safetensors" if number else FIRST
        atomic_write(directory / file, content)
        digest = hashlib.sha256(content).hexdigest()
        listed.append({"about": dict(about), "file": file, "sha256": digest})
    config = {"kind": KIND, "library_name": "larc", "states": listed, "version": VERSION}
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    atomic_write(directory / CONFIG, text.encode())


def read_layout(
    source: str | Path, *, seed: int | None = None, revision: str | None = None
) -> tuple[str, dict[str, Any], bytes]:
    """Return the name, what is said about it and the content of one state; the first by default."""
    instance(revision, "revision", (str, type(None)))
    if seed is not None:
        seed = whole_number(seed, "the seed")
    directory = find(source, revision)
    path = directory / CONFIG
    config = _config(path)
    with whole(path, KIND):
        listed = {int(state["about"]["seed"]): state for state in config["states"]}
        if not listed:
            raise LarcError(f"{path} names no state; it is damaged or foreign.")
        chosen = next(iter(listed)) if seed is None else seed
        if chosen not in listed:
            known = ", ".join(map(str, listed))
            raise LarcError(f"{source} has no state of seed {seed}; it has {known}.")
        state = listed[chosen]
        file, digest, about = str(state["file"]), state["sha256"], dict(state["about"])
    if Path(file).name != file or not file.endswith(".safetensors"):
        raise LarcError(f"{path} names the file {file!r}, which lies elsewhere or is no state.")
    content = _read(directory / file)
    if hashlib.sha256(content).hexdigest() != digest:
        raise LarcError(
            f"{directory / file} is not the file that {CONFIG} names; get a whole copy."
        )
    return str(directory / file), about, content


def find(source: str | Path, revision: str | None) -> Path:
    """Return a directory as it is, or bring a repository of the Hub to this machine."""
    source = checked_path(source, "the source")
    if Path(source).is_dir():
        if revision is not None:
            raise LarcError(f"revision was given for {source}; only hub ids have revisions.")
        return Path(source)
    from huggingface_hub import snapshot_download

    try:
        directory = snapshot_download(
            str(source), revision=revision, allow_patterns=[CONFIG, "*.safetensors"]
        )
    except Exception as error:  # of the network, the server, the name, the disk
        raise LarcError(
            f"{source} is no directory, and could not be had from the Hub ({reason(error)})."
        ) from error
    return Path(directory)


def _config(path: Path) -> Any:
    try:
        config = json.loads(_read(path))
        kind, version = config["kind"], config["version"]
    except LarcError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LarcError(f"{path} describes no slow states; it is damaged or foreign.") from error
    if kind != KIND or type(version) is not int or version < 1:
        raise LarcError(f"{path} describes no slow states; it is damaged or foreign.")
    if version > VERSION:
        raise LarcError(
            f"{path} was written by a newer larc (version {version}, this one reads up to "
            f"{VERSION}); use the version that wrote it."
        )
    return config


def _read(path: Path) -> bytes:
    try:
        return read_whole(path)
    except FileNotFoundError as error:
        raise LarcError(f"{path} is missing; give a directory that holds slow states.") from error
    except OSError as error:
        raise LarcError(f"{path} could not be read ({error.strerror or error}).") from error
