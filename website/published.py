"""Numbers and tables for the pages, from the files of published runs.

A page asks for one with a comment, and what stands up to the next comment is written by code::

    <!-- from results: answer programs-quick -->
    ...
    <!-- end -->
"""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from larc.domains.ci import EXPERTS
from larc.reporting.seeds import short_seed
from larc.reporting.tables import Cell, Table
from larc.reporting.writing import drawings
from larc.runs.run import Run
from larc.state import SlowState
from larc.studies.episodic.names import prediction_name, training_name
from larc.studies.episodic.results import load_results
from larc.studies.registry import STUDIES, settings_of
from larc.studies.reports import Reported, reported
from larc.studies.running import command_of
from larc.studies.sweep import SWEEP, variations
from website.architectures import families
from website.benchmarked import bench
from website.paper import DIGITS, PAPER, SPENT, WORK

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
#: Figures that pages show, and the published sweeps whose figure of cost they are.
FIGURES = {
    ROOT / f"docs/images/cost-of-{what}.svg": f"programs-{what}" for what in ("depth", "steps")
}
_MODELS = {
    "smollm2-135m": "SmolLM2-135M-Instruct, width 576, 30 layers, weights of 4 bits (Q4_1)",
}
_BLOCK = re.compile(
    r"(?P<head><!-- from results: (?P<what>[^\n]+?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
Row = dict[str, Any]


def pages() -> list[Path]:
    """Return every page that may ask for numbers."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renewed(page: str) -> str:
    r"""Return a page with everything it asks for as the results have it now.

    Examples
    --------
    >>> page = "<!-- from results: command programs-run -->\nold\n<!-- end -->"
    >>> print(renewed(page).splitlines()[3])
    $ larc study programs --preset quick
    """

    def written(match: re.Match[str]) -> str:
        name, *arguments = match["what"].split()
        return f"{match['head']}\n{_MAKERS[name](*arguments).strip()}\n\n{match['end']}"

    return _BLOCK.sub(written, page)


@cache
def published(run: str) -> Reported:
    """Return a published run, or one of a published sweep, with its report."""
    return reported(Run(RESULTS / run))


def figure(run: str) -> bytes:
    """Return the figure of error against cost of a published sweep."""
    return drawings(published(run).report)["figures/cost.svg"]


@cache
def table_text(run: str, table: str) -> str:
    """Return a published table as comma-separated values."""
    return published(run).documents()[f"tables/{table}.csv"].decode()


def rows(run: str, table: str) -> list[Row]:
    """Return a published table's rows by column.

    Examples
    --------
    >>> [row["Objective"] for row in rows("programs-quick", "endpoint")]
    ['Static', 'Adapted', 'Untrained']
    """
    lines = csv.DictReader(table_text(run, table).splitlines())
    return [{name: _cell(value) for name, value in row.items()} for row in lines]


def _cell(text: str) -> Cell:
    if not text:
        return None
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def _one(run: str, table: str, key: str) -> Row:
    return next(row for row in rows(run, table) if key in row.values())


def _headline(run: str, best: str, steps: str) -> str:
    """Say what published program studies found: the paper's settings, the best, and more steps."""
    fixed, tuned, more = (_kept(name) for name in (run, best, steps))
    settings, longer = (Run(RESULTS / name).settings for name in (best, steps))
    if not fixed["Real/keep"] > tuned["Real/keep"] > more["Real/keep"]:
        raise ValueError(f"{run}, {best} and {steps} found something else; say so in other words")
    return _filled(
        "One of four programs is to be chosen, and feedback tells how often each was wrong on "
        f"{settings['support']} examples. On the frozen SmolLM2-135M, with a trained state "
        f"{_where(settings['boundary'])}, {settings['inner_steps']} steps that descend on it take "
        f"the expected error on new inputs from **{tuned['Real/reset']:.2f} %** to "
        f"**{tuned['Real/keep']:.2f} %** (gain {_gained(best)}; {len(settings['seeds'])} training "
        f"seeds, {2 * settings['development_groups']} development groups of other parameters), and "
        f"{longer['inner_steps']} steps to **{more['Real/keep']:.2f} %** (gain {_gained(steps)}). "
        f"The paper's own settings come to {fixed['Real/keep']:.2f} % here. With the same feedback "
        f"dealt to programs at random, {settings['inner_steps']} steps leave "
        f"{tuned['Sham/keep']:.2f} %. A rule that simply takes the program with the fewest "
        f"observed errors reaches {tuned['Rule']:.2f} %, or {_even(best):.2f} % if it gives equals "
        f"the same chance, which is not told apart from {more['Real/keep']:.2f} %: this shows that "
        "feedback is learned, not that programs should be chosen this way."
    )


def _gained(run: str) -> str:
    gain = _one(run, "contrasts", "Exact G")
    low, high = str(gain["99 % interval"]).strip("[]").split(", ")
    return f"{gain['Mean']:.2f} points, 99 % interval {low} to {high}"


def _kept(run: str) -> Row:
    """Return a program study's errors: of the exact objective if it has that, else the adapted."""
    return {str(row["Objective"]): row for row in rows(run, "controls")}[
        "Exact" if "exact" in Run(RESULTS / run).settings["objectives"] else "Adapted"
    ]


@cache
def _even(run: str) -> float:
    """Return the error of the rule that gives the programs of lowest support loss one chance."""
    results = load_results(Run(RESULTS / run))
    assert results.even is not None  # programs are tasks of one prompt
    return 100 * results.mean(results.even)


def _rule(run: str) -> str:
    """Say what the rule does that needs no model, with ties taken either way."""
    first = _kept(run)["Rule"]
    return _filled(
        "The rule that takes the program with the lowest support loss, the first of equals, makes "
        f"an expected error of {first:.2f} % on these groups. If it gives equals the same chance, "
        f"it makes {_even(run):.2f} %."
    )


def _filled(text: str) -> str:
    # A number and its unit stay on one line.
    return textwrap.fill(text.replace(" %", "\u00a0%"), 100, break_on_hyphens=False)


def _contrary(run: str, controlled: str) -> str:
    """Say what a published CI study found, where keeping hurt, and what a controller made of it."""
    reset, keep, hedge = (_one(run, "replay", path)["Mean"] for path in ("P0M1", "P1M1", "HEDGE4"))
    loss = {row["Predictor"]: row for row in rows(controlled, "losses")}
    live, seeds = loss["LIVE"], Run(RESULTS / run).settings["seeds"]
    best = min(loss[name]["Mean"] for name in EXPERTS)
    mixed = _one(controlled, "ablation", "experts")["Loss"]
    every = all(live[short_seed(seed)] < hedge for seed in seeds)
    if not (keep > reset and every and best < live["Mean"] < mixed < hedge):
        raise ValueError(f"{run} and {controlled} found something else; say so in other words")
    queue = rows(run, "queue")
    commits = sum(int(row["Audit commits"]) for row in queue)
    return _filled(
        "It does not always pay. On a queue of public CI jobs whose labels arrive late, keeping "
        f"what they taught raised half-Brier loss from {reset:.4f} to {keep:.4f} (HEDGE4, which "
        f"has no language model: {hedge:.4f}). `larc.Controller` goes by the arriving labels to "
        f"decide whom to trust, kept states, reset ones or experts: {live['Mean']:.4f}, better "
        f"than HEDGE4 with every seed. The same mixture of experts alone has {mixed:.4f}, and the "
        f"best expert, known only afterwards, {best:.4f}; these are {len(queue)} "
        f"repositories and {commits} commits."
    )


def _table(run: str, table: str) -> str:
    """Return a table as it was published."""
    return published(run).documents()[f"tables/{table}.md"].decode()


def beside(paper: Sequence[Sequence[Cell]], ours: Sequence[Row], digits: int = 2) -> Table:
    """Return the paper's rows and ours as one table, rows of one name together.

    Examples
    --------
    >>> table = beside([("Path", "Loss"), ("keep", 2.0)], [{"Path": "keep", "Loss": 1.0}])
    >>> [list(row) for row in table.rows]
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


def _beside(run: str, table: str, paper: str = "") -> str:
    """Return a published table with the paper's rows, which may have another name."""
    paper = paper or table
    return beside(PAPER[paper], rows(run, table), DIGITS.get(paper, 2)).markdown()


def _work(run: str) -> str:
    """Return the counted work of a program study beside the paper's."""
    ours = {row["Kind"]: row for row in rows(run, "ledger") if row["Operation"] == "total"}
    lines: list[list[Cell]] = []
    for kind, (calls, positions) in WORK.items():
        here, through = (int(ours[kind][name]) for name in ("Calls", "Physical positions"))
        lines.append([kind.capitalize(), calls, here, positions, through])
    columns = ("Kind", "Calls, paper", "Calls, here", "Positions, paper", "Positions, here")
    return Table("work", "", columns, lines).markdown()


def _spent(*runs: str) -> str:
    """Return what studies took beside what the paper's took: slow updates and seconds."""
    lines: list[list[Cell]] = []
    for run in runs:
        archive = Run(RESULTS / run)
        trained = [unit for unit in archive.units() if archive.unit_has(unit, "curve.json")]
        updates = sum(len(archive.unit_json(unit, "curve.json")) for unit in trained)
        seconds = int(_one(run, "cost", "total")["Sum"]) / 1000
        lines += [[run, "paper", SPENT[run][0], round(SPENT[run][1])]]
        lines += [[run, "here", updates, round(seconds)]]
    return Table("spent", "", ("Study", "Where", "Slow updates", "Seconds"), lines).markdown()


def _answer(run: str) -> str:
    """Return the sentence that a run's report begins with."""
    return published(run).report.answer


def _command(run: str) -> str:
    return f"```console\n$ {command_of(Run(RESULTS / run))}\n```"


def _differs(run: str) -> str:
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
        ("Where the residual is", "input embeddings", _where(settings.boundary)),
        ("Rank, numbers in a state", "4, 12,288", f"{settings.rank}, {slow.factors.numbers:,}"),
        ("Training seeds", str(len(paper.seeds)), str(len(settings.seeds))),
        *(_ci_facts(run, settings) if archive.kind == "ci" else _program_facts(settings, paper)),
    ]
    return Table("differs", "", ("", "Paper", "Here"), facts).markdown()


