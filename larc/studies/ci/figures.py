"""The figures of a continuous-integration run: paths and effects, loss over time, calibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import Reliability, expected_calibration_error
from larc.reporting.charts import Figure, Line, Lines, Rows, Value, reliability_chart
from larc.reporting.seeds import short_seed
from larc.studies.ci.results import SHOWN, Array, CIResults, contrasts, path_bins

# A line of more points says nothing more.
POINTS = 240


def figures(results: CIResults) -> list[Figure]:
    """Return the result in two panels, the loss over time, and a reliability diagram per path."""
    return [
        Figure(
            "result",
            "Left: half-Brier loss of each path by seed, lower is better; the line is HEDGE4. "
            "Right: the differences that are asked about, by seed, positive where what comes "
            "second is better. G is reset minus keep, D permuted minus real, memory without minus "
            "with; policy by memory is G with memory minus G without. The queue is described, and "
            "stands for no other: seeds are no independent jobs, so there is no interval.",
            [_paths_chart(results), _effects_chart(results)],
        ),
        Figure(
            "over-time",
            "How much more than HEDGE4 each path has lost on the jobs that had started by then. "
            "Commits weigh equally within a repository: a line ends at the difference that "
            "the strata show."
            + (" Seeds averaged; faintly each." if len(results.seeds) > 1 else ""),
            _time_charts(results),
        ),
        Figure(
            "reliability",
            "How often the most probable label is right against its probability, seeds pooled, "
            "primary weights. A point's area is its bin's share of the weight, the number beside "
            "it how many predictions it holds. ECE is the expected calibration error of the pooled "
            "predictions.",
            [_reliability_chart(path, bins) for path, bins in path_bins(results).items()],
            columns=3,
        ),
    ]


def _by_seed(results: CIResults, row: str, values: Array) -> list[Value]:
    if len(results.seeds) == 1:
        return [Value(row, float(values[0]))]
    named = zip(results.seeds, values, strict=True)
    points = [Value(row, float(value), series=short_seed(seed)) for seed, value in named]
    return [*points, Value(row, float(values.mean()), series="mean")]


def _paths_chart(results: CIResults) -> Rows:
    values = [value for p in results.paths for value in _by_seed(results, p, results.scores(p))]
    hedge = float(results.scores("HEDGE4").mean())
    return Rows("Paths", "Half-Brier loss", values, digits=4, reference=hedge)


def _effects_chart(results: CIResults) -> Rows:
    values = [
        value
        for name, (_, by_seed) in contrasts(results.path_scores).items()
        for value in _by_seed(results, name, by_seed)
    ]
    label = "Difference of half-Brier loss"
    return Rows("Effects", label, values, digits=4, reference=0.0, signed=True)


def _time_charts(results: CIResults) -> list[Lines]:
    return [
        _time_chart(results, repository, np.array(results.repositories) == repository)
        for repository in sorted(set(results.repositories))
    ]


def _time_chart(results: CIResults, repository: str, inside: NDArray[np.bool_]) -> Lines:
    asked = results.asked[inside]
    weights = results.primary[inside] / results.primary[inside].sum()
    order = np.argsort(asked, kind="stable")
    # Jobs of one second are predicted together, so they are one place.
    ends = np.flatnonzero(np.diff(asked[order], append=np.inf))
    if len(ends) > POINTS:
        ends = ends[np.linspace(0, len(ends) - 1, POINTS).round().astype(int)]
    places = [0, *(ends + 1).tolist()]
    lines = []
    for series, path in SHOWN.items():
        if series == "HEDGE4":
            continue
        more = (results.loss[path] - results.loss["HEDGE4"])[:, inside] * weights
        summed = more[:, order].cumsum(axis=1)[:, ends].tolist()
        if len(results.seeds) > 1:
            lines += [
                Line(series, places, [0.0, *sums], note=short_seed(seed), faint=True)
                for seed, sums in zip(results.seeds, summed, strict=True)
            ]
        lines.append(Line(series, places, [0.0, *np.mean(summed, axis=0).tolist()]))
    lines.append(Line("HEDGE4", [0, places[-1]], [0.0, 0.0], dashed=True))
    label = "Jobs, in the order they started"
    return Lines(repository, label, "Loss more than HEDGE4's", lines, digits=4)


def _reliability_chart(path: str, bins: Reliability) -> Lines:
    error = expected_calibration_error(bins)
    # The title names the path, so that no key has to.
    return reliability_chart(f"{path}, ECE {error:.3f}", {"": bins})
