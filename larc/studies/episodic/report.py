"""The report of an episodic run: its tables, its charts and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from larc.evaluation import weighted_mean
from larc.reporting.charts import Figure, Line, Lines, Rows, Value
from larc.reporting.report import Report
from larc.reporting.seeds import short_seed
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.episodic.names import FINAL_QUERIES
from larc.studies.episodic.results import CELLS, Contrast, EpisodicResults, load_results

CELL_NAMES = ("Real/keep", "Real/reset", "Sham/keep", "Sham/reset")
QUESTION = (
    "Does a frozen model choose better on unseen cases of a task when it keeps what feedback on "
    "other cases taught it, than when that is reset just before it is asked?"
)
NOTES = (
    "Static and adapted are starts trained on other tasks, to answer well before feedback and "
    "after it; the untrained start is random and changes nothing until it has learned.",
    "Keep reads the query with the state that learned from feedback; reset restores the trained "
    "start just before. G is the error at reset minus the error kept.",
    "Sham feedback deals the same losses to the candidates at random. D is the gain from real "
    "feedback minus the gain from sham: what is owed to what the feedback said.",
)
EXACT = (
    "Exact is a start trained to answer well after feedback by the gradient that goes through the "
    "learning steps."
)
WINDOW = 8
# A loss read in two batches differs by rounding.
ROUNDING = 1e-5


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    shown = tables(results)
    if run.is_done(FINAL_QUERIES):
        for table in tables(load_results(run, final=True)):
            caption = f"Final evaluation on reserved groups. {table.caption}"
            shown.append(replace(table, name=f"final-{table.name}", caption=caption))
    title = f"The {run.kind} study"
    notes = [note.replace("the error", f"the {results.what}") for note in NOTES]
    if "exact" in results.arms:
        notes.insert(1, EXACT)
    return Report(title, QUESTION, answer(results), shown, figures(results), notes)


def tables(results: EpisodicResults) -> list[Table]:
    """Return the study's tables, in percent, arms as rows."""
    return [
        _endpoint(results),
        _contrast_table(results),
        _controls(results),
        _secondary(results),
        *([_support(results)] if results.support else []),
    ]


def _endpoint(results: EpisodicResults) -> Table:
    rows: list[list[Cell]] = []
    for arm in results.arms:
        by_seed = results.scale * weighted_mean(results.risk[arm, "real_keep"], results.weights)
        deviation = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
        rows.append([arm.capitalize(), *map(float, by_seed), float(by_seed.mean()), deviation])
    return Table(
        "endpoint",
        f"Expected query {results.what} after adaptation to real feedback"
        f"{_in_percent(results)}; lower is better.",
        ("Objective", *map(short_seed, results.seeds), "Mean", "Seed SD"),
        rows,
    )


def _contrast_table(results: EpisodicResults) -> Table:
    rows: list[list[Cell]] = [
        [
            _capital(c.name),
            c.mean,
            c.interval,
            *map(float, c.seeds),
        ]
        for c in results.contrasts
    ]
    return Table(
        "contrasts",
        f"Paired gains in {results.gains}; positive is favourable. {_intervals(results)}. "
        f"{results.selection.reason}",
        ("Contrast", "Mean", "99 % interval", *map(short_seed, results.seeds)),
        rows,
    )


def _controls(results: EpisodicResults) -> Table:
    rule, even = (
        None if errors is None else results.scale * results.mean(errors)
        for errors in (results.rule, results.even)
    )
    caption = (
        f"Expected query {results.what}{_in_percent(results, ' in %')}. Text renders the feedback "
        "in the prompt at the slow state"
    )
    if even is not None:
        caption += (
            "; Rule takes the candidate with the lowest support loss, the first of equals; with "
            f"the same chance for equals its {results.what} is {even:.2f}{results.unit}"
        )
    rows: list[list[Cell]] = []
    for arm in results.arms:
        risks = [results.scale * results.mean(results.risk[arm, cell]) for cell in CELLS]
        text = results.risk.get((arm, "text"))
        rows.append(
            [
                arm.capitalize(),
                *risks,
                None if text is None else results.scale * results.mean(text),
                rule,
            ]
        )
    return Table(
        "controls",
        f"{caption}.",
        ("Objective", *CELL_NAMES, "Text", "Rule"),
        rows,
    )


