"""The report of a synthesis run: success against judge calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from larc.reporting.charts import Figure, Line, Lines, Rows, Value
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row, short_seed
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.synthesis.results import FEWEST_GROUPS, Interval, SynthesisResults, load_results

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
    "UNTRAINED-TEXT": "TEXT from the untrained start: no training without losses in it",
    "EVOLUTION": "changes the best programs at random, without a model",
    "ENUMERATION": "tries programs in order of length, without a model",
}
NOTES = (
    "Every condition may ask the judge about equally many texts, never about one text twice. Its "
    "answer is the first text that is right on all its examples, and ends the search; a problem "
    "is solved if that text is right on everything kept back too.",
    "The model reads a question with some of the examples; of the others it sees losses alone. "
    "Searches without a model see losses alone.",
    f"Intervals are over groups, families weighed equally; with fewer than {FEWEST_GROUPS} groups "
    "in a family there are none.",
)
#: The least that learning is to be worth: so many times the best of n.
TARGET = 1.5


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    title = "The synthesis study" + (
        " (Python functions)" if run.settings["domain"] == "functions" else ""
    )
    return Report(
        title, QUESTION, answer(results), report_tables(results), [_curve(results)], NOTES
    )


def report_tables(results: SynthesisResults) -> list[Table]:
    """Return the tables of a report."""
    tables = [_success(results), _target(results), _contrasts(results), _sham(results)]
    return [*tables, _parts(results), _seeds(results), _ends(results)]


def answer(results: SynthesisResults) -> str:
    """Return the answer in a few sentences, and whether the target is reached."""
    calls, every = results.calls, results.of_kind()
    solved = {name: results.solved(name, calls) for name in results.conditions}
    learn, reset, gain, over, sham = results.interval(
        [
            solved["LEARN"],
            solved["RESET"],
            solved["LEARN"] - solved["RESET"],
            solved["LEARN"] - TARGET * solved["RESET"],
            solved["LEARN"] - solved["SHAM"],
        ],
        every,
    )
    ratio = results.ratio(solved["LEARN"], solved["RESET"])
    times = "" if ratio is None else f", {ratio.cell} times as many"
    if over.lower is None:
        verdict = "there are too few groups for intervals"
    elif over.lower > 0:
        verdict = f"surely more than {TARGET} times as many"
    elif over.estimate >= 0:
        verdict = f"{TARGET} times as many or more, but not surely"
    else:
        verdict = f"fewer than {TARGET} times as many"
    others = [name for name in ("EVOLUTION", "ENUMERATION") if name in solved]
    beside = [
        f"{name} {value.estimate:.1f} % (LEARN {difference.estimate:+.1f} points"
        f"{'' if difference.lower is None else f' {difference.text}'})"
        for name in others
        for value, difference in [
            results.interval([solved[name], solved["LEARN"] - solved[name]], every)
        ]
    ]
    least = float(_means(results, "SHAM").min())
    return (
        f"With {calls} calls LEARN solves {learn.estimate:.1f} % and RESET {reset.estimate:.1f} %"
        f"{times}, a difference of {gain.cell} points: {verdict} (LEARN - {TARGET} RESET: "
        f"{over.cell} points). LEARN minus SHAM is {sham.cell} points, and {least:+.1f} at the "
        f"number of calls where that is least. Without a model: {', '.join(beside)}."
    )


def _means(results: SynthesisResults, other: str) -> NDArray[np.float64]:
    """Return LEARN minus another condition after each number of calls, in points."""
    gains = [
        results.solved("LEARN", calls) - results.solved(other, calls)
        for calls in range(1, results.calls + 1)
    ]
    return np.array(results.means(gains))


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
        solved = [results.solved(name, calls) for calls in budgets]
        rows.append([name, SAYS[name], *_cells(results.interval(solved, results.of_kind()))])
    return Table(
        "success",
        f"Problems solved after so many judge calls, in %: {len(results.names)} problems of "
        f"{len(set(results.groups))} groups, {len(results.seeds)} seeds; 99 % intervals over "
        "groups.",
        ("Condition", "What it does", *_columns(budgets)),
        rows,
        digits=1,
    )


def _target(results: SynthesisResults) -> Table:
    budgets, every = _budgets(results), results.of_kind()
    pairs = [(results.solved("LEARN", c), results.solved("RESET", c)) for c in budgets]
    over = results.interval([learn - TARGET * reset for learn, reset in pairs], every)
    ratios = [results.ratio(learn, reset) for learn, reset in pairs]
    rows: list[list[Cell]] = [
        [f"LEARN minus {TARGET} times RESET, points", *_cells(over)],
        [
            "LEARN by RESET",
            *(
                cell
                for one in ratios
                for cell in ((None, "–") if one is None else (one.estimate, one.text))
            ),
        ],
    ]
    return Table(
        "target",
        f"Whether learning solves {TARGET} times as many problems as the best of n, after so many "
        "judge calls: the difference is above zero where it does. Groups are resampled for both "
        "together.",
        ("", *_columns(budgets)),
        rows,
        digits=2,
    )


def _contrasts(results: SynthesisResults) -> Table:
    rows: list[list[Cell]] = []
    budgets = _budgets(results)
    for other in results.conditions:
        if other == "LEARN":
            continue
        gains = [results.solved("LEARN", c) - results.solved(other, c) for c in budgets]
        rows.append([f"LEARN minus {other}", *_cells(results.interval(gains, results.of_kind()))])
    return Table(
        "contrasts",
        "Differences of the problems solved after so many judge calls, in percentage points, "
        "paired by problem; below zero the other one solves more.",
        ("Contrast", *_columns(budgets)),
        rows,
        digits=1,
    )


def _sham(results: SynthesisResults) -> Table:
    budgets = _budgets(results)
    means = _means(results, "SHAM")
    rows: list[list[Cell]] = [["all", *(means[c - 1] for c in budgets), means.min()]]
    for number, seed in enumerate(results.seeds):
        curve = 100 * np.array(
            [
                (results.solved("LEARN", c) - results.solved("SHAM", c))[number].mean()
                for c in range(1, results.calls + 1)
            ]
        )
        rows.append([short_seed(seed), *(curve[c - 1] for c in budgets), curve.min()])
    return Table(
        "sham",
        "LEARN minus SHAM by seed, in percentage points, and the least over all numbers of judge "
        "calls. Of one seed, problems weigh equally.",
        ("Seed", *map(str, budgets), "Least"),
        [[row[0], *map(float, row[1:])] for row in rows],  # type: ignore[arg-type]  # numbers
        digits=1,
    )


def _parts(results: SynthesisResults) -> Table:
    kinds = list(dict.fromkeys(results.kinds))
    lengths = sorted({length for length in results.lengths if length})
    parts = {kind.capitalize(): results.of_kind(kind) for kind in kinds}
    parts |= {f"Length {length}": results.of_length(length) for length in lengths}
    rows: list[list[Cell]] = []
    for name in results.conditions:
        solved = results.solved(name, results.calls)
        shown = [results.interval([solved], chosen)[0] for chosen in parts.values()]
        rows.append([name, *_cells(shown)])
    return Table(
        "parts",
        "Problems solved with all calls, in %, by whether starts are trained on their order of "
        "operations, and by the number of operations of the shortest right program. No start is "
        "trained on a program that is the same function as one of them.",
        ("Condition", *_columns(parts)),
        rows,
        digits=1,
    )


def _columns(names: Iterable[object]) -> list[str]:
    """Return the columns of estimates, each with its interval's."""
    return [column for name in names for column in (str(name), f"{name}: interval")]


