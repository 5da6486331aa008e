"""The report of a stream run: half-Brier by path and weighting, effects, accuracy, calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import (
    all_correct,
    expected_calibration_error,
    half_brier,
    nested_weights,
    reliability,
    weighted_mean,
)
from larc.reporting.charts import Figure, reliability_chart
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.replay_tables import predicted_rows, updates_table
from larc.studies.stream.settings import SYNTHETIC

Array = NDArray[np.float64]
PATHS = ("RESET", "CARRY", "LATEST", "PERM", "UNTRAINED", "PRIOR")
CONTRASTS = {
    "G: RESET minus CARRY": ("RESET", "CARRY"),
    "D: PERM minus CARRY": ("PERM", "CARRY"),
    "LATEST minus CARRY": ("LATEST", "CARRY"),
    "RESET minus LATEST": ("RESET", "LATEST"),
    "UNTRAINED minus CARRY": ("UNTRAINED", "CARRY"),
    "PRIOR minus CARRY": ("PRIOR", "CARRY"),
    "PRIOR minus RESET": ("PRIOR", "RESET"),
}
QUESTION = (
    "Are questions of a stream answered better when what late labels taught is carried on, than "
    "when every question is read with the trained start?"
)
NOTES = (
    "RESET reads the trained start and learns nothing; CARRY keeps what every batch of labels "
    "taught; LATEST learns from the latest batch alone; PERM carries what permuted labels taught; "
    "UNTRAINED carries from the start before training.",
    "PRIOR needs no model: how often each candidate was right among the labels that had arrived in "
    "its stream, with one added to every count.",
    "No answer used a label that had not arrived when its question was asked.",
)


@dataclass(frozen=True, eq=False)
class StreamResults:
    """Predictions ``[seeds, items, candidates]`` by path, and what is needed to score them.

    Items with fewer candidates than others have zeros in place of the rest.
    """

    seeds: tuple[int, ...]
    streams: tuple[str, ...]
    groups: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    policy: dict[str, Array]
    loss: dict[str, Array]
    weights: dict[str, Array]
    synthetic: bool

    @property
    def primary(self) -> Array:
        """Streams equally, groups within them, items within those."""
        return next(iter(self.weights.values()))

    def scores(self, path: str) -> Array:
        """Return a path's half-Brier loss by seed."""
        return weighted_mean(self.loss[path], self.primary)


def load_results(run: Run) -> StreamResults:
    """Read a run's saved predictions and score them."""
    seeds = tuple(run.settings["seeds"])
    # Questions without a label were asked, and are left out of every score.
    rows = [row for row in predicted_rows(run) if row["label"] is not None]
    asked = {(r["stream"], r["name"]): r for r in rows}
    keys = sorted(asked)
    labels = np.array([asked[key]["label"] for key in keys])
    widest = max(len(row["policy"]) for row in asked.values())
    policies = {(r["seed"], r["path"], r["stream"], r["name"]): r["policy"] for r in rows}
    policy = {}
    for path in PATHS:
        table = np.zeros((len(seeds), len(keys), widest))
        for number, seed in enumerate(seeds):
            for column, key in enumerate(keys):
                probabilities = policies[seed, path, *key]
                table[number, column, : len(probabilities)] = probabilities
        policy[path] = table
    streams = tuple(stream for stream, _ in keys)
    names = tuple(name for _, name in keys)
    groups = tuple(asked[key]["group"] for key in keys)
    pairs = list(zip(streams, groups, strict=True))
    return StreamResults(
        seeds,
        streams,
        groups,
        names,
        labels,
        policy,
        {
            path: np.stack([half_brier(probabilities, labels) for probabilities in policy[path]])
            for path in PATHS
        },
        {
            "Stream, group, item": nested_weights(streams, groups, keys),
            "Group, item": nested_weights(pairs, keys),
            "Item": nested_weights(keys),
        },
        run.settings["events"] == SYNTHETIC,
    )


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    title = "The stream study" + (" (synthetic questions)" if results.synthetic else "")
    shown = [
        _replay(results),
        _effects(results),
        _weightings(results),
        _accuracy(results),
        _calibration(results),
        _streams(results),
        _questions(run),
        updates_table(run),
    ]
    return Report(title, QUESTION, answer(results), shown, [_reliability(results)], NOTES)


def _what(results: StreamResults) -> str:
    return "a synthetic stream" if results.synthetic else "this stream"


