"""SHA-256 of content, of JSON values and of tensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # hashing content needs no model
    from torch import Tensor


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some content.

    Examples
    --------
    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def hash_json(value: Any) -> str:
    """Hash a JSON value written in its one canonical form.

    Examples
    --------
    >>> hash_json({"b": 1, "a": 2}) == hash_json({"a": 2, "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_tensors(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Hash named tensors: names, types, shapes and bytes, whatever the order they come in.

    Examples
    --------
    >>> import torch
    >>> a, b = ("a", torch.zeros(2)), ("b", torch.ones(2))
    >>> hash_tensors([a, b]) == hash_tensors([b, a]) != hash_tensors([a])
    True
    """
    import torch

    def one(item: tuple[str, Tensor]) -> list[str]:
        name, tensor = item
        flat = tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8)
        digest = hashlib.sha256(flat.numpy().data).hexdigest()
        return [name, str(tensor.dtype), str(list(tensor.shape)), digest]

    # Hashing releases the interpreter lock, so large models use the cores there are.
    with ThreadPoolExecutor() as pool:
        return hash_json(sorted(pool.map(one, tensors)))
