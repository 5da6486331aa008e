"""Writing a run's report: tables, figures and pages, from what it saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from larc.errors import LarcError
from larc.reports import ci_report, episodic_report, figures, stream, sweep
from larc.reports.cost import cost_tables
from larc.reports.page import Facts, page
from larc.reports.report import Report
from larc.reports.tables import Table
from larc.studies import ci_queue, own_tasks, programs, stream_queue
from larc.studies.catalog import STUDIES, SWEEP, command_of
from larc.studies.runs import Run

# What makes the report of each kind of run.
REPORTS: dict[str, Callable[[Run], Report]] = {
    programs.KIND: episodic_report.report,
    own_tasks.KIND: episodic_report.report,
    ci_queue.KIND: ci_report.report,
    stream_queue.KIND: stream.report,
    SWEEP: sweep.report,
}


def write_report(run: Run) -> str:
    """Write the tables, figures and pages of a run, and its manifest; returns the page's name."""
    if run.kind not in REPORTS:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which has no report.")
    run.check_foreign()
    if run.kind == SWEEP:
        for _, child in sweep.variations(run):
            write_report(child)
    report, cost = REPORTS[run.kind](run), cost_tables(run)
    command = "" if run.kind == SWEEP else command_of(run)
    facts = Facts(command, _settings(run), cost, run.made_with(), run.evidence(), _runs(run))
    _write_tables(run, [*report.tables, *cost])
    for figure in report.figures:
        drawn = figures.draw(figure)
        run.write_file(f"figures/{figure.name}.svg", figures.render(drawn, "svg"))
        run.write_file(f"figures/{figure.name}.png", figures.render(drawn, "png"))
    run.write_file("report.md", _markdown(report, cost, command).encode())
    run.write_file("report.html", page(report, facts).encode())
    run.write_manifest()
    return str(run.path / "report.html")


def _write_tables(run: Run, tables: Sequence[Table]) -> None:
    for table in tables:
        run.write_file(f"tables/{table.name}.md", table.markdown().encode())
        run.write_file(f"tables/{table.name}.tex", table.latex().encode())
        run.write_file(f"tables/{table.name}.csv", table.csv().encode())


def _markdown(report: Report, cost: Sequence[Table], command: str) -> str:
    lines = [f"# {report.title}", "", report.answer, "", report.question, "", *report.notes, ""]
    if command:
        lines += ["```", command, "```", ""]
    for figure in report.figures:
        lines += [f"![{figure.name}](figures/{figure.name}.svg)", "", figure.caption, ""]
    for table in (*report.tables, *cost):
        lines += [f"## {table.name.capitalize()}", "", table.markdown()]
    return "\n".join(lines)


def _settings(run: Run) -> list[tuple[str, Any, str]]:
    """Return a run's settings by name, each with its value and what it is."""
    kind, values = run.kind, run.settings
    if kind == SWEEP:
        kind, values = values["study"], values["base"] | values["varied"]
    told = {item.name: item.metadata.get("help", "") for item in fields(STUDIES[kind].settings)}
    return [(name, value, told.get(name, "")) for name, value in values.items()]


def _runs(run: Run) -> list[str]:
    return [child.path.name for _, child in sweep.variations(run)] if run.kind == SWEEP else []
