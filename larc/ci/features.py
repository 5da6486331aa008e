"""Hashed unigram and bigram features of the seven public fields."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from larc.ci.jobs import Observation

_WORD = re.compile(r"[^\W_]+")
#: Distinct field values whose features are remembered; a full cache starts again from nothing.
_CACHED = 16_384


class FeatureHasher:
    """Turns an observation into the sorted indices of its active features.

    Every field is cut into lower-case words, and each word and each pair of neighbouring words
    counts under the name of its field: ``event`` *push* and ``job`` *push* are two features. The
    commit is one word. Of the start time the weekday and the hour (UTC) are used, and their pair:
    a job is asked once, so its exact second says nothing about another. A feature is present or
    not; two that meet in one index are one.

    The index is CRC-32 modulo the number of features, the same on every machine and in every
    process.

    Parameters
    ----------
    features
        The number of indices.

    Examples
    --------
    >>> hasher = FeatureHasher(1024)
    >>> seen = Observation("o/r", 5, None, "push", "build (linux)", "c0ffee", 1767312000)
    >>> hasher.indices(seen)
    array([116, 121, 214, 279, 316, 322, 485, 562, 635, 754, 769, 961])
    """

    __slots__ = ("_cache", "features")

    def __init__(self, features: int) -> None:
        self.features = features
        # Derived from the texts alone: losing it costs time and changes nothing.
        self._cache: dict[tuple[str, str | int], tuple[int, ...]] = {}

    def indices(self, observation: Observation) -> npt.NDArray[np.intp]:
        """Return the indices of the active features, each once, in ascending order."""
        active: set[int] = set()
        for name, value in (
            ("repository", observation.repository),
            ("workflow", observation.workflow_id),
            ("path", observation.workflow_path),
            ("event", observation.event),
            ("job", observation.job_name),
            ("commit", observation.commit),
            ("time", observation.started_at // 3600),
        ):
            if value is not None:
                active.update(self._of_field(name, value))
        return np.array(sorted(active), dtype=np.intp)

    def _of_field(self, name: str, value: str | int) -> tuple[int, ...]:
        key = (name, value)
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            found = self._cache[key] = tuple(self._hashed(name, _words(name, value)))
        return found

    def _hashed(self, name: str, words: list[str]) -> Iterable[int]:
        pairs = (f"{first} {second}" for first, second in pairwise(words))
        for text in (*words, *pairs):
            # No word holds a blank, so a word and a pair are never the same text.
            yield zlib.crc32(f"{name}:{text}".encode()) % self.features


def _words(name: str, value: str | int) -> list[str]:
    if name == "time":
        moment = datetime.fromtimestamp(int(value) * 3600, UTC)
        return [f"weekday{moment.weekday()}", f"hour{moment.hour}"]
    if name == "commit":
        return [str(value)]
    return _WORD.findall(str(value).lower())
