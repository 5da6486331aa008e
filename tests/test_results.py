"""The published results: whole, in order, and made again from what they hold."""

import shutil
from pathlib import Path

import pytest

from larc.cli import main
from larc.reports.cost import cost_tables
from larc.reports.writing import REPORTS
from larc.studies.catalog import SWEEP
from larc.studies.runs import Run

PLACE = Path(__file__).parents[1] / "results"
# Also the runs of sweeps, and those that settings were chosen by.
RESULTS = [Run(path.parent) for path in sorted(PLACE.rglob("config.json"))]
STUDIES = [run for run in RESULTS if run.path.parent == PLACE and run.kind != SWEEP]


def named(run):
    return str(run.path.relative_to(PLACE))


@pytest.mark.parametrize("run", RESULTS, ids=named)
def test_a_published_result_is_verified_and_its_tables_are_made_again(run):
    assert main(["verify", str(run.path)]) == 0
    made = {
        f"{table.name}.{kind}": getattr(table, form)()
        for table in (*REPORTS[run.kind](run).tables, *cost_tables(run))
        for kind, form in (("md", "markdown"), ("tex", "latex"), ("csv", "csv"))
    }
    tables = {path.name: path.read_bytes() for path in (run.path / "tables").iterdir()}
    assert {name: text.encode() for name, text in made.items()} == tables


@pytest.mark.parametrize("run", STUDIES, ids=named)
def test_a_published_report_is_made_again(run, tmp_path):
    published = run.path
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    shutil.rmtree(copy / "tables")
    (copy / "report.html").unlink()
    assert main(["report", str(copy)]) == 0
    made = [*(published / "tables").iterdir(), published / "report.md", published / "report.html"]
    for path in made:
        again = copy / path.relative_to(published)
        assert again.read_bytes() == path.read_bytes(), path.name


def test_the_quick_result_shows_what_feedback_is_worth():
    published = Path(__file__).parents[1] / "results" / "programs-quick"
    manifest = Run(published).manifest()
    assert len(manifest["made_with"]) == 1
    rows = (published / "tables" / "contrasts.csv").read_text().splitlines()
    gains = {row.split(",")[0]: float(row.split(",")[1]) for row in rows[1:]}
    assert gains["Adapted G"] > 25
    assert gains["Adapted D"] > 25
