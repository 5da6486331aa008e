"""Writing a run's report: tables, figures and pages, from what it saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from larc.errors import LarcError
from larc.reports import (
    ci_report,
    controller_report,
    episodic_report,
    figures,
    prefix_report,
    stream,
    sweep,
)
from larc.reports.cost import cost_tables
from larc.reports.page import Facts, page, shown
from larc.reports.replays import replayed_settings
from larc.reports.report import Report
from larc.reports.tables import Table
from larc.studies import ci_queue, controller_queue, own_tasks, prefix_queue, programs, stream_queue
from larc.studies.catalog import STUDIES, SWEEP, command_of
from larc.studies.runs import REPLAY, Run, read_json

# What makes the report of each kind of run.
REPORTS: dict[str, Callable[[Run], Report]] = {
    programs.KIND: episodic_report.report,
    own_tasks.KIND: episodic_report.report,
    ci_queue.KIND: ci_report.report,
    stream_queue.KIND: stream.report,
    prefix_queue.KIND: prefix_report.report,
    controller_queue.KIND: controller_report.report,
    SWEEP: lambda run: _swept(run),  # it needs the others
}


def write_report(run: Run) -> str:
    """Write the tables, figures and pages of a run, and its manifest; returns the page's name."""
    if run.kind not in REPORTS:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which has no report.")
    run.check_foreign()
    for child in _children(run):
        write_report(child)
    report = _report(run)
    for name, content in (*_documents(run, report).items(), *_pictures(report).items()):
        run.write_file(name, content)
    run.write_manifest()
    return str(run.path / "report.html")


def documents(run: Run) -> dict[str, bytes]:
    """Return the tables and pages of a run's report by the names of their files, writing none."""
    return _documents(run, _report(run))


def pictures(run: Run) -> dict[str, bytes]:
    """Return the figures of a run's report by the names of their files, writing none."""
    return _pictures(_report(run))


def _pictures(report: Report) -> dict[str, bytes]:
    made = {}
    for figure in report.figures:
        drawn = figures.draw(figure)
        made[f"figures/{figure.name}.svg"] = figures.render(drawn, "svg")
        made[f"figures/{figure.name}.png"] = figures.render(drawn, "png")
    return made


def _children(run: Run) -> list[Run]:
    return [child for _, child in sweep.variations(run)] if run.kind == SWEEP else []


def _report(run: Run) -> Report:
    report = REPORTS[run.kind](run)
    return replace(report, notes=[*_made_from(run), *report.notes])


def _documents(run: Run, report: Report) -> dict[str, bytes]:
    runs = _children(run)
    cost, command, settings = cost_tables(run), command_of(run), _settings(run)
    made_with = [made for one in runs or [run] for made in one.made_with()]
    distinct = [made for i, made in enumerate(made_with) if made not in made_with[:i]]
    names = [child.path.name for child in runs]
    facts = Facts(command, settings, cost, distinct, run.evidence(), names)
    texts = {
        "report.md": _markdown(report, cost, command, settings),
        "report.html": page(report, facts),
    }
    for table in (*report.tables, *cost):
        texts[f"tables/{table.name}.md"] = table.markdown()
        texts[f"tables/{table.name}.tex"] = table.latex()
        texts[f"tables/{table.name}.csv"] = table.csv()
    return {name: text.encode() for name, text in texts.items()}


def _swept(run: Run) -> Report:
    said = REPORTS[run.settings["study"]]
    return sweep.report(run) if said == episodic_report.report else sweep.answers(run, said)


def _made_from(run: Run) -> list[str]:
    """Say in a sentence which model it was and where its state sits, as far as a run tells."""
    settings = run.settings
    if run.kind == SWEEP:
        settings = {n: v for n, v in settings["base"].items() if n not in settings["varied"]}
    elif run.is_done(REPLAY):  # of a run that was replayed
        settings = replayed_settings(run)
    if {"substrate", "rank", "boundary", "rule"} - set(settings):
        return []
    boundary, weight = settings["boundary"], settings.get("acts_on")
    where = f"before layer {boundary}" if boundary else "at the input"
    if weight:
        where = f"on {weight} of layer {boundary}"
    said = [
        f"The frozen model is {settings['substrate']}; a state of rank {settings['rank']} sits "
        f"{where} and steps by {settings['rule']}; training seeds: {len(settings['seeds'])}."
    ]
    steps = [run.path / f"units/train-adapted-{seed}/step.json" for seed in settings["seeds"]]
    learned = [f"{read_json(path)['step_size']:.3g}" for path in steps if path.exists()]
    if learned:
        said.append(
            f"The adapted starts learned step sizes of their own, by seed {', '.join(learned)}, "
            f"and were read with those; other starts step by {settings['rule']}, so that Δobj "
            "compares starts and step sizes together."
        )
    held_out = settings.get("held_out", "development")
    if held_out != "development":
        said.append(
            f"What is predicted are {held_out} groups, to choose settings by: its scores are no "
            "result, and with so few groups an interval is little more than their range."
        )
    if settings["substrate"] == "tiny":
        said.append(
            "That model is small and random: such a run shows that the machinery works, and says "
            "nothing about language models."
        )
    return said


def _markdown(
    report: Report, cost: Sequence[Table], command: str, settings: list[tuple[str, Any, str]]
) -> str:
    lines = [f"# {report.title}", "", report.answer, "", report.question, ""]
    lines += [*(f"- {note}" for note in report.notes), ""]
    lines += ["```", command, "```", ""]
    for figure in report.figures:
        lines += [f"![{figure.name}](figures/{figure.name}.svg)", "", figure.caption, ""]
    for table in (*report.tables, *cost):
        lines += [f"## {table.name.capitalize()}", "", table.markdown()]
    lines += ["## Settings", "", "| Setting | Value |", "| :--- | :--- |"]
    lines += [f"| {name} | {shown(value)} |" for name, value, _ in settings]
    return "\n".join([*lines, ""])


def _settings(run: Run) -> list[tuple[str, Any, str]]:
    """Return a run's settings by name, each with its value and what it is."""
    kind, values = run.kind, run.settings
    if kind == SWEEP:
        kind, values = values["study"], values["base"] | values["varied"]
    told = {item.name: item.metadata.get("help", "") for item in fields(STUDIES[kind].settings)}
    return [(name, value, told.get(name, "")) for name, value in values.items()]
