"""The form of a saved session: named sections of a journal, and the forms it had before.

Singles (rule, strategies, events, what the prompter remembers, notes, trust) are JSON, each by
itself, and so is every state, awaited question and label; factors are float32 numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from larc.errors import LarcError
from larc.io.journal import checked_path, is_journal, journal_content, read_journal
from larc.io.states import parsed_kind, read_content, unpack_state, whole
from larc.residual import Factors

SESSION_FILE = "larc live session, version 4"
FACTORS = "factors"
#: Sections that come by name: ``pending/NAME``.
FAMILIES = ("episodes", "pending", "labelled", "log", "judged")


def _with_names_of_version_3(facts: Any) -> Any:
    """Upgrade facts that called strategies paths, and kept prompts without their candidates."""
    return {
        **{key: value for key, value in facts.items() if key not in ("paths", "room", "pending")},
        "strategies": [
            {
                **{key: value for key, value in path.items() if key not in ("permuted",)},
                "retention": "keep" if path["retention"] == "carry" else path["retention"],
                "sham": path["permuted"],
            }
            for path in facts["paths"]
        ],
        "prompter": facts["room"],
        "pending": {
            name: {"candidates": None, "prompt": "", "source": None, "prompts": prompts}
            for name, prompts in facts["pending"].items()
        },
    }


SESSION_UPGRADES = {
    # Version 1 did not say by which rule its states move, and its paths had none of their own.
    1: lambda facts: {
        **facts,
        "rule": None,
        "paths": [{**path, "rule": ""} for path in facts["paths"]],
    },
    2: _with_names_of_version_3,
    # Version 3 was one safetensors file, and remembered no labels.
    3: lambda facts: {**facts, "labelled": {}, "log": {}, "judged": {}},
}


@dataclass(frozen=True)
class SavedSession:
    """What a file holds.

    Attributes
    ----------
    factors
        By the names of strategies, and of the log's batches.
    facts
        Everything else, as JSON values.
    content, sections
        The file, and its sections if it is of today's form.
    """

    factors: dict[str, Factors]
    facts: Any
    content: bytes = b""
    sections: dict[str, bytes] | None = None


def load_session(path: str | Path) -> SavedSession:
    """Read a saved session of any version, refusing what is damaged or newer."""
    return parse_session(read_content(checked_path(path), SESSION_FILE), path)


def parse_session(content: bytes, path: str | Path) -> SavedSession:
    """Return what a saved session's content holds; the path is what refusals call it."""
    title, version = parsed_kind(SESSION_FILE)
    if not is_journal(content, title):
        tensors, facts = unpack_state(content, SESSION_FILE, str(path), SESSION_UPGRADES)
        with whole(path, SESSION_FILE):
            names = [name.removesuffix(".A") for name in tensors if name.endswith(".A")]
            factors = {name: Factors(tensors[f"{name}.A"], tensors[f"{name}.B"]) for name in names}
        return SavedSession(factors, facts, content)
    try:
        kind, sections = read_journal(content, title)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise LarcError(
            f"{path} was changed after it was saved; use an undamaged copy, or remove it and start "
            "anew."
        ) from error
    _, saved_version = parsed_kind(kind)
    if saved_version > version:
        raise LarcError(
            f"{path} was saved by a newer larc ({kind}; this one reads up to {version}); use the "
            "version that saved it."
        )
    with whole(path, SESSION_FILE):
        factors, facts = decoded(sections)
    return SavedSession(factors, facts, content, sections)


def pack_session(factors: Mapping[str, Factors], facts: Mapping[str, Any]) -> bytes:
    """Return factors and facts as the content of a file that was saved once."""
    return journal_content(SESSION_FILE, encoded(factors, facts))


def encoded(factors: Mapping[str, Factors], facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return factors and facts as the sections of a journal.

    Examples
    --------
    >>> sections = encoded({}, {"events": 3, "pending": {"a": {"prompt": "Next: "}}})
    >>> sections
    {'events': b'3', 'pending/a': b'{"prompt": "Next: "}'}
    >>> decoded(sections)[1]["pending"]
    {'a': {'prompt': 'Next: '}}
    """
    sections: dict[str, bytes] = {}
    for name, value in facts.items():
        if name in FAMILIES:
            sections |= {f"{name}/{key}": json_section(name, one) for key, one in value.items()}
        else:
            sections[name] = json_section(name, value)
    return sections | {f"{FACTORS}/{name}": factors_section(f) for name, f in factors.items()}


def decoded(sections: Mapping[str, bytes]) -> tuple[dict[str, Factors], dict[str, Any]]:
    """Return the factors and facts of a journal's sections."""
    factors: dict[str, Factors] = {}
    facts: dict[str, Any] = {family: {} for family in FAMILIES}
    for name, content in sections.items():
        family, _, key = name.partition("/")
        if family == FACTORS:
            factors[key] = _factors(content)
        elif family in FAMILIES:
            facts[family][key] = json.loads(content)
        else:
            facts[name] = json.loads(content)
    return factors, facts


def json_section(name: str, value: Any) -> bytes:
    """Return JSON values as a section, refusing what is none."""
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise LarcError(
            f"the {name} of a session cannot be saved as JSON ({error}); give JSON values."
        ) from error


def factors_section(factors: Factors) -> bytes:
    """Return factors as a section: rank and width, then both factors row by row."""
    arrays = [tensor.detach().cpu().numpy().astype("<f4") for tensor in (factors.A, factors.B)]
    return struct.pack("<II", factors.rank, factors.width) + b"".join(a.tobytes() for a in arrays)


def _factors(content: bytes) -> Factors:
    rank, width = struct.unpack("<II", content[:8])
    numbers = np.frombuffer(content, "<f4", offset=8).astype(np.float32)
    if len(numbers) != 2 * rank * width:
        raise ValueError("factors of another size")
    first, second = numbers[: rank * width], numbers[rank * width :]
    return Factors(
        torch.from_numpy(first.reshape(rank, width).copy()),
        torch.from_numpy(second.reshape(width, rank).copy()),
    )
