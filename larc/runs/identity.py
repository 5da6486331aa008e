"""What a result was made with: substrate, sources, data, versions and machine."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import larc

if TYPE_CHECKING:  # hashing data needs no model
    from larc.substrate import Substrate

#: What is named in a record, and what it is called where it was installed from.
_PACKAGES = {"larc": "larc-lm"} | {
    name: name for name in ("torch", "transformers", "numpy", "safetensors", "tokenizers")
}


def provenance(substrate: Substrate) -> dict[str, Any]:
    """Return the identities behind a unit of work."""
    return {
        "substrate": {**substrate.identity.parts, "digest": substrate.identity.digest},
        "texts": substrate.encoder.texts,
        "sources": source_hash(),
        "packages": {name: _version(package) for name, package in _PACKAGES.items()},
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def source_hash() -> str:
    """Return one hash of this package's own source files.

    Examples
    --------
    >>> len(source_hash())
    64
    """
    root = Path(larc.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def data_hash(subject: Any) -> str:
    """Return one hash of what a study is about: all texts, numbers and lists it is made of.

    What is none of these is left out: a way to open closed queries is no part of the data.

    Examples
    --------
    >>> from larc.tasks import Task
    >>> one, other = (Task("Even? ", ["3", "4"], [1, loss]) for loss in (0, 0.5))
    >>> data_hash([one]) == data_hash([one]) != data_hash([other])
    True
    """
    text = json.dumps(_plain(subject), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "as_plain"):
        return _plain_fields(value.as_plain())
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return sorted([str(key), _plain(part)] for key, part in value.items())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None


def _plain_fields(values: Mapping[str, Any]) -> Any:
    return {name: _plain(value) for name, value in values.items()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
