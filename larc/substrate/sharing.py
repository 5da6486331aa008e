"""One copy of a model's weights for all processes of a machine: a file that each of them maps."""

from __future__ import annotations

import json
import mmap
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from larc.errors import LarcError, reason
from larc.io.files import make_directory
from larc.substrate.fetching import cache_directory
from larc.substrate.frozen import Substrate

_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
_MAPS = Path("/proc/self/maps")


def share_weights(substrate: Substrate, directory: Path | None = None) -> Path | None:
    """Let a model's weights be a mapping of a file, which takes memory once for all processes.

    A model that was loaded in the precision of its file is such a mapping already, and nothing is
    written. What is not on the processor stays where it is.

    Parameters
    ----------
    substrate
        The frozen model.
    directory
        Where the file is; by default beside the models that were fetched.

    Returns
    -------
    Path or None
        The file, if there had to be one.

    Examples
    --------
    >>> import tempfile
    >>> from larc.substrate import load_substrate
    >>> tiny = load_substrate("tiny")
    >>> before, directory = tiny.identity, Path(tempfile.mkdtemp())
    >>> share_weights(tiny, directory).parent == directory
    True
    >>> share_weights(tiny, directory), load_substrate("tiny").identity == before
    (None, True)
    """
    weights = {name: one.data for name, one in substrate.model.named_parameters()}
    types = {one.dtype for one in weights.values()}
    if substrate.device.type != "cpu" or types - set(_TYPES.values()):
        return None
    if are_mapped(list(weights.values())):
        return None
    directory = directory or cache_directory() / "shared"
    file = directory / f"{substrate.identity.weights}.safetensors"
    if not file.exists():
        make_directory(directory)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            written = Path(scratch) / file.name
            save_file({name: one.contiguous() for name, one in weights.items()}, written)
            # Two processes that start together: the second maps what the first has written.
            with suppress(FileExistsError):
                file.hardlink_to(written)
    shared = _mapped(file)
    for name, one in weights.items():
        if name not in shared or not torch.equal(shared[name], one):
            raise LarcError(f"{file} is not a copy of the weights of {substrate.name}; delete it.")
    for name, parameter in substrate.model.named_parameters():
        parameter.data = shared[name]
    return file


def are_mapped(tensors: Sequence[Tensor]) -> bool:
    """Whether the memory of tensors is of files, and so every process's that maps these.

    Examples
    --------
    >>> are_mapped([torch.zeros(8)])
    False
    """
    if not _MAPS.exists():  # not Linux: nobody can tell
        return False
    spans = []
    for line in _MAPS.read_text().splitlines():
        span, _, _, _, inode, *_ = line.split()
        if inode != "0":
            spans.append(tuple(int(end, 16) for end in span.split("-")))
    return all(any(low <= one.data_ptr() < high for low, high in spans) for one in tensors)


def _mapped(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, each a view of its mapping."""
    try:
        # Copied where it is written to, which a frozen model never is.
        with file.open("rb") as opened:
            mapping = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        content = np.frombuffer(mapping, dtype=np.uint8)
        start = 8 + int.from_bytes(content[:8].tobytes(), "little")
        header = json.loads(content[8:start].tobytes())
        header.pop("__metadata__", None)
        tensors = {}
        for name, about in header.items():
            low, high = about["data_offsets"]
            part = torch.from_numpy(content[start + low : start + high])
            tensors[name] = part.view(_TYPES[about["dtype"]]).reshape(about["shape"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LarcError(f"{file} cannot be mapped ({reason(error)}); delete it.") from error
    return tensors
