"""The report of a synthesis run: success against judge calls."""

from __future__ import annotations

import numpy as np

from larc.reporting.charts import Figure, Line, Lines, Rows, Value
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.synthesis.results import FEWEST_GROUPS, SynthesisResults, load_results

QUESTION = (
    "With a bounded number of calls of the judge, are more problems solved when the state learns "
    "from the losses of what the model itself wrote?"
)
SAYS = {
    "LEARN": "learns from the losses of each round and keeps it",
    "RESET": "starts every round from the same start: the best of n",
    "SHAM": "learns from the same losses, dealt at random",
    "HOT": "RESET at a higher temperature",
    "TEXT": "RESET with the best programs so far and their losses in the prompt",
    "UNTRAINED": "RESET from the untrained start: the model itself",
    "UNTRAINED-LEARN": "LEARN from the untrained start",
    "EVOLUTION": "changes the best programs at random, without a model",
    "ENUMERATION": "tries programs in order of length, without a model",
}
NOTES = (
    "Every condition may ask the judge about equally many texts, never about one text twice, and "
    "stops at the first that is right on all its examples. A problem is solved if that text is "
    "right on everything kept back too.",
    f"Intervals are over groups, families weighed equally; with fewer than {FEWEST_GROUPS} groups "
    "in a family there are none.",
)


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    tables = [_success(results), _contrasts(results), _kinds(results), _seeds(results)]
    tables += [_ends(results)]
    title = "The synthesis study" + (
        " (Python functions)" if run.settings["domain"] == "functions" else ""
    )
    return Report(title, QUESTION, answer(results), tables, [_curve(results)], NOTES)


def answer(results: SynthesisResults) -> str:
    """Return the answer in one sentence or two."""
    calls, every = results.calls, results.of_kind()
    solved = {name: results.solved(name, calls) for name in results.conditions}
    learn, reset, gain, sham = results.interval(
        [
            solved["LEARN"],
            solved["RESET"],
            solved["LEARN"] - solved["RESET"],
            solved["LEARN"] - solved["SHAM"],
        ],
        every,
    )
    ratio = f", {learn.estimate / reset.estimate:.2f} times as many" if reset.estimate else ""
    if gain.lower is None:
        surely = "too few groups for an interval"
    else:
        surely = f"99 % interval over groups {gain.text}"
    others = [name for name in ("EVOLUTION", "ENUMERATION") if name in solved]
    beside = [
        f"{name} {value.estimate:.1f} %"
        for name, value in zip(
            others, results.interval([solved[name] for name in others], every), strict=True
        )
    ]
    return (
        f"With {calls} calls LEARN solves {learn.estimate:.1f} % and RESET {reset.estimate:.1f} %"
        f"{ratio}: {gain.estimate:+.1f} points ({surely}); {sham.estimate:+.1f} points over SHAM. "
        f"Without a model: {', '.join(beside)}."
    )


def _budgets(results: SynthesisResults) -> list[int]:
    """Return the numbers of calls that tables show: halves of the whole budget.

    They end with the budget itself.
    """
    halves = [results.calls // 2**power for power in range(4)]
    return sorted({calls for calls in halves if calls})


def _success(results: SynthesisResults) -> Table:
    budgets = _budgets(results)
    rows: list[list[Cell]] = []
    for name in results.conditions:
        shown = results.interval(
            [results.solved(name, calls) for calls in budgets], results.of_kind()
        )
        rows.append([name, SAYS[name], *(one.estimate for one in shown), shown[-1].text])
    return Table(
        "success",
        f"Problems solved after so many judge calls, in %: {len(results.names)} problems of "
        f"{len(set(results.groups))} groups, {len(results.seeds)} seeds; the last column is the "
        "99 % interval over groups at the whole budget.",
        ("Condition", "What it does", *map(str, budgets), "Interval"),
        rows,
        digits=1,
    )


def _contrasts(results: SynthesisResults) -> Table:
    rows: list[list[Cell]] = []
    budgets = _budgets(results)
    for other in results.conditions:
        if other == "LEARN":
            continue
        gains = [results.solved("LEARN", c) - results.solved(other, c) for c in budgets]
        shown = results.interval(gains, results.of_kind())
        rows.append([f"LEARN minus {other}", *(one.estimate for one in shown), shown[-1].text])
    return Table(
        "contrasts",
        "Differences of the problems solved, in percentage points, paired by problem; below zero "
        "the other one solves more.",
        ("Contrast", *map(str, budgets), "Interval"),
        rows,
        digits=1,
    )


def _kinds(results: SynthesisResults) -> Table:
    kinds = list(dict.fromkeys(results.kinds))
    rows: list[list[Cell]] = []
    for name in results.conditions:
        solved = results.solved(name, results.calls)
        shown = [results.interval([solved], results.of_kind(kind))[0] for kind in kinds]
        rows.append([name, *(cell for one in shown for cell in (one.estimate, one.text))])
    columns = [column for kind in kinds for column in (kind.capitalize(), "Interval")]
    return Table(
        "kinds",
        "Problems solved with all calls, in %, by whether a start could be trained on their order "
        "of operations. No start is trained on any of their parameters.",
        ("Condition", *columns),
        rows,
        digits=1,
    )


def _seeds(results: SynthesisResults) -> Table:
    rows = [
        seed_row(100 * results.solved(name, results.calls).mean(1), name)
        for name in results.conditions
    ]
    return Table(
        "seeds",
        "Problems solved with all calls by seed, in %, problems weighed equally.",
        seed_columns(results.seeds, "Condition"),
        rows,
        digits=1,
    )


def _ends(results: SynthesisResults) -> Table:
    rows: list[list[Cell]] = []
    for name in results.conditions:
        at = results.solved_at[name]
        calls = float(np.minimum(at, results.calls).mean())
        rows.append([name, calls, results.overfitted[name], float(results.losses[name].mean())])
    return Table(
        "ends",
        "How searches ended: judge calls on average, unsolved ones at the whole budget; texts that "
        "were right on the examples and wrong on what was kept back; the mean of the lowest loss.",
        ("Condition", "Calls", "Right on examples only", "Lowest loss"),
        rows,
    )


def _curve(results: SynthesisResults) -> Figure:
    calls = np.arange(1, results.calls + 1)
    lines, ends = [], []
    for name in results.conditions:
        steps = [results.solved(name, int(c)) for c in calls]
        shown = results.interval(steps, results.of_kind())
        bounded = shown[-1].lower is not None
        lines.append(
            Line(
                name,
                calls.tolist(),
                [one.estimate for one in shown],
                lower=[one.lower or 0.0 for one in shown] if bounded and name == "LEARN" else (),
                upper=[one.upper or 0.0 for one in shown] if bounded and name == "LEARN" else (),
                dashed=name in ("EVOLUTION", "ENUMERATION"),
            )
        )
        last = shown[-1]
        ends.append(Value(name, last.estimate, last.lower, last.upper))
    return Figure(
        "success",
        "Problems solved against judge calls, and with all of them with 99 % intervals over "
        "groups. Dashed lines need no model.",
        [
            Lines("Against judge calls", "Judge calls", "Solved, %", lines, digits=1),
            Rows(f"With {results.calls} calls", "Solved, %", ends, digits=1),
        ],
    )
