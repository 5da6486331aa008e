"""Files that are whole or absent: written aside, flushed, then given their name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from larc.errors import LarcError
from larc.substrate.identity import hash_json, hash_tensors


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that its name always holds the old content or the new, never a part.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_whole(Path(place) / "a", b"all of it")
    ...     (Path(place) / "a").read_bytes()
    b'all of it'
    """
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _flush_directory(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise LarcError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed: free "
            "some space or choose a place that can be written to."
        ) from error


def _flush_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_state(path: str | Path, kind: str, tensors: Mapping[str, Tensor], facts: Any) -> None:
    """Write tensors with their facts as one safetensors file that knows when it was damaged."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {
        "kind": kind,
        "facts": json.dumps(facts, sort_keys=True),
        "digest": _digest(kind, kept, facts),
    }
    write_whole(path, save(kept, metadata=header))


def load_state(path: str | Path, kind: str) -> tuple[dict[str, Tensor], Any]:
    """Read what `save_state` wrote, refusing a file of another kind or one that was damaged."""
    if not Path(path).is_file():
        raise LarcError(f"there is no file {path}; give one that was saved as a {kind}.")
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        found = header.get("kind")
        facts = json.loads(header.get("facts", "null"))
    except (OSError, SafetensorError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise LarcError(f"{path} cannot be read as a {kind}; it is damaged or foreign.") from error
    if found != kind:
        raise LarcError(f"{path} is not a {kind} (it says {found!r}); give one that is.")
    if header.get("digest") != _digest(kind, tensors, facts):
        raise LarcError(f"{path} was changed after it was saved; use an undamaged copy.")
    return tensors, facts


def _digest(kind: str, tensors: Mapping[str, Tensor], facts: Any) -> str:
    return hash_json([kind, hash_tensors(tensors.items()), facts])
