"""The published results: whole, in order, and made again from what they hold."""

import shutil
from pathlib import Path

import pytest

from larc.cli import main
from larc.studies.runs import Run

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*/config.json"))


@pytest.mark.parametrize("config", RESULTS, ids=lambda path: path.parent.name)
def test_a_published_result_is_verified_and_its_tables_are_made_again(config, tmp_path):
    published = config.parent
    assert main(["verify", str(published)]) == 0
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    shutil.rmtree(copy / "tables")
    assert main(["report", str(copy)]) == 0
    for table in sorted((published / "tables").iterdir()):
        assert (copy / "tables" / table.name).read_bytes() == table.read_bytes(), table.name


def test_the_quick_result_shows_what_feedback_is_worth():
    published = Path(__file__).parents[1] / "results" / "programs-quick"
    manifest = Run(published).manifest()
    assert len(manifest["made_with"]) == 1
    rows = (published / "tables" / "contrasts.csv").read_text().splitlines()
    gains = {row.split(",")[0]: float(row.split(",")[1]) for row in rows[1:]}
    assert gains["Adapted G"] > 25
    assert gains["Adapted D"] > 25
