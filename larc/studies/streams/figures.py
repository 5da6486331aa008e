"""The figures of a study of private conventions, and the table of loss against labels seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from larc.reporting.charts import Figure, Line, Lines, Rows, Value
from larc.reporting.tables import Cell, Table
from larc.studies.streams.names import CONTROLLER, KEEP, MODEL_FREE, RESET, SHAM
from larc.studies.streams.results import Answers, SetResults

#: Labels seen, in bins that grow: from each number to below the next.
EDGES = (0, 1, 3, 6, 10, 15, 22, 30, 45, 70, 100, 150, 250)


def by_labels_seen(answered: Answers) -> list[tuple[str, float, float, int]]:
    """Return for each bin of labels seen its name, their mean, the mean loss and its answers.

    Within a bin streams weigh equally.
    """
    scores = answered.scores["half-Brier"]
    scored = np.isfinite(scores).sum(0)
    losses = np.where(scored > 0, np.nansum(scores, 0) / np.maximum(scored, 1), np.nan)
    bins = []
    for low, high in zip(EDGES, (*EDGES[1:], np.inf), strict=True):
        inside = (answered.seen >= low) & (answered.seen < high) & np.isfinite(losses)
        streams = inside.any(1)
        if not streams.any():
            continue
        counts = inside.sum(1)[streams]
        means = np.where(inside, losses, 0.0).sum(1)[streams] / counts
        name = (
            f"{low}"
            if high == low + 1
            else f"{low} to {high - 1}"
            if high < np.inf
            else f"{low} on"
        )
        seen = float(answered.seen[inside].mean())
        bins.append((name, seen, float(means.mean()), int(inside.sum())))
    return bins


def shown_paths(one: SetResults) -> list[str]:
    """Return the paths that a figure shows: few enough to be told apart."""
    free = sorted(
        (path for path in MODEL_FREE if path in one.paths), key=lambda path: one.mean(path)
    )[:2]
    return [path for path in (RESET, KEEP, SHAM, *free, CONTROLLER) if path in one.paths]


def labels_seen_table(results: Sequence[SetResults]) -> Table:
    """Return the loss by how many labels of the stream had been seen."""
    rows: list[list[Cell]] = []
    for one in results:
        for path in shown_paths(one):
            for name, _, loss, count in by_labels_seen(one.paths[path]):
                rows.append([one.name, path, name, count, loss])
    return Table(
        "labels-seen",
        "Half-Brier loss by how many labels of the stream had arrived when a question was asked; "
        "seeds averaged, streams equal within a bin.",
        ("Data", "Path", "Labels seen", "Questions", "Half-Brier"),
        rows,
        digits=4,
    )


def figures(results: Sequence[SetResults]) -> list[Figure]:
    """Return the loss against labels seen, and what is compared with its intervals."""
    return [
        Figure(
            "labels-seen",
            "Half-Brier loss against how many labels of the stream had been seen when a question "
            "was asked; seeds averaged, streams equal within a point.",
            [_seen_chart(one) for one in results],
        ),
        Figure(
            "gains",
            "By how much everything else loses more than KEEP, over all questions: dots with 99 % "
            "intervals over streams. Right of the line KEEP is better.",
            [_gains_chart(one) for one in results],
        ),
    ]


def _seen_chart(one: SetResults) -> Lines:
    lines = []
    for path in shown_paths(one):
        bins = by_labels_seen(one.paths[path])
        lines.append(
            Line(
                _series(path),
                [1 + seen for _, seen, _, _ in bins],
                [loss for _, _, loss, _ in bins],
                labels=[f"{name} labels" for name, _, _, _ in bins],
            )
        )
    return Lines(one.name, "1 + labels seen", "Half-Brier loss", lines, points=True, log_x=True)


def _series(path: str) -> str:
    """Return a path as figures name it: usual paths keep their look."""
    return {RESET: "Reset", KEEP: "Keep", SHAM: "Permuted"}.get(path, path)


def _gains_chart(one: SetResults) -> Rows:
    values = []
    for path in one.whole():
        if path != KEEP:
            gain = one.contrast(path, KEEP)
            known = np.isfinite(gain.lower)
            ends = (gain.lower, gain.upper) if known else (None, None)
            values.append(Value(path, gain.mean, *ends))
    return Rows(one.name, "Half-Brier loss above KEEP", values, digits=4, reference=0, signed=True)
