"""Writing a run's report: tables, figures and a page, from what it saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from larc.errors import LarcError
from larc.reports import ci, episodic, figures
from larc.reports.sweep import sweep_tables
from larc.reports.tables import Table
from larc.studies import ci_queue
from larc.studies.catalog import STUDIES, SWEEP, command_of
from larc.studies.runs import Run, read_json


def write_report(run: Run) -> str:
    """Write the tables and figures of a run, and its manifest; returns the page's name."""
    run.check_foreign()
    if run.kind == SWEEP:
        for child in sorted(run.path.iterdir()):
            if (child / "config.json").exists():
                write_report(Run(child))
        page = _write(run, "A sweep", "", sweep_tables(run), {})
    elif run.kind == ci_queue.KIND:
        found = ci.load_results(run)
        title = "The continuous-integration study" + (
            " (synthetic jobs)" if found.synthetic else ""
        )
        page = _write(run, title, command_of(run), ci.tables(found, run), {}, ci.answer(found))
    elif run.kind in STUDIES:
        results = episodic.load_results(run)
        tables = episodic.tables(results)
        if run.is_done("final-queries"):
            final = episodic.tables(episodic.load_results(run, final=True))[:-2]
            tables += [_renamed(table) for table in final]
        page = _write(
            run,
            f"The {run.kind} study",
            command_of(run),
            tables,
            figures.figures(results),
            episodic.answer(results),
        )
    else:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which has no report.")
    run.write_manifest(_provenance(run))
    return page


def _renamed(table: Table) -> Table:
    return Table(
        f"final-{table.name}",
        f"Final evaluation on reserved groups. {table.caption}",
        table.columns,
        table.rows,
        table.digits,
    )


def _write(
    run: Run,
    title: str,
    command: str,
    tables: Sequence[Table],
    drawings: Mapping[str, Any],
    answer: str = "",
) -> str:
    lines = [f"# {title}", ""]
    if answer:
        lines += [answer, ""]
    if command:
        lines += ["```", command, "```", ""]
    for table in tables:
        run.write_file(f"tables/{table.name}.md", table.markdown().encode())
        run.write_file(f"tables/{table.name}.tex", table.latex().encode())
        run.write_file(f"tables/{table.name}.csv", table.csv().encode())
        lines += [f"## {table.name.capitalize()}", "", table.markdown()]
    for name, figure in drawings.items():
        run.write_file(f"figures/{name}.svg", figures.render(figure, "svg"))
        run.write_file(f"figures/{name}.png", figures.render(figure, "png"))
        lines += [f"![{name}](figures/{name}.svg)", ""]
    run.write_file("report.md", "\n".join(lines).encode())
    return str(run.path / "report.md")


def _provenance(run: Run) -> dict[str, Any]:
    """Return what the units were made with, each distinct answer once."""
    found: list[Any] = []
    for path in sorted(run.path.glob("units/*/provenance.json")):
        facts = read_json(path)
        if facts not in found:
            found.append(facts)
    return {"kind": run.kind, "made_with": found}