def _secondary(results: EpisodicResults) -> Table:
    what = results.what
    rows: list[list[Cell]] = [
        [
            arm.capitalize(),
            name,
            results.scale * results.mean(results.risk[arm, cell]),
            results.scale * results.mean(results.greedy[arm, cell]),
            100 * results.mean(results.solved[arm, cell]),
        ]
        for arm in results.arms
        for cell, name in (("real_reset", "Reset"), ("real_keep", "Adapted state"))
    ]
    return Table(
        "secondary",
        f"The most probable candidate: its {what}, and how often it passes every query, in %.",
        (
            *("Objective", "Read state", f"Expected {what}", f"Greedy {what}"),
            "All queries correct",
        ),
        rows,
    )


def _support(results: EpisodicResults) -> Table:
    rows: list[list[Cell]] = []
    for arm in results.arms:
        for feedback, name in (("real", "Real"), ("sham", "Sham")):
            before = results.support[arm, f"{feedback}_reset"]
            after = results.support[arm, f"{feedback}_keep"]
            means = (results.scale * results.mean(before), results.scale * results.mean(after))
            raised = int((after > before + ROUNDING).sum())
            rows.append([arm.capitalize(), name, after.size, *means, raised])
    return Table(
        "support",
        f"Expected {results.what} on the support itself{_in_percent(results)}, before and after "
        f"learning, and the episodes in which it rose by more than {ROUNDING:g}, which rounding "
        "can be. It is read again from the saved probabilities. Under sham feedback "
        "what was learned is not what is true.",
        ("Objective", "Feedback", "Episodes", "Before", "After", "Raised"),
        rows,
    )


def figures(results: EpisodicResults) -> list[Figure]:
    """Return the result in two panels, the training curves, and every group's adaptation."""
    several = len(results.seeds) > 1
    first = (
        "after adaptation to real feedback; a line joins the arms of one seed."
        if several
        else "with the state reset (hollow) and kept (filled), after real and after sham feedback."
    )
    drawn = [
        Figure(
            "result",
            f"{'Errors' if results.fractions else 'Losses'} are of queries {first} Gains have "
            "their 99 % intervals over groups. G: reset minus kept; D: the gain "
            "from real feedback minus the gain from sham.",
            [
                _endpoint_chart(results) if several else _kept_chart(results),
                _contrast_chart(results),
            ],
        )
    ]
    if any(results.curves.values()):
        drawn.append(
            Figure(
                "curves",
                f"Slow training: the mean query loss of {WINDOW} updates, and faintly of each.",
                [_curve_chart(results)],
            )
        )
    caption = f"What real feedback did to the {results.what} of each group, seeds averaged."
    return [*drawn, Figure("groups", caption, _group_charts(results))]


def _endpoint_chart(results: EpisodicResults) -> Lines:
    arms = [arm for arm in results.arms if arm != "untrained"] or list(results.arms)
    # Rows are seeds, columns arms.
    risks = [weighted_mean(results.risk[arm, "real_keep"], results.weights) for arm in arms]
    error = results.scale * np.array(risks).T
    places = list(range(len(arms)))
    lines = [
        Line("", places, errors.tolist(), note=short_seed(seed))
        for seed, errors in zip(results.seeds, error, strict=True)
    ]
    if len(lines) > 1:
        lines.append(Line("", places, error.mean(0).tolist(), note="mean", dashed=True))
    return Lines(
        "Error after adaptation, by seed",
        "",
        _axis(results),
        lines,
        digits=1,
        names=[arm.capitalize() for arm in arms],
        points=True,
    )


def _kept_chart(results: EpisodicResults) -> Rows:
    values = [
        Value(
            f"{arm.capitalize()}, {feedback}",
            results.scale * results.mean(results.risk[arm, f"{feedback}_keep"]),
            start=results.scale * results.mean(results.risk[arm, f"{feedback}_reset"]),
            series=arm.capitalize(),
        )
        for arm in results.arms
        for feedback in ("real", "sham")
    ]
    label = f"{_axis(results)}: hollow reset, filled kept"
    return Rows("Kept against reset", label, values, digits=1)


