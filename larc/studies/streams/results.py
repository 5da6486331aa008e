"""What a study of private conventions found: every answer, scored, by stream and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from larc.evaluation import (
    LEAST_GROUPS,
    expected_calibration_error,
    reliability,
)
from larc.evaluation.bootstrap import LEVEL
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.studies.streams.settings import SYNTHETIC

Array = NDArray[np.float64]
#: The seed of rows of who has none: what is fitted without chance answers alike for all seeds.
NO_SEED = 0
MEASURES = ("half-Brier", "cross-entropy", "accuracy")
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class Answers:
    """What one path said: an entry for each seed, stream and question, NaN where it was not asked.

    A question without a label has no score, and counts nowhere.

    Attributes
    ----------
    scores
        By measure, ``[seeds, streams, questions]``.
    top, right
        The probability of the most probable candidate, and whether it was right.
    seen
        How many labels had arrived, ``[streams, questions]``.
    """

    scores: Mapping[str, Array]
    top: Array
    seen: Array

    def by_stream(self, measure: str, first: int | None = None, since: int = 0) -> Array:
        """Return the mean over some questions, ``[seeds, streams]``; NaN for streams not asked."""
        chosen = self.scores[measure][:, :, since : None if first is None else since + first]
        counts = np.isfinite(chosen).sum(-1)
        sums = np.nansum(chosen, -1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def calibration(self, first: int | None = None) -> float:
        """Return the expected calibration error of the most probable candidate."""
        asked = np.isfinite(self.scores["accuracy"])
        if first is not None:
            asked[:, :, first:] = False
        top, right = self.top[asked], self.scores["accuracy"][asked]
        # Streams count alike, however many questions they have.
        per_stream = asked.sum(-1, keepdims=True) * np.ones(asked.shape)
        bins = reliability(
            np.stack([top, 1 - top], -1),
            np.where(right > 0.5, 0, 1),
            weights=1 / per_stream[asked],
            of_class=0,
        )
        return expected_calibration_error(bins)


@dataclass(frozen=True, eq=False)
class SetResults:
    """What was found on one data set.

    Attributes
    ----------
    name, synthetic
        The data set's name, and whether it was made up.
    seeds, streams
        The training seeds, and the test streams.
    lengths
        How many questions each stream was asked.
    paths
        What everybody said, by name.
    """

    name: str
    synthetic: bool
    seeds: tuple[int, ...]
    streams: tuple[str, ...]
    lengths: tuple[int, ...]
    paths: Mapping[str, Answers]

    def whole(self) -> list[str]:
        """Return the paths that answered every question of every stream, with a seed at least."""
        return [
            path
            for path, answers in self.paths.items()
            if all(
                np.isfinite(answers.top[:, number, :length]).all(-1).any()
                for number, length in enumerate(self.lengths)
            )
        ]

    def mean(self, path: str, measure: str = "half-Brier", first: int | None = None) -> float:
        """Return the mean over seeds and streams; NaN where nothing was scored."""
        scores = self.paths[path].by_stream(measure, first)
        return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")

    def second_half(self, path: str, first: int | None = None) -> Array:
        """Return the half-Brier loss in the second half of streams, ``[seeds, streams]``.

        Over its first questions, if so many are given; NaN where none was scored.
        """
        scores = self.paths[path].scores["half-Brier"]
        halves = np.full(scores.shape[:2], np.nan)
        for stream, length in enumerate(self.lengths):
            since = length // 2
            end = length if first is None else min(since + first, length)
            asked = scores[:, stream, since:end]
            some = np.isfinite(asked).any(-1)
            halves[some, stream] = np.nanmean(asked[some], -1)
        return halves

    def contrast(
        self, worse: str, better: str, first: int | None = None, since: int = 0
    ) -> Contrast:
        """Return by how much a path's half-Brier loss is above another's, over streams."""
        one, other = (
            self.paths[path].by_stream("half-Brier", first, since) for path in (worse, better)
        )
        return contrast_of(one - other)


@dataclass(frozen=True, eq=False)
class Contrast:
    """A difference with its 99 % interval over streams, by seed, and how many streams gain."""

    mean: float
    lower: float
    upper: float
    seeds: tuple[float | None, ...]
    gaining: int
    streams: int

    @property
    def interval(self) -> str:
        """The interval as text; where there are too few streams for one it says so."""
        if not np.isfinite(self.lower):
            return f"none: fewer than {LEAST_GROUPS} streams"
        return f"[{self.lower:+.4f}, {self.upper:+.4f}]".replace("-", "−")

    @property
    def above_zero(self) -> bool:
        """Whether the interval lies above zero."""
        return self.lower > 0


def contrast_of(differences: Array) -> Contrast:
    """Return the contrast of differences ``[seeds, streams]``; what is NaN has no part in it.

    The interval is Student's t, over streams: there are few, and a bootstrap would be too narrow.

    Examples
    --------
    >>> contrast_of(np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])).gaining
    3
    """
    asked = np.isfinite(differences)
    if not asked.any():
        return Contrast(np.nan, np.nan, np.nan, (None,) * len(differences), 0, 0)
    by_stream = np.nanmean(differences[:, asked.any(0)], axis=0)
    mean, count = float(by_stream.mean()), len(by_stream)
    half = np.nan
    if count >= LEAST_GROUPS:
        quantile = stats.t.ppf((1 + LEVEL) / 2, count - 1)
        half = float(quantile * by_stream.std(ddof=1) / np.sqrt(count))
    return Contrast(
        mean,
        mean - half,
        mean + half,
        tuple(
            float(np.nanmean(row)) if some.any() else None
            for row, some in zip(differences, asked, strict=True)
        ),
        int((by_stream > 0).sum()),
        count,
    )


def load_results(run: Run) -> list[SetResults]:
    """Read everything that was said on test streams, and score it."""
    units = run.recorded_units("predictions written", "predictions")
    rows: dict[str, list[dict[str, Any]]] = {}
    for unit in sorted(units):
        for row in from_parquet(run.unit_file(unit, "predictions.parquet"), unit):
            rows.setdefault(row["data"], []).append(row)
    seeds = tuple(run.settings["seeds"])
    return [set_results(name, some, seeds) for name, some in rows.items()]


def set_results(name: str, rows: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> SetResults:
    """Score the rows of one data set.

    Examples
    --------
    >>> row = {"seed": 7, "stream": "s", "number": 0, "seen": 0, "path": "KEEP",
    ...        "label": 1, "policy": [0.5, 0.5]}
    >>> set_results("x", [row], [7]).mean("KEEP")
    0.25
    """
    streams = tuple(dict.fromkeys(row["stream"] for row in rows))
    index_of = {stream: number for number, stream in enumerate(streams)}
    longest = 1 + max(row["number"] for row in rows)
    lengths = [0] * len(streams)
    by_path: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_path.setdefault(row["path"], []).append(row)
        stream = index_of[row["stream"]]
        lengths[stream] = max(lengths[stream], 1 + row["number"])
    shape = (len(seeds), len(streams), longest)
    paths = {path: _answers(some, seeds, index_of, shape) for path, some in by_path.items()}
    synthetic = name == SYNTHETIC
    return SetResults(name, synthetic, tuple(seeds), streams, tuple(lengths), paths)


def _answers(
    rows: Sequence[Mapping[str, Any]],
    seeds: Sequence[int],
    index_of: Mapping[str, int],
    shape: tuple[int, int, int],
) -> Answers:
    scores = {measure: np.full(shape, np.nan) for measure in MEASURES}
    top, seen = np.full(shape, np.nan), np.full(shape[1:], np.nan)
    number_of = {seed: [number] for number, seed in enumerate(seeds)}
    number_of[NO_SEED] = list(range(len(seeds)))
    for row in rows:
        policy, label = np.asarray(row["policy"], dtype=np.float64), row["label"]
        stream, question = index_of[row["stream"]], row["number"]
        if label is None:
            for seed in number_of[row["seed"]]:
                top[seed, stream, question] = policy.max()
            continue
        right = policy[label]
        brier = 0.5 * float((policy**2).sum() - 2 * right + 1)
        seen[stream, question] = row["seen"]
        for seed in number_of[row["seed"]]:
            at = (seed, stream, question)
            scores["half-Brier"][at] = brier
            scores["cross-entropy"][at] = -np.log(max(right, _LEAST))
            scores["accuracy"][at] = float(policy.argmax() == label)
            top[at] = policy.max()
    return Answers(scores, top, seen)
