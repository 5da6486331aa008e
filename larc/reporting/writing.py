"""A report as files: pages and tables, and figures where they are wanted."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.io.files import atomic_write, make_directory
from larc.reporting.page import Facts, page, shown
from larc.reporting.report import Report
from larc.reporting.tables import Table
from larc.runs.run import REPORT_DIRECTORIES, REPORT_FILES

PAGE = "report.html"


def documents(report: Report, facts: Facts, *, figures: bool = False) -> dict[str, bytes]:
    """Return the pages and tables of a report by the names of their files.

    The same report and facts give the same bytes. Each chart is drawn once, inside the page; with
    ``figures`` the Markdown links to those that `drawings` makes.
    """
    texts = {"report.md": _markdown(report, facts, figures), PAGE: page(report, facts)}
    for table in (*report.tables, *facts.cost):
        texts[f"tables/{table.name}.md"] = table.markdown()
        texts[f"tables/{table.name}.tex"] = table.latex()
        texts[f"tables/{table.name}.csv"] = table.csv()
    return {name: text.encode() for name, text in texts.items()}


def drawings(report: Report) -> dict[str, bytes]:
    """Return the figures of a report, drawn by matplotlib, by the names of their files."""
    from larc.reporting import figures

    content = {}
    for figure in report.figures:
        drawn = figures.draw(figure)
        content[f"figures/{figure.name}.svg"] = figures.render(drawn, "svg")
        content[f"figures/{figure.name}.png"] = figures.render(drawn, "png")
    return content


def check_drawable() -> None:
    """Refuse figures where matplotlib is not installed, before anything is computed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise LarcError("figures need matplotlib; run `pip install 'larc-lm[figures]'`.")


def write_files(directory: Path, files: dict[str, bytes]) -> None:
    """Write a report's files, each atomically."""
    for name, content in files.items():
        make_directory((directory / name).parent)
        atomic_write(directory / name, content)


def check_directory(directory: Path) -> None:
    """Refuse to write a report beside somebody's own files."""
    known = {*REPORT_FILES, *REPORT_DIRECTORIES, "lock"}
    if directory.is_dir():
        for child in sorted(directory.iterdir()):
            if child.name not in known and "=" not in child.name:  # a run of a sweep
                raise LarcError(f"{child} belongs to no report; choose another --out.")


def _markdown(report: Report, facts: Facts, figures: bool) -> str:
    lines = [f"# {report.title}", "", report.answer, "", report.question, ""]
    lines += [*(f"- {note}" for note in report.notes), ""]
    lines += ["```", facts.command, "```", ""]
    for figure in report.figures if figures else ():
        lines += [f"![{figure.name}](figures/{figure.name}.svg)", "", figure.caption, ""]
    for table in (*report.tables, *facts.cost):
        lines += [f"## {table.name.capitalize()}", "", table.markdown()]
    lines += ["## Settings", "", "| Setting | Value |", "| :--- | :--- |"]
    lines += [f"| {name} | {shown(value)} |" for name, value, _ in facts.settings]
    return "\n".join([*lines, ""])


def as_values(report: Report) -> dict[str, Any]:
    """Return what a report says as plain values: the answer and the tables."""
    return {"answer": report.answer, "tables": {t.name: _rows(t) for t in report.tables}}


def _rows(table: Table) -> Sequence[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]
