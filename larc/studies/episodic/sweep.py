"""The report of a sweep of an episodic study: one row per combination of settings."""

from __future__ import annotations

import numpy as np

from larc.reporting import cost
from larc.reporting.charts import Figure, Line, Lines, Rows, Value
from larc.reporting.report import Report
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.episodic.names import prediction_name
from larc.studies.episodic.results import Contrast, EpisodicResults, less_error, load_results
from larc.studies.sweep import variations

Spent = dict[str, list[tuple[float, float, str]]]


def report(sweep: Run) -> Report:
    """Return the report of a sweep of an episodic study."""
    varied = sweep.settings["varied"]
    rows: list[list[Cell]] = []
    gains: list[Value] = []
    # What an episode's feedback took, error and name, by series: evaluations, then milliseconds.
    spent: tuple[Spent, Spent] = ({}, {})
    best: tuple[float, str, Contrast] | None = None
    first: EpisodicResults | None = None
    for values, run in variations(sweep):
        results = load_results(run)
        first = first or results
        named = {contrast.name: contrast for contrast in results.contrasts}
        done = [row["effective"] for row in cost.ledger(run) if row["kind"] in ("mixer", "below")]
        chosen = ", ".join(f"{name} {value}" for name, value in zip(varied, values, strict=True))
        for arm in results.arms:
            gain, binding = named[f"{arm} G"], named[f"{arm} D"]
            keep, reset = (_error(results, arm, cell) for cell in ("real_keep", "real_reset"))
            took = _feedback_cost(run, arm, results)
            better = None if results is first else less_error(first, results, arm)
            contrasts = [cell for one in (better, gain, binding) for cell in _cells(one)]
            rows.append([*values, arm, keep, reset, *contrasts, sum(done), *took])
            series = arm.capitalize()
            gains.append(Value(chosen, gain.mean, gain.lower, gain.upper, series=series))
            for by_series, much in zip(spent, took, strict=True):
                by_series.setdefault(series, []).append((much, keep, ", ".join(values)))
            if best is None or keep < best[0]:
                best = (keep, f"{chosen}, {arm} start", gain)
    assert best is not None  # a sweep has a combination, and that has an arm
    assert first is not None
    error, name, gain = best
    percent = " in %" if first.fractions else ""
    table = Table(
        "sweep",
        f"Expected query {first.what}{percent}, kept and reset; how much lower the kept one is "
        "than that of the first combination, paired by group, and the gains G and D, "
        f"in {first.gains} with 99 % intervals over groups; positions that the whole run put "
        "through layers, and what feedback took for one episode: evaluations of it by the model, "
        "and milliseconds, which are those of the machine and the day.",
        (
            *(*varied, "Arm", "Keep", "Reset", "Lower than the first", "Its interval"),
            *("G", "G interval", "D", "D interval", "Positions", "Evaluations", "ms"),
        ),
        rows,
    )
    label = f"G ({first.gains}), 99 % interval"
    chart = Rows("Gain from keeping", label, gains, digits=1, reference=0.0, signed=True)
    by_cost = [
        Lines(
            f"{first.what.capitalize()} against {title}",
            label,
            f"{first.what.capitalize()} after feedback{' (%)' if first.fractions else ''}",
            [_by_cost(series, sorted(points)) for series, points in by_series.items()],
            digits=1,
            points=True,
        )
        for by_series, title, label in zip(
            spent,
            ("evaluations", "time"),
            ("Evaluations of an episode's feedback", "Milliseconds of feedback for an episode"),
            strict=True,
        )
        # Where every combination takes as much, there is nothing to see.
        if len({much for points in by_series.values() for much, _, _ in points}) > 1
    ]
    caption = f"What it took: each {' and '.join(varied)} by the cost of feedback."
    return Report(
        f"A sweep of the {sweep.settings['study']} study",
        f"How does what feedback teaches depend on {' and '.join(varied)}?",
        f"The lowest {first.what} after feedback, {error:.2f}{first.unit}, was with {name}: a gain "
        f"of {gain.mean:.2f}{' points' if first.fractions else ''} over reset ({gain.told}).",
        [table],
        [
            Figure("gains", "What keeping was worth, for each combination and arm.", [chart]),
            *([Figure("cost", caption, by_cost)] if by_cost else []),
        ],
        notes=[
            "The combination was chosen after looking at all of them, so its own figure is a "
            "little too good; the final evaluation of its run is not."
        ],
    )


def _cells(contrast: Contrast | None) -> list[Cell]:
    if contrast is None:
        return [None, None]
    return [contrast.mean, contrast.interval]


def _feedback_cost(run: Run, arm: str, results: EpisodicResults) -> tuple[float, float]:
    """Return what one episode's feedback took: evaluations if real, milliseconds of real and sham.

    A unit of before evaluations were kept made one for each step.
    """
    units = [prediction_name(arm, seed) for seed in results.seeds]
    measured = [unit for unit in units if run.unit_has(unit, "feedback.json")]
    counts = [run.unit_json(unit, "feedback.json")["evaluations"] for unit in measured]
    counts = counts or [[run.settings["inner_steps"]]]
    episodes = 2 * len(results.names) * len(results.seeds)
    time = cost.milliseconds(run, units, "support") / episodes
    return float(np.mean(counts)), time


def _by_cost(series: str, points: list[tuple[float, float, str]]) -> Line:
    spent, errors, names = zip(*points, strict=True)
    return Line(series, spent, errors, labels=names)


def _error(results: EpisodicResults, arm: str, cell: str) -> float:
    return results.scale * results.mean(results.risk[arm, cell])