def _where(boundary: int) -> str:
    return f"before layer {boundary}" if boundary else "input embeddings"


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


def _places(run: str, other: str) -> str:
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
    columns = ("Path", *(_where(settings["boundary"]).capitalize() for settings in both))
    return Table("places", "", columns, lines, digits=4).markdown()


def _sweep(run: str, *arms: str) -> str:
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


def _seeds(run: str, arm: str) -> str:
    """Return an arm's error after feedback for each run of a published sweep, by seed."""
    sweep = Run(RESULTS / run)
    (name,) = sweep.settings["varied"]
    endpoints = [
        (value, _one(f"{run}/{child.path.name}", "endpoint", arm.capitalize()))
        for (value,), child in variations(sweep)
    ]
    columns = (name.replace("_", " ").capitalize(), *list(endpoints[0][1])[1:])
    lines = [[value, *list(row.values())[1:]] for value, row in endpoints]
    return Table("seeds", "", columns, lines).markdown()


def _choice(directory: str) -> str:
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
    where = _where(used["boundary"])
    if used.get("acts_on"):
        where = f"`{used['acts_on']}` of layer {used['boundary']}"
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
    error = _one(name, "controls", objective.capitalize())["Real/keep"]
    spent = run.unit_json(prediction_name(objective, seed), "feedback.json")["evaluations"]
    return where, str(used["rank"]), how, str(updates), use, error, sum(spent) / len(spent)


_MAKERS: dict[str, Callable[..., str]] = {
    "bench": bench,
    "choice": _choice,
    "sweep": _sweep,
    "rule": _rule,
    "answer": _answer,
    "contrary": _contrary,
    "headline": _headline,
    "table": _table,
    "seeds": _seeds,
    "places": _places,
    "work": _work,
    "spent": _spent,
    "beside": _beside,
    "command": _command,
    "differs": _differs,
    "families": families,
}
