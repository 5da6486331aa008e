"""For which feedback a private state pays: against itself reset, and against what one would use."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import bootstrap_intervals, group_means
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.ci.results import load_results as load_ci
from larc.studies.controller.report import load_results as load_controller
from larc.studies.episodic.results import EpisodicResults
from larc.studies.episodic.results import load_results as load_episodic
from larc.studies.streams.names import CONTROLLER, KEEP, RESET
from larc.studies.streams.report import best_free
from website.conventions import results_of
from website.published import RESULTS, Row, one_row, rows

Array = NDArray[np.float64]
#: Names the draws of all intervals here.
_SEED = 20261119
_PAPER = "G: reset minus keep, without memory", "Logistic minus P1M0"
_THROUGH = (
    "G without memory, trained through the window",
    "Logistic minus keep, trained through the window",
)
COLUMNS = (
    *("Feedback", "What one would use", "State: kept over reset", "State kept over that"),
    *("Controller over that", "A question costs"),
)


@dataclass(frozen=True)
class Gain:
    """By how much a loss is lower, with its 99 % interval; in half-Brier loss, or in points."""

    mean: float
    lower: float
    upper: float
    digits: int = 4

    def __str__(self) -> str:
        form = f"+.{self.digits}f"
        text = f"{self.mean:{form}} [{self.lower:{form}}, {self.upper:{form}}]"
        verdict = "better" if self.lower > 0 else "worse" if self.upper < 0 else "not told apart"
        return f"**{verdict}** {text}".replace("-", "−")


def _bootstrapped(values: Array, families: Sequence[Hashable], digits: int = 4) -> Gain:
    one = bootstrap_intervals(values, families, seed=_SEED)
    return Gain(float(one.estimate[0]), float(one.lower[0]), float(one.upper[0]), digits)


def by_commit(loss: Array, repositories: Sequence[str], commits: Sequence[str]) -> Gain:
    """Return the mean of differences by job, with its interval over commits."""
    means = group_means(
        loss, repositories, [f"{r} {c}" for r, c in zip(repositories, commits, strict=True)]
    )
    return _bootstrapped(means.values[:, 0], means.families)


def programs(best: str, more: str) -> list[Cell]:
    """Return the row of the program study: complete losses of a few candidates."""
    kept = _episodic(more)
    assert kept.even is not None
    over = 100 * (kept.even - kept.risk["exact", "real_keep"].mean(0))
    means = group_means(over, kept.families, kept.groups)
    reset = one_row(best, "contrasts", "Exact G")
    steps = [row for row in rows(more.split("/")[0], "sweep") if row["Arm"] == "exact"]
    spent = next(row["ms"] for row in steps if more.endswith(str(row["inner_steps"])))
    return [
        "losses of four programs on four examples, at once",
        "the program with the fewest errors, equals by chance",
        f"{_published(reset, 2)} points of error",
        f"{_bootstrapped(means.values[:, 0], means.families, 2)} points",
        "–",
        f"{spent / 1000:.1f} s for the steps before it",
    ]


@cache
def _episodic(run: str) -> EpisodicResults:
    return load_episodic(Run(RESULTS / run))


def queue(run: str, what: str, named: tuple[str, str], controlled: str = "") -> list[Cell]:
    """Return the row of a CI queue: its states at reset and kept, and a controller of them.

    ``named`` are the two rows of the run's own table that have its intervals over commits.
    """
    gains = [_published(one_row(run, "commits", name)) for name in named]
    mixed = "–"
    if controlled:
        weighed = load_controller(Run(RESULTS / controlled))
        loss = (weighed.loss["logistic"] - weighed.loss[weighed.final]).mean(0)
        mixed = str(by_commit(loss, weighed.repositories, weighed.commits))
    results = load_ci(Run(RESULTS / run))
    audits = [row for row in rows(run, "cost") if "audit-" in row["Unit"]]
    spent = sum(int(row["Read"]) + int(row["Update"]) for row in audits)
    asked = len(results.names) * len(results.seeds) * len(_played(results.paths))
    seconds = f"{spent / asked / 1000:.2f} s"
    return [what, "logistic regression", *map(str, gains), mixed, seconds]


def _published(row: Row, digits: int = 4) -> Gain:
    low, high = (float(end) for end in _ends(row["99 % interval"]))
    return Gain(row["Mean"], low, high, digits)


def _ends(interval: str) -> list[str]:
    return interval.strip("[]").replace("−", "-").split(", ")


def _played(paths: Sequence[str]) -> list[str]:
    """Return the paths that a state answers."""
    return [path for path in paths if path != "HEDGE4"]


def streams(run: str) -> Iterator[list[Cell]]:
    """Return a row for each data set of a published run of private streams."""
    costs = {(row["Data"], row["Path"]): row for row in rows(run, "costs")}
    for one in results_of(RESULTS / run):
        free = best_free(one)
        assert free is not None
        pairs = ((RESET, KEEP), (free, KEEP), (free, CONTROLLER))
        gains = [one.contrast(worse, better) for worse, better in pairs]
        cost = costs[one.name, KEEP]
        kept = float(cost["Bytes a stream"]) / 1024
        spent = f"{cost['ms'] / 1000:.2f} s, {kept:.0f} KiB a stream"
        yield [
            f"`{one.name.removesuffix('.dev')}`: one label a question, a convention a stream",
            free,
            *(str(Gain(gain.mean, gain.lower, gain.upper)) for gain in gains),
            spent,
        ]


def deciding(*runs: str) -> str:
    """Return the whole table; ``runs`` are those of private streams."""
    lines = [programs("programs-best", "programs-steps/inner_steps=8")]
    ci = "a repository's CI jobs, labels late; a state trained"
    alone = f"{ci} on labels alone"
    lines.append(queue("ci-through", alone, _PAPER, "controller"))
    lines.append(queue("ci-through", f"{ci} through its updates", _THROUGH, "controller-through"))
    for run in runs:
        lines += streams(run)
    return Table("deciding", "", COLUMNS, lines).markdown()


def brief(*runs: str) -> str:
    """Return the rows that a reader with a minute needs, without their costs."""
    lines = [programs("programs-best", "programs-steps/inner_steps=8")]
    lines.append(queue("ci-through", "a repository's CI jobs, labels late", _PAPER, "controller"))
    for run in runs:
        lines += streams(run)
    kept = range(len(COLUMNS) - 1)
    chosen = [[line[column] for column in kept] for line in lines]
    return Table("brief", "", [COLUMNS[column] for column in kept], chosen).markdown()
