"""The report of a prefix intervention: its tables, its three-panel figure and its answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from larc.evaluation import weighted_mean
from larc.io.times import iso_time
from larc.reporting.charts import Figure, Rows, Value
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row, short_seed
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.prefix.results import (
    ACTIVE,
    HEDGE,
    RESET,
    ROUNDING,
    Array,
    Crossing,
    PrefixResults,
    label_counts,
    load_results,
    raised,
)
from larc.studies.prefix.units import WATCHED

QUESTION = (
    "Where keeping online updates hurts, is it because each update is too large, or because "
    "updates add up?"
)
NOTES = (
    "CARRY keeps what every batch of feedback taught, LATEST starts from the trained state before "
    "each batch, RESET learns nothing. 1 applies each update as it is, TENTH a tenth of the "
    "difference it makes to the factors. All read prompts with memory.",
    "This looks again at a queue that was observed before. CARRY_1 and RESET gave the run's own "
    "P1M1 and P0M1 again, bit for bit; HEDGE4 is taken from the run.",
)
SHOWN = {"Reset": "P0M1", "Keep": "P1M1", "Permuted": "PERM_M1", "HEDGE4": HEDGE}
# A batch of a higher cross-entropy is one the state did not expect.
SURPRISING = 1.0
ORIGINAL, SMALLER = "Original update", "A tenth of it"


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    title = "The prefix intervention" + (" (synthetic jobs)" if results.synthetic else "")
    shown = [
        _losses(results),
        _effects(results),
        _first(results),
        _updates(results),
        _crossings(results),
        _population(results),
    ]
    return Report(title, QUESTION, answer(results), shown, [_figure(results)], NOTES)


def answer(results: PrefixResults) -> str:
    """Say in one sentence what a tenth of each carried update did, and what updates did at all."""
    scores = {path: float(by_seed.mean()) for path, by_seed in results.scores.items()}
    updates, higher = len(results.made("CARRY_1")), raised(results.made("CARRY_1"))
    rule = "meets" if results.verdict.success else "fails"
    return (
        f"On the first {int(results.inside.sum()):,} jobs, half-Brier loss was "
        f"{scores['CARRY_1']:.4f} with carried updates and {scores['CARRY_TENTH']:.4f} with a "
        f"tenth of each, a gain of {results.verdict.mean:.4f} that {rule} the rule; reset had "
        f"{scores[RESET]:.4f}, HEDGE4 {scores[HEDGE]:.4f}, and {higher:,} of {updates:,} carried "
        f"updates raised the loss of their own batch by more than {ROUNDING:g}."
    )


def _losses(results: PrefixResults) -> Table:
    jobs = int(results.inside.sum())
    return Table(
        "prefix",
        f"Half-Brier loss on the prefix, {jobs:,} of {len(results.jobs):,} audit jobs, with the "
        "weights of the whole audit restricted to it within each repository. CARRY_1 minus "
        f"CARRY_TENTH: {results.verdict.reason}",
        seed_columns(results.seeds, "Update path"),
        [seed_row(results.scores[path], path) for path in (*ACTIVE, RESET, HEDGE)],
        digits=4,
    )


def gains(score: Mapping[str, Array]) -> dict[str, Array]:
    """Return the gains that are asked about by name, from the loss of each path by seed.

    Examples
    --------
    >>> losses = dict.fromkeys((*ACTIVE, RESET, HEDGE), np.array([0.25]))
    >>> gains({**losses, "CARRY_1": np.array([0.5])})["Smaller carried update"]
    array([0.25])
    """
    pairs = {
        "Smaller carried update": ("CARRY_1", "CARRY_TENTH"),
        "History removed, original update": ("CARRY_1", "LATEST_1"),
        "History removed, a tenth": ("CARRY_TENTH", "LATEST_TENTH"),
    }
    pairs |= {f"{path} over RESET": (RESET, path) for path in ACTIVE}
    pairs |= {f"{path} over HEDGE4": (HEDGE, path) for path in (*ACTIVE, RESET)}
    return {name: score[a] - score[b] for name, (a, b) in pairs.items()}


def _effects(results: PrefixResults) -> Table:
    return Table(
        "effects",
        "Gains in half-Brier loss on the prefix by seed; positive is favourable. Whether a smaller "
        "carried update helps is the comparison that the rule is about.",
        seed_columns(results.seeds, "Gain"),
        [seed_row(gain, name) for name, gain in gains(results.scores).items()],
        digits=4,
    )


def _first(results: PrefixResults) -> Table:
    rows: list[list[Cell]] = []
    for repository in results.repositories:
        for seed in results.seeds:
            whole = results.first("CARRY_1", repository, seed)
            tenth = results.first("CARRY_TENTH", repository, seed)
            if whole is None or tenth is None:
                continue
            batch = [
                job
                for job in results.jobs
                if (job.repository, job.arrives) == (repository, whole["time"])
            ]
            numbers = (whole["before"], whole["after"], tenth["after"], whole["increment"])
            rows.append([repository, label_counts(batch), short_seed(seed), *numbers])
    return Table(
        "first",
        "Cross-entropy on each repository's first batch of feedback, before and after the update, "
        "and the norm of the original increment over both factors.",
        (
            *("Repository", "Labels", "Seed"),
            *("Before update", "Original increment", "Tenth increment", "Original increment norm"),
        ),
        rows,
        digits=6,
    )


def _updates(results: PrefixResults) -> Table:
    rows: list[list[Cell]] = []
    for path in (*ACTIVE, *WATCHED.values()):
        updates = results.made(path)
        if not updates:  # the run had no such path
            continue
        before, after, moved = (
            np.array([row[name] for row in updates]) for name in ("before", "after", "increment")
        )
        surprising = [row for row in updates if row["before"] > SURPRISING]
        counts = (len(updates), raised(updates), len(surprising), raised(surprising))
        means = (float(before.mean()), float(after.mean()), float(moved.mean()))
        rows.append([path, *counts, *means, float(moved.max())])
    return Table(
        "updates",
        "Every update on the batch it learned from, all seeds and repositories: how many, how many "
        f"raised the batch's cross-entropy (by more than {ROUNDING:g}, which rounding can be), the "
        f"same of surprising batches, whose cross-entropy was above {SURPRISING:g}, the mean "
        "before and after, and the norm of the increment over both factors. DESCENT is the run's "
        "carried path of the descending rule; its loss is measured here as the others' is.",
        (
            *("Update path", "Updates", "Raised", "Surprising", "Raised of those"),
            *("Loss before", "Loss after", "Increment", "Largest increment"),
        ),
        rows,
        digits=4,
    )


def _crossings(results: PrefixResults) -> Table:
    def cells(crossing: Crossing | None) -> list[Cell]:
        return (
            [crossing.batches, crossing.jobs, iso_time(crossing.time)]
            if crossing
            else [None, None, None]
        )

    rows: list[list[Cell]] = [
        [
            repository,
            short_seed(seed),
            *cells(results.crossing(repository, seed, local=False)),
            *cells(results.crossing(repository, seed, local=True)),
        ]
        for repository in results.repositories
        for seed in results.seeds
    ]
    return Table(
        "crossings",
        "When the original carried state's gain over reset first fell below -0.01 in the whole "
        "audit: over all jobs asked so far, and over the jobs asked at one time. Batches are those "
        "of feedback that had arrived by then.",
        (
            *("Repository", "Seed", "Batches", "Jobs so far", "Time"),
            *("Batches (local)", "Jobs (local)", "Time (local)"),
        ),
        rows,
    )


def _population(results: PrefixResults) -> Table:
    rows: list[list[Cell]] = []
    for repository in results.repositories:
        jobs = [job for job in results.jobs if job.repository == repository]
        chosen = [
            job
            for job, early in zip(results.jobs, results.inside, strict=True)
            if early and job.repository == repository
        ]
        touched = {job.commit for job in chosen}
        complete = touched - {job.commit for job in set(jobs) - set(chosen)}
        arrived = results.arrived(repository)
        batches = len({job.arrives for job in arrived})
        counts = (len(jobs), len(chosen), len(touched), len(complete), len(arrived), batches)
        last = iso_time(max(job.asked for job in chosen))
        rows.append([repository, *counts, len(chosen) - len(arrived), last])
    return Table(
        "population",
        "What the prefix holds: jobs, the commits it touches and has all of, and the labels that "
        "arrived before its last job was asked.",
        (
            *("Repository", "Audit jobs", "Prefix jobs", "Commits", "Complete", "Labels"),
            *("Batches", "Pending", "Last asked"),
        ),
        rows,
    )


def _figure(results: PrefixResults) -> Figure:
    jobs = int(results.inside.sum())
    return Figure(
        "online",
        f"Three views of online learning. (a) Half-Brier loss on the whole audit of "
        f"{len(results.jobs):,} jobs, mean of seeds; lines reach from the lowest seed to the "
        "highest. (b) What the first update did to the cross-entropy of its own batch: right of "
        f"zero it was raised. (c) Half-Brier loss on the {jobs:,} jobs of the prefix: carried "
        "updates minus a tenth of each, by seed.",
        [_replay_chart(results), _first_chart(results), _rule_chart(results)],
        columns=3,
    )


def _replay_chart(results: PrefixResults) -> Rows:
    values = []
    for name, path in SHOWN.items():
        by_seed = weighted_mean(results.replay[path], results.whole())
        mean, lower, upper = (float(f(by_seed)) for f in (np.mean, np.min, np.max))
        values.append(Value(name, mean, lower, upper))
    return Rows("(a) Whole audit", "Half-Brier loss", values, digits=3)


def _first_chart(results: PrefixResults) -> Rows:
    values = []
    for repository in results.repositories:
        for seed in results.seeds:
            for path, series in (("CARRY_1", ORIGINAL), ("CARRY_TENTH", SMALLER)):
                row = results.first(path, repository, seed)
                if row is not None:
                    name = f"{repository.rpartition('/')[2]} {short_seed(seed)}"
                    values.append(Value(name, row["after"] - row["before"], series=series))
    label = "Change in cross-entropy"
    return Rows("(b) First batch", label, values, digits=2, reference=0.0, signed=True)


def _rule_chart(results: PrefixResults) -> Rows:
    gains = results.verdict.gains
    values = [
        Value(short_seed(seed), gain) for seed, gain in zip(results.seeds, gains, strict=True)
    ]
    if len(gains) > 1:
        values.append(Value("Mean", results.verdict.mean))
    label = "CARRY_1 − CARRY_TENTH"
    return Rows("(c) Prefix", label, values, digits=3, reference=0.0, signed=True)
