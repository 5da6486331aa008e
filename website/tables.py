"""Tables of the pages: published ones, and joined ones of several runs, or the paper's and ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from larc.reporting.seeds import short_seed
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.state import SlowState
from larc.studies.episodic.names import prediction_name, training_name
from larc.studies.registry import STUDIES, settings_of
from larc.studies.sweep import SWEEP, variations
from website.paper import DIGITS, PAPER, SPENT, WORK
from website.published import RESULTS, ROOT, Row, one_row, published, rows, where

_MODELS = {
    "smollm2-135m": "SmolLM2-135M-Instruct, width 576, 30 layers, weights of 4 bits (Q4_1)",
}


def table(run: str, table: str) -> str:
    """Return a table as it was published."""
    return published(run).documents()[f"tables/{table}.md"].decode()


def some(run: str, table: str, *beginnings: str) -> str:
    """Return the rows of a published table whose names begin so; an underscore may be a space."""
    shown = [list(row.values()) for row in rows(run, table)]
    lines = [line for line in shown if str(line[0]).replace(" ", "_").startswith(beginnings)]
    return Table("some", "", list(rows(run, table)[0]), lines, digits=4).markdown()


def joined(paper: Sequence[Sequence[Cell]], ours: Sequence[Row], digits: int = 2) -> Table:
    """Return the paper's rows and ours as one table, rows of one name together.

    Examples
    --------
    >>> both = joined([("Path", "Loss"), ("keep", 2.0)], [{"Path": "keep", "Loss": 1.0}])
    >>> [list(row) for row in both.rows]
    [['keep', 'paper', 2.0], ['keep', 'here', 1.0]]
    """
    columns, theirs = [str(name) for name in paper[0]], paper[1:]
    # What names a row: every column before the first number.
    keys = next(index for index, cell in enumerate(theirs[0]) if isinstance(cell, float))
    both: dict[tuple[Cell, ...], list[Sequence[Cell]]] = {}
    for row in theirs:
        both.setdefault(tuple(row[:keys]), []).append([*row[:keys], "paper", *row[keys:]])
    for entry in ours:
        cells = [entry.get(column) for column in columns]
        both.setdefault(tuple(cells[:keys]), []).append([*cells[:keys], "here", *cells[keys:]])
    lines = [row for alike in both.values() for row in alike]
    return Table("beside", "", [*columns[:keys], "Where", *columns[keys:]], lines, digits)


def beside(run: str, table: str, paper: str = "") -> str:
    """Return a published table with the paper's rows, which may have another name."""
    paper = paper or table
    return joined(PAPER[paper], rows(run, table), DIGITS.get(paper, 2)).markdown()


def work(run: str) -> str:
    """Return the counted work of a program study beside the paper's."""
    ours = {row["Kind"]: row for row in rows(run, "ledger") if row["Operation"] == "total"}
    lines: list[list[Cell]] = []
    for kind, (calls, positions) in WORK.items():
        here, through = (int(ours[kind][name]) for name in ("Calls", "Physical positions"))
        lines.append([kind.capitalize(), calls, here, positions, through])
    columns = ("Kind", "Calls, paper", "Calls, here", "Positions, paper", "Positions, here")
    return Table("work", "", columns, lines).markdown()


def spent(*runs: str) -> str:
    """Return what studies took beside what the paper's took: slow updates and seconds."""
    lines: list[list[Cell]] = []
    for run in runs:
        archive = Run(RESULTS / run)
        trained = [unit for unit in archive.units() if archive.unit_has(unit, "curve.json")]
        updates = sum(len(archive.unit_json(unit, "curve.json")) for unit in trained)
        seconds = int(one_row(run, "cost", "total")["Sum"]) / 1000
        lines += [[run, "paper", SPENT[run][0], round(SPENT[run][1])]]
        lines += [[run, "here", updates, round(seconds)]]
    return Table("spent", "", ("Study", "Where", "Slow updates", "Seconds"), lines).markdown()


