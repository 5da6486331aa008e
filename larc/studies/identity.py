"""What a result was made with: substrate, sources, versions and machine."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import larc
from larc.substrate import Substrate

_PACKAGES = ("larc", "torch", "transformers", "numpy", "safetensors", "tokenizers")


def provenance(substrate: Substrate) -> dict[str, Any]:
    """Return the identities behind a unit of work."""
    return {
        "substrate": asdict(substrate.identity),
        "sources": source_hash(),
        "packages": {name: _version(name) for name in _PACKAGES},
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


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
