"""States as files: tensors with their facts, in one form, that know when they were damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from larc.errors import LarcError
from larc.files import write_whole
from larc.substrate.identity import hash_json, hash_tensors


def pack_state(kind: str, tensors: Mapping[str, Tensor], facts: Any) -> bytes:
    """Return tensors with their facts as safetensors content that knows when it was damaged.

    Examples
    --------
    >>> import torch
    >>> content = pack_state("note", {"x": torch.ones(2)}, {"step": 3})
    >>> unpack_state(content, "note")
    ({'x': tensor([1., 1.])}, {'step': 3})
    """
    # Copies: two names may share one tensor here, and a file holds each by itself.
    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    # One key: safetensors writes several in no fixed order, and the same state is the same bytes.
    about = {"kind": kind, "facts": facts, "digest": _digest(kind, kept, facts)}
    return save(kept, metadata={"larc": json.dumps(about, sort_keys=True)})


def unpack_state(
    content: bytes, kind: str, name: str = "the content"
) -> tuple[dict[str, Tensor], Any]:
    """Read what `pack_state` made, refusing another kind or anything that was damaged."""
    try:
        size = int.from_bytes(content[:8], "little")
        about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["larc"])
        found, facts, digest = about["kind"], about["facts"], about["digest"]
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LarcError(f"{name} cannot be read as a {kind}; it is damaged or foreign.") from error
    if found != kind:
        raise LarcError(f"{name} is not a {kind} (it says {found!r}); give one that is.")
    if digest != _digest(kind, tensors, facts):
        raise LarcError(f"{name} was changed after it was saved; use an undamaged copy.")
    return tensors, facts


def save_state(path: str | Path, kind: str, tensors: Mapping[str, Tensor], facts: Any) -> None:
    """Write tensors with their facts to one file, whole."""
    write_whole(path, pack_state(kind, tensors, facts))


def load_state(path: str | Path, kind: str) -> tuple[dict[str, Tensor], Any]:
    """Read what `save_state` wrote."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise LarcError(f"there is no file {path}; give one that was saved as a {kind}.") from error
    except OSError as error:
        raise LarcError(f"{path} could not be read ({error.strerror}).") from error
    return unpack_state(content, kind, str(path))


def _digest(kind: str, tensors: Mapping[str, Tensor], facts: Any) -> str:
    return hash_json([kind, hash_tensors(tensors.items()), facts])
