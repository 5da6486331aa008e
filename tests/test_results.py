"""The published results: whole, in order, and made again from what they hold."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import larc
from larc.cli import main
from larc.reporting.writing import documents, pictures
from larc.runs.run import Run

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "results"
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


# Drawing takes longer than counting: the figures of the runs that pages speak of.
@pytest.mark.parametrize("run", [run for run in RESULTS if run.path.parent == PLACE], ids=named)
def test_the_figures_of_a_published_result_are_drawn_again(run):
    made = pictures(run)
    assert {f"figures/{path.name}" for path in (run.path / "figures").iterdir()} == set(made)
    for name, content in made.items():
        if name.endswith(".svg"):  # the packing of a PNG is the library's own
            assert (run.path / name).read_bytes() == content, name


def has_the_documents_of(published, copy):
    for path in (*(published / "tables").iterdir(), *published.glob("report.*")):
        assert (copy / path.relative_to(published)).read_bytes() == path.read_bytes(), path.name


@pytest.mark.skipif(platform.machine() != "x86_64", reason="OpenBLAS names its x86 kernels so")
def test_another_processor_writes_the_same_bytes(tmp_path):
    # A figure of this run lies half-way between two roundings, where products of matrices differ.
    published, copy = PLACE / "choice" / "sgd-0.1", tmp_path / "copy"
    shutil.copytree(published, copy)
    (copy / "report.md").unlink()
    command = [sys.executable, "-m", "larc.cli", "report", str(copy)]
    # OpenBLAS multiplies as it would on a processor of twenty years ago.
    subprocess.run(command, check=True, env={**os.environ, "OPENBLAS_CORETYPE": "Prescott"})
    has_the_documents_of(published, copy)


PACKAGES = ("ci", "programs", "programs-best")


def test_every_published_package_is_checked():
    assert {path.name for path in (ROOT / "packages").iterdir()} == set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_published_package_is_made_again_from_its_run(name, tmp_path):
    published, made = ROOT / "packages" / name, tmp_path / "made"
    assert main(["package", str(PLACE / name), "--out", str(made)]) == 0
    files = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    assert files == {path.relative_to(published) for path in published.rglob("*") if path.is_file()}
    for file in files:
        assert (published / file).read_bytes() == (made / file).read_bytes(), file


@pytest.mark.smollm2
@pytest.mark.parametrize("name", PACKAGES)
def test_a_published_package_loads_on_its_model(name, smollm2):
    place = ROOT / "packages" / name
    for seed in Run(PLACE / name).settings["seeds"]:
        slow = larc.SlowState.from_pretrained(place, seed=seed, substrate=smollm2)
        assert slow.factors.rank == 4


def test_the_command_makes_a_published_report_again(tmp_path):
    published, copy = PLACE / "programs-quick", tmp_path / "copy"
    shutil.copytree(published, copy)
    shutil.rmtree(copy / "tables")
    (copy / "report.html").unlink()
    assert main(["report", str(copy)]) == 0
    has_the_documents_of(published, copy)


def test_the_quick_result_shows_what_feedback_is_worth():
    published = PLACE / "programs-quick"
    manifest = Run(published).manifest()
    assert len(manifest["made_with"]) == 1
    rows = (published / "tables" / "contrasts.csv").read_text().splitlines()
    gains = {row.split(",")[0]: float(row.split(",")[1]) for row in rows[1:]}
    assert gains["Adapted G"] > 25
    assert gains["Adapted D"] > 25
