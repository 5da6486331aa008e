"""JSON files in one form, read with a sentence for whatever is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from larc.errors import LarcError


def as_json(value: Any) -> bytes:
    """Return a value in the one form this package writes JSON files in.

    Examples
    --------
    >>> as_json({"b": 1, "a": None}).decode().split()
    ['{', '"a":', 'null,', '"b":', '1', '}']
    """
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def parse_json(content: bytes, name: str | Path) -> Any:
    """Return the value of a JSON file, or say that it is damaged."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise LarcError(f"{name} cannot be read; it is damaged or foreign.") from error