def _contrast_chart(results: EpisodicResults) -> Rows:
    values = [
        Value(
            _capital(contrast.name),
            contrast.mean,
            contrast.lower,
            contrast.upper,
            series=contrast.name.rpartition(" ")[0].capitalize(),
        )
        for contrast in results.contrasts
    ]
    label = f"Gain ({results.gains}), 99 % interval"
    return Rows("Gains over groups", label, values, digits=1, reference=0.0, signed=True)


def _curve_chart(results: EpisodicResults) -> Lines:
    lines = []
    for (arm, seed), curve in results.curves.items():
        updates = list(range(1, len(curve) + 1))
        name = arm.capitalize()
        lines.append(Line(name, updates, list(curve), note=short_seed(seed), faint=True))
        lines.append(Line(name, updates, smoothed(curve), note=short_seed(seed)))
    return Lines(
        "Training",
        "Slow update",
        "Query loss" + (" (expected error, 0–1)" if results.fractions else ""),
        lines,
    )


def smoothed(curve: Sequence[float]) -> list[float]:
    """Return the mean of each value and up to ``WINDOW - 1`` before it.

    Examples
    --------
    >>> smoothed([2.0, 4.0])
    [2.0, 3.0]
    """
    parts = [curve[max(0, end - WINDOW) : end] for end in range(1, len(curve) + 1)]
    return [float(np.mean(part)) for part in parts]


def _group_charts(results: EpisodicResults) -> list[Rows]:
    members: dict[str, dict[str, list[int]]] = {}
    for task, (family, group) in enumerate(zip(results.families, results.groups, strict=True)):
        members.setdefault(family, {}).setdefault(group, []).append(task)

    def error(arm: str, cell: str, tasks: list[int]) -> float:
        return results.scale * float(results.risk[arm, cell][:, tasks].mean())

    return [
        Rows(
            family.capitalize(),
            f"{_axis(results)}: hollow reset, filled kept",
            [
                Value(
                    group.removeprefix(f"{family}/"),
                    error(arm, "real_keep", tasks),
                    start=error(arm, "real_reset", tasks),
                    series=arm.capitalize(),
                )
                for group, tasks in groups.items()
                for arm in results.arms
            ],
            digits=1,
        )
        for family, groups in members.items()
    ]


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def answer(results: EpisodicResults) -> str:
    """Say in one sentence whether keeping what feedback taught helped."""
    trained = [arm for arm in results.arms if arm != "untrained"] or list(results.arms)
    best = min(trained, key=lambda arm: results.mean(results.risk[arm, "real_keep"]))
    gain = next(c for c in results.contrasts if c.name == f"{best} G")
    keep = results.scale * results.mean(results.risk[best, "real_keep"])
    reset = results.scale * results.mean(results.risk[best, "real_reset"])
    points = " points" if results.fractions else ""
    return (
        f"Keeping what feedback taught {_verdict(gain)}: with the {best} start, expected query "
        f"{results.what} was {keep:.2f}{results.unit} kept and {reset:.2f}{results.unit} reset, "
        f"a gain of {gain.mean:.2f}{points} ({gain.told})."
    )


def _verdict(gain: Contrast) -> str:
    if gain.lower is None or gain.upper is None:
        return "cannot be judged"
    return "helped" if gain.lower > 0 else "hurt" if gain.upper < 0 else "made no sure difference"


def _in_percent(results: EpisodicResults, text: str = ", in %") -> str:
    return text if results.fractions else ""


def _axis(results: EpisodicResults) -> str:
    return f"Expected query {results.what}{' (%)' if results.fractions else ''}"


def _intervals(results: EpisodicResults) -> str:
    groups = len(set(results.groups))
    if any(contrast.interval is None for contrast in results.contrasts):
        return f"No intervals: {groups} groups are too few, or one of each family"
    return f"Intervals: 99 %, {results.resamples:,} resamples of {groups} groups within families"
