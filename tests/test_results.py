"""The published results: whole, in order, and made again from what they hold."""

import shutil
from pathlib import Path

import pytest

from larc.cli import main
from larc.reports.writing import documents
from larc.studies.runs import Run

PLACE = Path(__file__).parents[1] / "results"
# Also the runs of sweeps, and those that settings were chosen by.
RESULTS = [Run(path.parent) for path in sorted(PLACE.rglob("config.json"))]


def named(run):
    return str(run.path.relative_to(PLACE))


@pytest.mark.parametrize("run", RESULTS, ids=named)
def test_a_published_result_is_verified_and_its_documents_are_made_again(run):
    assert main(["verify", str(run.path)]) == 0
    made = documents(run)
    tables = {f"tables/{path.name}" for path in (run.path / "tables").iterdir()}
    assert set(made) == {"report.md", "report.html", *tables}
    for name, content in made.items():
        assert (run.path / name).read_bytes() == content, name


def test_the_command_makes_a_published_report_again(tmp_path):
    published, copy = PLACE / "programs-quick", tmp_path / "copy"
    shutil.copytree(published, copy)
    shutil.rmtree(copy / "tables")
    (copy / "report.html").unlink()
    assert main(["report", str(copy)]) == 0
    for path in (*(published / "tables").iterdir(), *published.glob("report.*")):
        assert (copy / path.relative_to(published)).read_bytes() == path.read_bytes(), path.name


def test_the_quick_result_shows_what_feedback_is_worth():
    published = PLACE / "programs-quick"
    manifest = Run(published).manifest()
    assert len(manifest["made_with"]) == 1
    rows = (published / "tables" / "contrasts.csv").read_text().splitlines()
    gains = {row.split(",")[0]: float(row.split(",")[1]) for row in rows[1:]}
    assert gains["Adapted G"] > 25
    assert gains["Adapted D"] > 25
