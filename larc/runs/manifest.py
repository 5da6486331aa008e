"""What the manifest of a finished run names: the identities of all that made its results.

Every word of a manifest follows from the other files of its run. So a manifest that was changed is
noticed by making it again, and any other file that was changed by its hash in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

# The names under which units keep factors, and what they predicted or were judged by.
_FACTORS = ("slow.safetensors", "history.safetensors")
_PREDICTIONS = ("predictions.parquet",)
_QUERIES = ("queries.parquet",)


def identities(
    data: str, files: Mapping[str, str], made_with: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the SHA-256 identities of a run, by what they are of.

    Parameters
    ----------
    data
        The hash of what the run is about.
    files
        The hash of every file of the run.
    made_with
        What its units were made with, each distinct answer once.

    Examples
    --------
    >>> files = {"config.json": "c0", "units/train/slow.safetensors": "f0"}
    >>> identity = identities("d0", files, [{"sources": "50", "substrate": {"adapter": ""}}])
    >>> identity["configuration"], identity["data"], identity["factors"], identity["sources"]
    ('c0', 'd0', {'train': 'f0'}, ['50'])
    """
    substrates = [dict(facts.get("substrate") or {}) for facts in made_with]
    adapters = [substrate.pop("adapter", "") for substrate in substrates]
    return {
        "adapter": _distinct(adapters),
        "configuration": files.get("config.json", ""),
        "data": data,
        "evidence": files.get("evidence.jsonl", ""),
        "factors": _of_units(files, _FACTORS),
        "predictions": _of_units(files, _PREDICTIONS),
        "queries": _of_units(files, _QUERIES),
        "sources": _distinct([facts.get("sources", "") for facts in made_with]),
        "substrate": _distinct(substrates),
    }


def _of_units(files: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    paths = {PurePosixPath(name): digest for name, digest in files.items()}
    return {
        path.parts[1]: digest
        for path, digest in paths.items()
        if len(path.parts) == 3 and path.parts[0] == "units" and path.name in names
    }


def _distinct(values: Sequence[Any]) -> list[Any]:
    return [value for number, value in enumerate(values) if value not in values[:number]]
