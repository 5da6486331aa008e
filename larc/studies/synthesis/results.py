"""What a synthesis run found: who solved what with how many judge calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import bootstrap_intervals, group_means
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.studies.synthesis.units import CONDITIONS, QUERIES, WITHOUT_MODEL

Array = NDArray[np.float64]
BOOTSTRAP_SEED = 20260929
#: Fewer groups of a family than this give no interval.
FEWEST_GROUPS = 4


@dataclass(frozen=True)
class Interval:
    """An estimate in percent, and its 99 % interval over groups where there are enough of them."""

    estimate: float
    lower: float | None
    upper: float | None

    @property
    def text(self) -> str:
        """The interval as tables show it."""
        if self.lower is None or self.upper is None:
            return "–"
        return f"[{self.lower:.1f}, {self.upper:.1f}]"


@dataclass(frozen=True, eq=False)
class SynthesisResults:
    """After how many calls each problem was solved.

    Attributes
    ----------
    conditions, seeds, calls
        What was compared, with which seeds, and the most calls.
    names, families, groups, kinds
        The problems.
    solved_at
        By condition ``[seeds, problems]``: the call that solved it, infinite where none did.
    overfitted
        By condition, how often the examples were all right and something kept back was not.
    losses
        By condition ``[seeds, problems]``: the lowest loss on the examples.
    """

    conditions: tuple[str, ...]
    seeds: tuple[int, ...]
    calls: int
    names: tuple[str, ...]
    families: tuple[str, ...]
    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    solved_at: dict[str, Array]
    overfitted: dict[str, int]
    losses: dict[str, Array]
    resamples: int

    def solved(self, condition: str, calls: int) -> Array:
        """Return whether a condition had solved each problem, 0 or 1, ``[seeds, problems]``."""
        return (self.solved_at[condition] <= calls).astype(float)

    def interval(self, values: Sequence[Array], chosen: NDArray[np.bool_]) -> list[Interval]:
        """Return the mean over groups of some problems of each ``[seeds, problems]``, in percent.

        Families weigh equally, and groups in them; all are resampled alike, so they stay paired.
        """
        members = np.flatnonzero(chosen)
        table = np.stack([100 * value.mean(0)[members] for value in values], axis=1)
        families = [self.families[index] for index in members]
        means = group_means(table, families, [self.groups[index] for index in members])
        result = bootstrap_intervals(
            means.values, means.families, seed=BOOTSTRAP_SEED, resamples=self.resamples
        )
        counts = [means.families.count(family) for family in set(means.families)]
        enough = min(counts) >= FEWEST_GROUPS
        return [
            Interval(
                float(result.estimate[column]),
                float(result.lower[column]) if enough else None,
                float(result.upper[column]) if enough else None,
            )
            for column in range(len(values))
        ]

    def of_kind(self, kind: str = "") -> NDArray[np.bool_]:
        """Return which problems are of a kind; all, without one."""
        return np.array([not kind or one == kind for one in self.kinds])


def load_results(run: Run) -> SynthesisResults:
    """Read a run's saved searches, and what was opened after them."""
    rows = [
        row
        for unit in run.recorded_units("searches written", "searches")
        for row in from_parquet(run.unit_file(unit, "searches.parquet"), f"{run.path}/{unit}")
    ]
    opened = from_parquet(run.unit_file(QUERIES, "queries.parquet"), f"{run.path}/{QUERIES}")
    rights = {(row["name"], row["text"]): row["right"] for row in opened}
    seeds, calls = tuple(run.settings["seeds"]), int(run.settings["calls"])
    known = {row["name"]: row for row in rows}
    names = tuple(known)
    there = {row["condition"] for row in rows}
    order = (*(condition.name for condition in CONDITIONS), *WITHOUT_MODEL)
    conditions = tuple(name for name in order if name in there)
    at = {c: np.full((len(seeds), len(names)), np.inf) for c in conditions}
    least = {c: np.full((len(seeds), len(names)), np.inf) for c in conditions}
    overfitted = dict.fromkeys(conditions, 0)
    for row in rows:
        cell = (seeds.index(row["seed"]), names.index(row["name"]))
        table = least[row["condition"]]
        table[cell] = min(table[cell], row["loss"])
        if row["loss"] == 0:
            if rights[row["name"], row["text"]]:
                at[row["condition"]][cell] = row["call"]
            else:
                overfitted[row["condition"]] += 1
    return SynthesisResults(
        conditions,
        seeds,
        calls,
        names,
        tuple(known[name]["family"] for name in names),
        tuple(known[name]["group"] for name in names),
        tuple(known[name]["kind"] for name in names),
        at,
        overfitted,
        least,
        int(run.settings["resamples"]),
    )
