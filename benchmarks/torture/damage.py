"""Ways to damage a file: its bytes, and what its bytes mean."""

from __future__ import annotations

import copy
import gzip
import json
import random
from typing import Any

import torch

from larc.io.json_files import as_json
from larc.io.states import pack_state, unpack_state

#: What is put in place of a value; the last is nested more deeply than any reader goes.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 7, 2**70, -(2**63), 1e308, 0.5, float("nan"), float("inf")),
    *("", "x", "../../x", "\ud800", "\0", "9" * 5000, "x" * 3000, [], {}, [None], {"": {}}),
)
_FOREIGN = (b"", b"\0", b"{}", b"[]", b"null\n", b"\x80\x04N.", b"PK\x03\x04", b"\x1f\x8b\x08\x00")
_PIECES = (b"\0", b"\n", b"\r", b"\xff\xfe", b'"', b"{", b": ", b"- ", b"9")
_DEEP = b"[" * 20_000 + b"]" * 20_000


def damaged(content: bytes, stream: random.Random) -> tuple[bytes, bool]:
    """Return damaged content, and whether it is forged: whole by its own hashes all the same."""
    ways = [_bytes, _bytes, _bytes, _foreign]
    if content[:2] == b"\x1f\x8b":
        ways += [_inside_gzip] * 2
    elif content[8:9] == b"{" and b'"__metadata__":{"larc"' in content[:200]:
        ways += [_forged_state] * 3
    elif content[:1] in (b"{", b"["):
        ways += [_json] * 3
    try:
        return stream.choice(ways)(content, stream)
    except (ValueError, KeyError, RecursionError, UnicodeError):
        return _bytes(content, stream)


def _bytes(content: bytes, stream: random.Random) -> tuple[bytes, bool]:
    other = bytearray(content)
    for _ in range(stream.choice([1, 1, 1, 2, 8])):
        size = len(other)
        start = stream.randrange(size + 1)
        end = min(size, start + stream.choice([1, 2, 8, 100, 5000]))
        kind = stream.randrange(7)
        if kind <= 1 and start < size:
            other[start] ^= 1 << stream.randrange(8)
        elif kind == 2:
            del other[start:end]
        elif kind == 3:
            other[start:start] = other[start:end]
        elif kind == 4:
            other[start:end] = stream.randbytes(end - start)
        elif kind == 5:
            other[start:start] = stream.choice(
                [b"\0", b"\n", b"\xff\xfe", b'"', b"{", b": ", b"\r"]
            )
        else:
            del other[start:]
    return bytes(other), False


def _foreign(content: bytes, stream: random.Random) -> tuple[bytes, bool]:
    return stream.choice([*_FOREIGN, _DEEP, stream.randbytes(200)]), False


def _inside_gzip(content: bytes, stream: random.Random) -> tuple[bytes, bool]:
    return gzip.compress(damaged(gzip.decompress(content), stream)[0], mtime=0), False


def _json(content: bytes, stream: random.Random) -> tuple[bytes, bool]:
    """Change what a JSON file, or a line of one, says; in the form this package writes it in."""
    lines = content.splitlines(keepends=True)
    if len(lines) > 1 and lines[1][:1] in (b"{", b"["):
        number = stream.randrange(len(lines))
        lines[number] = json.dumps(mutated(json.loads(lines[number]), stream)).encode() + b"\n"
        return b"".join(lines), True
    value = mutated(json.loads(content), stream)
    return stream.choice([as_json(value), json.dumps(value).encode()]), True


def _forged_state(content: bytes, stream: random.Random) -> tuple[bytes, bool]:
    """Change what a saved state says, and give it the hash that goes with it."""
    size = int.from_bytes(content[:8], "little")
    kind = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["larc"])["kind"]
    tensors, facts = unpack_state(content, kind)
    if stream.random() < 0.6 or not tensors:
        facts = mutated(facts, stream)
    else:
        name = stream.choice(sorted(tensors))
        tensor = tensors.pop(name)
        change = stream.randrange(5)
        if change == 1:
            tensors[name] = tensor.reshape(-1)
        elif change == 2:
            tensors[name] = tensor.to(stream.choice([torch.float64, torch.int8, torch.bool]))
        elif change == 3:
            tensors[name] = torch.full_like(tensor, float("nan"))
        elif change == 4:
            tensors[name] = torch.zeros(stream.choice([(0,), (1,), (3, 3), (2, 2, 2)]))
    kind = stream.choice([kind, kind, kind, kind[:-1] + "9", "larc note, version 1", ""])
    return pack_state(kind, tensors, facts), True


def mutated(value: Any, stream: random.Random) -> Any:
    """Return a JSON value in which one thing, somewhere, is another."""
    if not isinstance(value, dict | list) or not value or stream.random() < 0.1:
        return copy.deepcopy(stream.choice(_VALUES))
    value = copy.copy(value)
    key = stream.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
    change = stream.random()
    if change < 0.15:
        del value[key]
    elif change < 0.25 and isinstance(value, dict):
        value[stream.choice(["", "x", key + "x"])] = value.pop(key)
    elif change < 0.25:
        value.insert(key, value[key])
    else:
        value[key] = mutated(value[key], stream)
    return value