def differs(run: str) -> str:
    """Return what a published run has other than the paper's study."""
    archive = Run(RESULTS / run)
    settings = settings_of(archive)
    paper = STUDIES[archive.kind].presets["paper"]
    unit = next(unit for unit in archive.units() if archive.unit_has(unit, "slow.safetensors"))
    slow = SlowState.from_bytes(archive.unit_file(unit, "slow.safetensors"), unit)
    facts = [
        ("Frozen model", "MiniCPM5-1B-SFT, width 1536, 24 layers", _MODELS[settings.substrate]),
        ("Semantic adapter", "rank 16, trained before", settings.adapter or "none"),
        ("The model computes in", "bfloat16", settings.dtype),
        ("Where the residual is", "input embeddings", where(settings.boundary)),
        ("Rank, numbers in a state", "4, 12,288", f"{settings.rank}, {slow.factors.numbers:,}"),
        ("Training seeds", str(len(paper.seeds)), str(len(settings.seeds))),
        *(_ci_facts(run, settings) if archive.kind == "ci" else _program_facts(settings, paper)),
    ]
    return Table("differs", "", ("", "Paper", "Here"), facts).markdown()


def _program_facts(settings: Any, paper: Any) -> list[tuple[str, str, str]]:
    return [
        ("Slow updates of each", str(paper.updates), str(settings.updates)),
        ("Episodes in an update", str(paper.batch), str(settings.batch)),
        ("Steps of feedback, rule", "2, sgd:0.1", f"{settings.inner_steps}, {settings.rule}"),
        ("Development groups", "16", str(2 * settings.development_groups)),
        ("Parameter groups themselves", "not public", "drawn anew from the same ranges"),
    ]


def _ci_facts(run: str, settings: Any) -> list[tuple[str, str, str]]:
    queue = rows(run, "queue")
    counted = ("Training jobs", "Audit jobs", "Audit commits")
    trained, jobs, commits = (sum(int(row[name]) for row in queue) for name in counted)
    theirs = "numpy/numpy, pandas-dev/pandas"
    start = f"static states of {settings.start}" if settings.start else "untrained"
    return [
        ("Start of the training", "static states of its program study", start),
        ("Repositories", theirs, ", ".join(row["Repository"] for row in queue)),
        ("Windows", "four days of 2026", "of 2023 and 2025, picked for failures and cancellations"),
        ("Fields of a job", "seven", "for bitcoin/bitcoin without workflow, its path and event"),
        ("Labels", "as recorded", "bitcoin/bitcoin's *cancelled* and *other* told by duration"),
        ("Attempts of a job", "not said", "the latest alone"),
        ("Training jobs", "2,678", f"{trained:,}"),
        ("Audit jobs, commits", "3,321, 72", f"{jobs:,}, {commits}"),
        ("Steps on labels", "sgd:0.1", settings.rule),
    ]


def places(run: str, other: str) -> str:
    """Return the losses of two CI runs by path, for the seeds that both have."""
    both = [Run(RESULTS / name).settings for name in (run, other)]
    seeds = [short_seed(seed) for seed in both[0]["seeds"] if seed in both[1]["seeds"]]
    ours, theirs = ({row["Path"]: row for row in rows(name, "replay")} for name in (run, other))
    lines: list[list[Cell]] = [
        [
            path,
            *(
                float(np.mean([by_path[path][seed] for seed in seeds]))
                for by_path in (ours, theirs)
            ),
        ]
        for path in ours
        if path in theirs
    ]
    columns = ("Path", *(where(settings["boundary"]).capitalize() for settings in both))
    return Table("places", "", columns, lines, digits=4).markdown()


