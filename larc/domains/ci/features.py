"""Hashed unigram and bigram features of the seven public fields."""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from larc.domains.ci.jobs import Observation

_WORD = re.compile(r"[^\W_]+")
#: What is remembered of each kind; a full cache starts again from nothing.
_CACHED = 16_384
_JOB = ("repository", "workflow", "path", "event", "job")
_COMMIT = ("commit",)
_TIME = ("time",)

V = TypeVar("V")


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

    __slots__ = ("_parts", "_whole", "features")

    def __init__(self, features: int) -> None:
        self.features = features
        # Derived from the texts alone: losing them costs time and changes nothing. A job is looked
        # up when it is predicted and when its label arrives; what it has in common with the next
        # run of the same job is most of it.
        self._whole: dict[tuple[Hashable, ...], npt.NDArray[np.intp]] = {}
        self._parts: dict[tuple[Hashable, ...], frozenset[int]] = {}

    def indices(self, observation: Observation) -> npt.NDArray[np.intp]:
        """Return the indices of the active features, each once, in ascending order."""
        seen = observation
        job = (seen.repository, seen.workflow_id, seen.workflow_path, seen.event, seen.job_name)
        hour = seen.started_at // 3600
        key = (job, seen.commit, hour)
        hashed = self._whole.get(key)
        if hashed is None:
            active = self._part(_JOB, job) | self._part(_COMMIT, (seen.commit,))
            active |= self._part(_TIME, (hour,))
            hashed = np.array(sorted(active), dtype=np.intp)
            hashed.flags.writeable = False  # it is handed out again
            _keep(self._whole, key, hashed)
        return hashed

    def _part(self, names: Sequence[str], values: Sequence[str | int | None]) -> frozenset[int]:
        key = (names, values)
        hashed = self._parts.get(key)
        if hashed is None:
            hashed = frozenset(
                index
                for name, value in zip(names, values, strict=True)
                if value is not None
                for index in self._hashed(name, _words(name, value))
            )
            _keep(self._parts, key, hashed)
        return hashed

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


def _keep(cache: dict[tuple[Hashable, ...], V], key: tuple[Hashable, ...], value: V) -> None:
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value
