"""States as files: tensors with their facts, in one form, that know when they were damaged.

What a file holds is said by its kind, which ends in a version: ``larc episode, version 1``. A newer
version than the reader's is refused. An older one is brought up to date by a table of upgrades,
one for each version that was ever written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from larc.errors import LarcError
from larc.io.files import atomic_write
from larc.io.hashes import hash_json, hash_tensors

#: By the version they are for: what turns the facts of that version into those of the next.
Upgrades = Mapping[int, Callable[[Any], Any]]
# What taking apart something of another shape raises, nested too deeply included.
_MISSHAPEN = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError)
_KIND = re.compile(r"(.+), version ([0-9]{1,9})")


def pack_state(kind: str, tensors: Mapping[str, Tensor], facts: Any) -> bytes:
    """Return tensors with their facts as safetensors content that knows when it was damaged.

    Examples
    --------
    >>> import torch
    >>> content = pack_state("note, version 1", {"x": torch.ones(2)}, {"step": 3})
    >>> unpack_state(content, "note, version 1")
    ({'x': tensor([1., 1.])}, {'step': 3})
    """
    # Copies: two names may share one tensor here, and a file holds each by itself.
    contiguous = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()
    }
    try:
        facts = json.loads(json.dumps(facts))  # as they will be read back
    except (TypeError, ValueError, RecursionError) as error:
        raise LarcError(f"the facts of a {kind} cannot be saved as JSON ({error}).") from error
    # One key: safetensors writes several in no fixed order, and the same state is the same bytes.
    about = {"kind": kind, "facts": facts, "digest": _digest(kind, contiguous, facts)}
    return save(contiguous, metadata={"larc": json.dumps(about, sort_keys=True)})


def unpack_state(
    content: bytes, kind: str, name: str = "the content", upgrades: Upgrades | None = None
) -> tuple[dict[str, Tensor], Any]:
    """Read what `pack_state` made, refusing another kind or anything that was damaged.

    Examples
    --------
    >>> old = pack_state("note, version 1", {}, {"count": 3})
    >>> unpack_state(old, "note, version 2", upgrades={1: lambda facts: {**facts, "unit": ""}})
    ({}, {'count': 3, 'unit': ''})
    >>> unpack_state(pack_state("note, version 3", {}, None), "note, version 2")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the content was saved by a newer larc (note, version 3; this one reads
    up to 2); use the version that saved it.
    """
    try:
        size = int.from_bytes(content[:8], "little")
        about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["larc"])
        saved_kind, facts, digest = about["kind"], about["facts"], about["digest"]
        tensors = load(content)
        computed = _digest(saved_kind, tensors, facts)
    except (SafetensorError, *_MISSHAPEN) as error:
        raise LarcError(f"{name} cannot be read as a {kind}; it is damaged or foreign.") from error
    title, version = parsed_kind(kind)
    saved_title, saved_version = parsed_kind(saved_kind)
    if saved_title != title:
        raise LarcError(f"{name} is not a {title} (it says {saved_kind!r}); give one that is.")
    if digest != computed:
        raise LarcError(
            f"{name} was changed after it was saved; use an undamaged copy, or remove it and start "
            "anew."
        )
    if saved_version > version:
        raise LarcError(
            f"{name} was saved by a newer larc ({saved_kind}; this one reads up to {version}); use "
            "the version that saved it."
        )
    with whole(name, kind):
        for older in range(saved_version, version):
            facts = (upgrades or {})[older](facts)
    return tensors, facts


@contextmanager
def whole(name: str | Path, kind: str) -> Iterator[None]:
    """Take a state apart inside the block: what is missing or misshapen is one sentence.

    A file may be undamaged and yet not be what this package would have saved under its kind.
    """
    try:
        yield
    except LarcError:
        raise
    except _MISSHAPEN as error:
        raise LarcError(
            f"{name} does not hold what a {parsed_kind(kind)[0]} does; it is damaged or foreign."
        ) from error


def save_state(path: str | Path, kind: str, tensors: Mapping[str, Tensor], facts: Any) -> None:
    """Write tensors with their facts to one file, whole."""
    atomic_write(path, pack_state(kind, tensors, facts))


def load_state(
    path: str | Path, kind: str, upgrades: Upgrades | None = None
) -> tuple[dict[str, Tensor], Any]:
    """Read what `save_state` wrote."""
    return unpack_state(read_content(path, kind), kind, str(path), upgrades)


def read_content(path: str | Path, kind: str) -> bytes:
    """Return what a file holds, or say that none of that kind is there."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise LarcError(f"there is no file {path}; give one that was saved as a {kind}.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LarcError(f"{path} could not be read ({reason}).") from error


def parsed_kind(kind: Any) -> tuple[str, int]:
    """Return a kind's title and version; what has no version has the version 0."""
    parts = _KIND.fullmatch(kind) if isinstance(kind, str) else None
    return (parts[1], int(parts[2])) if parts else (str(kind), 0)


def _digest(kind: str, tensors: Mapping[str, Tensor], facts: Any) -> str:
    return hash_json([kind, hash_tensors(tensors.items()), facts])