def sweep(run: str, *arms: str) -> str:
    """Return a published sweep, of some of its arms, with each gain beside its interval."""
    varied = list(Run(RESULTS / run).settings["varied"])
    named = [name.replace("_", " ").capitalize() for name in varied]
    gains = ("Lower than the first", "Its interval"), ("G", "G interval"), ("D", "D interval")
    lines = [
        [
            # Only what a state acts on can be left empty.
            *("residual stream" if row[name] is None else str(row[name]) for name in varied),
            *(row[name] for name in ("Arm", "Reset", "Keep")),
            *("–" if row[gain] is None else f"{row[gain]:.2f} {row[over]}" for gain, over in gains),
            row["Evaluations"],
            round(row["ms"]),
        ]
        for row in rows(run, "sweep")
        if not arms or row["Arm"] in arms
    ]
    columns = (*named, "Arm", "Reset", "Keep", *(gain for gain, _ in gains), "Evaluations", "ms")
    return Table("sweep", "", columns, lines).markdown()


def seeds(run: str, arm: str) -> str:
    """Return an arm's error after feedback for each run of a published sweep, by seed."""
    sweep = Run(RESULTS / run)
    (name,) = sweep.settings["varied"]
    endpoints = [
        (value, one_row(f"{run}/{child.path.name}", "endpoint", arm.capitalize()))
        for (value,), child in variations(sweep)
    ]
    columns = (name.replace("_", " ").capitalize(), *list(endpoints[0][1])[1:])
    lines = [[value, *list(row.values())[1:]] for value, row in endpoints]
    return Table("seeds", "", columns, lines).markdown()


def trials() -> str:
    """Return the starts for private streams that were tried on validation streams."""
    lines: list[list[Cell]] = []
    rules = ("reset", "sgd:0.01", "sgd:0.02", "sgd:0.02:offset_size=0.2")
    for line in (RESULTS / "streams-trials.jsonl").read_text().splitlines():
        row = json.loads(line)
        trial, losses = row["trial"], row["losses"]
        rate = f"{trial['rate']:g}" + (", falling" if trial.get("falls") else "")
        told = [trial["rank"], where(trial["boundary"]), rate, trial["updates"]]
        data, dtype = row["data"].removesuffix(".dev"), row.get("dtype", "float32")
        minutes = f"{row['minutes']:.0f}"
        lines.append([data, dtype, *told, *(losses.get(rule) for rule in rules), minutes])
    columns = ("Data", "In", "Rank", "Where", "Rate", "Updates", *rules, "Minutes of a core")
    return Table("trials", "", columns, lines, digits=4).markdown()


def choice(directory: str) -> str:
    """Return every candidate that settings were chosen from, the best last, with its error."""
    archives = [Run(path) for path in sorted((RESULTS / directory).glob("*.larc"))]
    runs = [run for one in archives for run in (one.children() if one.kind == SWEEP else [one])]
    lines = {_candidate(run) for run in runs}
    columns = ("Where", "Rank", "Trained with", "Updates", "Used with", "Error", "Evaluations")
    ordered = sorted(lines, key=lambda line: (-line[-2], *map(str, line)))
    return Table("choice", "", columns, ordered).markdown()


def _candidate(run: Run) -> tuple[Any, ...]:
    """Return one candidate: where it is, how it was trained and used, its error and cost."""
    used = run.settings
    trained, updates = used, used["updates"]
    while trained.get("start"):
        trained = Run(ROOT / trained["start"]).settings
        updates += trained["updates"]
    at = where(used["boundary"])
    if used.get("acts_on"):
        at = f"`{used['acts_on']}` of layer {used['boundary']}"
    how, use = (f"{one['inner_steps']} × {one['rule']}" for one in (trained, used))
    (objective,) = (name for name in used["objectives"] if name != "static")
    if objective == "exact":
        how += ", exact gradient"
    if used["adapter"]:
        how += ", semantic adapter"
    (seed,) = used["seeds"]
    unit = training_name(objective, seed)
    if run.unit_has(unit, "step.json"):  # only where it was used
        how += f", step size learned: {run.unit_json(unit, 'step.json')['step_size']:.2f}"
        use = f"{used['inner_steps']} × that"
    name = run.path.relative_to(RESULTS).as_posix().replace(".larc", "")
    error = one_row(name, "controls", objective.capitalize())["Real/keep"]
    spent = run.unit_json(prediction_name(objective, seed), "feedback.json")["evaluations"]
    return at, str(used["rank"]), how, str(updates), use, error, sum(spent) / len(spent)