def _cells(shown: Sequence[Interval]) -> list[Cell]:
    return [cell for one in shown for cell in (one.estimate, one.text)]


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
        at, judged = results.solved_at[name], results.judged[name]
        calls = float(np.minimum(at, results.calls).mean())
        early = int(((judged < results.calls) & (results.losses[name] > 0)).sum())
        least = float(results.losses[name].mean())
        rows.append([name, calls, results.overfitted[name], early, results.late[name], least])
    return Table(
        "ends",
        "How searches ended: judge calls on average, unsolved ones at the whole budget; answers "
        "that were right on the examples and wrong on what was kept back; searches that wrote "
        "nothing new any more before their calls were spent; texts that the judge took too long "
        "for, twice; the mean of the lowest loss.",
        ("Condition", "Calls", "Right on examples only", "Nothing new", "Too long", "Lowest loss"),
        rows,
    )


#: Which conditions are shown together, each beside LEARN.
_PANELS = {
    "From the trained start": ("RESET", "SHAM"),
    "Other ways": ("HOT", "TEXT"),
    "From the untrained start": ("UNTRAINED", "UNTRAINED-LEARN", "UNTRAINED-TEXT"),
    "Without a model": ("EVOLUTION", "ENUMERATION"),
}


def _curve(results: SynthesisResults) -> Figure:
    calls = np.arange(1, results.calls + 1)
    lines, ends = {}, []
    for name in results.conditions:
        steps = [results.solved(name, int(c)) for c in calls]
        shown = results.interval(steps, results.of_kind())
        bounds = [(one.lower, one.upper) for one in shown]
        known = [(low, high) for low, high in bounds if low is not None and high is not None]
        lines[name] = Line(
            name,
            calls.tolist(),
            [one.estimate for one in shown],
            lower=[low for low, _ in known],
            upper=[high for _, high in known],
            dashed=name in ("EVOLUTION", "ENUMERATION"),
        )
        last = shown[-1]
        ends.append(Value(name, last.estimate, last.lower, last.upper))
    panels = [
        Lines(
            title,
            "Judge calls",
            "Solved, %",
            [lines[name] for name in ("LEARN", *others) if name in lines],
            digits=1,
        )
        for title, others in _PANELS.items()
        if any(name in lines for name in others)
    ]
    return Figure(
        "success",
        "Problems solved against judge calls, each with LEARN beside it, and with all calls; with "
        "99 % intervals over groups. Dashed lines need no model.",
        [*panels, Rows(f"With {results.calls} calls", "Solved, %", ends, digits=1)],
    )
