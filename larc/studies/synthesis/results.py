"""What a synthesis run found: who solved what with how many judge calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import (
    GroupMeans,
    bootstrap_intervals,
    bootstrap_means,
    group_means,
    nested_weights,
    weighted_mean,
)
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.studies.synthesis.units import CONDITIONS, QUERIES, WITHOUT_MODEL, answers

Array = NDArray[np.float64]
BOOTSTRAP_SEED = 20260929
#: Fewer groups of a family than this give no interval.
FEWEST_GROUPS = 4


@dataclass(frozen=True)
class Interval:
    """An estimate, and its 99 % interval over groups where there are enough of them."""

    estimate: float
    lower: float | None
    upper: float | None
    digits: int = 1

    @property
    def text(self) -> str:
        """The interval as tables show it."""
        if self.lower is None or self.upper is None:
            return "–"
        return f"[{self.lower:.{self.digits}f}, {self.upper:.{self.digits}f}]"

    @property
    def cell(self) -> str:
        """The estimate and the interval as one cell; without an interval, the estimate."""
        shown = f"{self.estimate:.{self.digits}f}"
        return shown if self.lower is None else f"{shown} {self.text}"


@dataclass(frozen=True, eq=False)
class SynthesisResults:
    """After how many calls each problem was solved.

    Attributes
    ----------
    conditions, seeds, calls
        What was compared, with which seeds, and the most calls.
    names, families, groups, kinds, lengths
        The problems.
    solved_at
        By condition ``[seeds, problems]``: the call that solved it, infinite where none did.
    overfitted
        By condition, how often the examples were all right and something kept back was not.
    losses
        By condition ``[seeds, problems]``: the lowest loss on the examples.
    judged
        By condition ``[seeds, problems]``: how many texts were judged.
    late
        By condition, how many texts the judge took too long for.
    """

    conditions: tuple[str, ...]
    seeds: tuple[int, ...]
    calls: int
    names: tuple[str, ...]
    families: tuple[str, ...]
    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    lengths: tuple[int, ...]
    solved_at: dict[str, Array]
    overfitted: dict[str, int]
    losses: dict[str, Array]
    judged: dict[str, Array]
    late: dict[str, int]
    resamples: int

    def solved(self, condition: str, calls: int) -> Array:
        """Return whether a condition had solved each problem, 0 or 1, ``[seeds, problems]``."""
        return (self.solved_at[condition] <= calls).astype(float)

    def means(self, values: Sequence[Array]) -> list[float]:
        """Return the mean over groups of each ``[seeds, problems]``, in percent: no interval."""
        means, _ = self._groups(values, self.of_kind())
        estimates: list[float] = weighted_mean(
            means.values.T, nested_weights(means.families)
        ).tolist()
        return estimates

    def interval(self, values: Sequence[Array], chosen: NDArray[np.bool_]) -> list[Interval]:
        """Return the mean over groups of some problems of each ``[seeds, problems]``, in percent.

        Families weigh equally, and groups in them; all are resampled alike, so they stay paired.
        """
        means, enough = self._groups(values, chosen)
        result = bootstrap_intervals(
            means.values, means.families, seed=BOOTSTRAP_SEED, resamples=self.resamples
        )
        return [
            Interval(
                float(result.estimate[column]),
                float(result.lower[column]) if enough else None,
                float(result.upper[column]) if enough else None,
            )
            for column in range(len(values))
        ]

    def ratio(self, first: Array, second: Array) -> Interval | None:
        """Return how many times as many problems the first solves; None if the second solves none.

        Groups are resampled as for differences. Where those drawn have none that the second
        solves, the ratio is infinite, and the interval may end there.
        """
        means, enough = self._groups([first, second], self.of_kind())
        one, two = self.means([first, second])
        if not two:
            return None
        drawn = bootstrap_means(
            means.values, means.families, seed=BOOTSTRAP_SEED, resamples=self.resamples
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(drawn[:, 1] > 0, drawn[:, 0] / drawn[:, 1], np.inf)
        # No value between two resamples: one of them may be infinite.
        lower, upper = np.quantile(ratios, [0.005, 0.995], method="nearest").tolist()
        return Interval(one / two, lower if enough else None, upper if enough else None, digits=2)

    def _groups(
        self, values: Sequence[Array], chosen: NDArray[np.bool_]
    ) -> tuple[GroupMeans, bool]:
        """Return the means of groups in percent, and whether there are enough for an interval."""
        members = np.flatnonzero(chosen)
        table = np.stack([100 * value.mean(0)[members] for value in values], axis=1)
        families = [self.families[index] for index in members]
        means = group_means(table, families, [self.groups[index] for index in members])
        counts = [means.families.count(family) for family in set(means.families)]
        return means, min(counts) >= FEWEST_GROUPS

    def of_kind(self, kind: str = "") -> NDArray[np.bool_]:
        """Return which problems are of a kind; all, without one."""
        return np.array([not kind or one == kind for one in self.kinds])

    def of_length(self, length: int) -> NDArray[np.bool_]:
        """Return the problems whose shortest right program has so many operations."""
        return np.array([one == length for one in self.lengths])


def load_results(run: Run) -> SynthesisResults:
    """Read a run's saved searches, and what was opened after them."""
    rows = [
        row
        for unit in run.recorded_units("searches written", "searches")
        for row in from_parquet(run.unit_file(unit, "searches.parquet"), f"{run.path}/{unit}")
    ]
    opened = from_parquet(run.unit_file(QUERIES, "queries.parquet"), f"{run.path}/{QUERIES}")
    return results_of(rows, opened, run.settings)


def results_of(
    rows: Sequence[Mapping[str, Any]],
    opened: Iterable[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> SynthesisResults:
    """Return what searches found: their rows, which answers are right, and the study's settings."""
    rights = {(row["name"], row["text"]): row["right"] for row in opened}
    seeds = tuple(settings["seeds"])
    known = {row["name"]: row for row in rows}
    names = tuple(known)
    there = {row["condition"] for row in rows}
    order = (*(condition.name for condition in CONDITIONS), *WITHOUT_MODEL)
    conditions = tuple(name for name in order if name in there)
    at = {c: np.full((len(seeds), len(names)), np.inf) for c in conditions}
    least = {c: np.full((len(seeds), len(names)), np.inf) for c in conditions}
    judged = {c: np.zeros((len(seeds), len(names))) for c in conditions}
    overfitted, late = dict.fromkeys(conditions, 0), dict.fromkeys(conditions, 0)
    for row in rows:
        cell = (seeds.index(row["seed"]), names.index(row["name"]))
        table = least[row["condition"]]
        table[cell] = min(table[cell], row["loss"])
        judged[row["condition"]][cell] += 1
        late[row["condition"]] += row["late"]
    for row in answers(rows):
        cell = (seeds.index(row["seed"]), names.index(row["name"]))
        if rights[row["name"], row["text"]]:
            at[row["condition"]][cell] = row["call"]
        else:
            overfitted[row["condition"]] += 1
    return SynthesisResults(
        conditions,
        seeds,
        int(settings["calls"]),
        names,
        tuple(known[name]["family"] for name in names),
        tuple(known[name]["group"] for name in names),
        tuple(known[name]["kind"] for name in names),
        tuple(int(known[name]["length"]) for name in names),
        at,
        overfitted,
        least,
        judged,
        late,
        int(settings["resamples"]),
    )
