"""The published results: whole, in order, and made again from what they hold."""

import shutil
from pathlib import Path

import pytest

from larc.cli import main
from larc.studies.runs import Run

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*/config.json"))


@pytest.mark.parametrize("config", RESULTS, ids=lambda path: path.parent.name)
def test_a_published_result_is_verified_and_its_report_is_made_again(config, tmp_path):
    published = config.parent
    assert main(["verify", str(published)]) == 0
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    shutil.rmtree(copy / "tables")
    (copy / "report.html").unlink()
    assert main(["report", str(copy)]) == 0
    made = [*(published / "tables").iterdir(), published / "report.md", published / "report.html"]
    for path in sorted(made):
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