def _replay(results: StreamResults) -> Table:
    groups = len(set(zip(results.streams, results.groups, strict=True)))
    return Table(
        "replay",
        f"Half-Brier loss on {_what(results)}, {len(results.names)} questions of {groups} groups "
        f"in {len(set(results.streams))} streams; streams, groups and questions weigh equally. "
        "Lower is better.",
        seed_columns(results.seeds, "Path"),
        [seed_row(results.scores(path), path) for path in PATHS],
        digits=4,
    )


def _effects(results: StreamResults) -> Table:
    return Table(
        "effects",
        "Differences of half-Brier loss by seed; positive is favourable to what comes second.",
        seed_columns(results.seeds, "Contrast"),
        [
            seed_row(results.scores(first) - results.scores(second), name)
            for name, (first, second) in CONTRASTS.items()
        ],
        digits=4,
    )


def _weightings(results: StreamResults) -> Table:
    return Table(
        "weightings",
        "Half-Brier loss under three weightings: what is named weighs equally within what is named "
        "before it.",
        seed_columns(results.seeds, "Equal", "Path"),
        [
            seed_row(weighted_mean(results.loss[path], weights), name, path)
            for name, weights in results.weights.items()
            for path in PATHS
        ],
        digits=4,
    )


def _accuracy(results: StreamResults) -> Table:
    wrong = 1.0 - np.eye(results.policy[PATHS[0]].shape[-1])[results.labels]
    rows = []
    for path in PATHS:
        right = weighted_mean(
            [all_correct(policy, wrong) for policy in results.policy[path]], results.primary
        )
        rows.append(seed_row(100 * right, path))
    return Table(
        "accuracy",
        "How often the most probable candidate is right, the first of equals, in %.",
        seed_columns(results.seeds, "Path"),
        rows,
    )


def _calibration(results: StreamResults) -> Table:
    rows = []
    for path in PATHS:
        errors = [
            expected_calibration_error(reliability(policy, results.labels, weights=results.primary))
            for policy in results.policy[path]
        ]
        rows.append(seed_row(np.array(errors), path))
    return Table(
        "calibration",
        "Expected calibration error of the most probable candidate, ten bins.",
        seed_columns(results.seeds, "Path"),
        rows,
        digits=4,
    )


def _streams(results: StreamResults) -> Table:
    rows: list[list[Cell]] = []
    streams = np.array(results.streams)
    for stream in sorted(set(results.streams)):
        members = streams == stream
        weights = results.primary[members] / results.primary[members].sum()
        losses = [results.loss[path][:, members] for path in PATHS]
        scores = [float(weighted_mean(loss, weights).mean()) for loss in losses]
        groups = {g for g, inside in zip(results.groups, members, strict=True) if inside}
        rows.append([stream, int(members.sum()), len(groups), *scores])
    return Table(
        "streams",
        "Half-Brier loss by stream, groups and questions weighed equally, seeds averaged.",
        ("Stream", "Questions", "Groups", *PATHS),
        rows,
        digits=4,
    )


def _questions(run: Run) -> Table:
    counts = run.evidence()[0]["counts"]
    sentences = {
        "training": "Trained on: labels that arrived before the audit",
        "late": "Asked before the audit, labels that arrived in it",
        "unanswered": "Asked before the audit, labels that never arrive",
        "shared": "Left out: groups with questions before and in the audit",
        "audit": "Predicted and scored",
        "unlabelled": "Predicted and in no score: no label will come",
    }
    rows: list[list[Cell]] = [
        [sentence, counts[name]] for name, sentence in sentences.items() if name in counts
    ]
    return Table(
        "questions",
        "Every question that was read.",
        ("Questions", "Count"),
        [*rows, ["All", sum(counts.values())]],
    )


def _reliability(results: StreamResults) -> Figure:
    # Seeds are pooled: each answer of each seed is one prediction.
    labels, weights = (
        np.tile(values, len(results.seeds)) for values in (results.labels, results.primary)
    )
    bins = {
        path: reliability(np.concatenate(list(results.policy[path])), labels, weights=weights)
        for path in ("RESET", "CARRY", "PERM", "PRIOR")
    }
    return Figure(
        "reliability",
        "How often the most probable candidate is right against its probability, seeds pooled; a "
        "point's area is its share of the weight.",
        [reliability_chart("Most probable candidate", bins)],
    )


def answer(results: StreamResults) -> str:
    """Say in one sentence whether carrying on what late labels taught helped."""
    reset, carry, prior = (float(results.scores(p).mean()) for p in ("RESET", "CARRY", "PRIOR"))
    verb = "lowered" if carry < reset else "raised"
    return (
        f"On {_what(results)}, carrying on what late labels taught {verb} half-Brier loss from "
        f"{reset:.4f} (reset) to {carry:.4f}; label frequencies alone, without a model, have "
        f"{prior:.4f}."
    )
