"""The published results: whole, in order, and made again from what they hold."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import larc
from larc.cli import main
from larc.runs.run import Run
from larc.runs.store import archived_files
from larc.runs.verify import verify
from larc.studies.registry import plans
from larc.studies.reports import reported
from website.summaries import summaries

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
ARCHIVES = sorted(RESULTS.rglob("*.larc"))
# Every table that version 0.1 had published, as comma-separated values.
TABLES = archived_files(Path(__file__).parent / "data" / "tables-0.1.larc")


def named(path):
    return path.relative_to(RESULTS).with_suffix("").as_posix()


def test_results_are_few_and_small():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) <= 120
    # Four files of private streams, each with every answer of thirty paths, are half of it.
    assert sum(path.stat().st_size for path in files) <= 36 * 10**6


def tables(run, name):
    """Return the tables of a run, and of the runs of a sweep, by the names they have on disk."""
    texts = {
        f"{name}/{file}": content
        for file, content in reported(run).documents().items()
        if file.endswith(".csv")
    }
    for child in run.children():
        texts |= tables(child, f"{name}/{child.path.name}")
    return texts


@pytest.mark.parametrize("archive", ARCHIVES, ids=named)
def test_a_published_result_is_verified_and_its_tables_are_what_they_were(archive):
    run = Run(archive)
    assert verify(run, plans())
    now = tables(run, named(archive))
    before = {name for name in TABLES if name.startswith(f"{named(archive)}/")}
    assert before <= set(now)
    for name in before:
        assert now[name] == TABLES[name], name


def test_every_table_of_before_is_compared():
    assert len(TABLES) == 562
    prefixes = tuple(f"{named(archive)}/" for archive in ARCHIVES)
    assert all(name.startswith(prefixes) for name in TABLES)


def test_reports_and_tables_beside_the_archives_are_made_again():
    made_again = summaries()
    beside = {
        path
        for path in RESULTS.rglob("*")
        if path.is_file() and path.suffix in (".md", ".csv") and "adapter" not in path.parts
    }
    assert beside == set(made_again), "run `python -m website`"
    for path, content in made_again.items():
        assert path.read_bytes() == content, f"{path}: run `python -m website`"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="OpenBLAS names its x86 kernels so")
def test_another_processor_writes_the_same_bytes(tmp_path):
    # A figure of this run lies half-way between two roundings, where products of matrices differ.
    out, run = tmp_path / "report", RESULTS / "choice" / "sgd-0.1.larc"
    command = [sys.executable, "-m", "larc.cli", "report", str(run), "--out", str(out)]
    # OpenBLAS multiplies as it would on a processor of twenty years ago.
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Prescott"}
    subprocess.run(command, check=True, env=environment, timeout=300)
    for name, content in reported(Run(run)).documents().items():
        assert (out / name).read_bytes() == content, name


STATES = ("ci", "programs", "programs-best", "streams-commit_scope", "streams-politeness")


def test_every_published_package_is_checked():
    assert {path.name for path in (ROOT / "states").iterdir()} == set(STATES)


@pytest.mark.parametrize("name", STATES)
def test_a_published_package_is_made_again_from_its_run(name, tmp_path):
    published, again = ROOT / "states" / name, tmp_path / "again"
    assert main(["package", str(RESULTS / f"{name}.larc"), "--out", str(again)]) == 0
    files = {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    assert files == {path.relative_to(published) for path in published.rglob("*") if path.is_file()}
    for file in files:
        assert (published / file).read_bytes() == (again / file).read_bytes(), file


@pytest.mark.smollm2
@pytest.mark.parametrize("name", STATES)
def test_a_published_package_loads_on_its_model(name, smollm2):
    settings = Run(RESULTS / name).settings
    substrate = smollm2
    if settings["dtype"] != "float32":
        substrate = larc.load_substrate("smollm2-135m", dtype=settings["dtype"])
    for seed in settings["seeds"]:
        package = ROOT / "states" / name
        slow = larc.SlowState.from_pretrained(package, seed=seed, substrate=substrate)
        assert slow.factors.rank == settings["rank"]


def test_the_command_reports_on_an_archive_without_unpacking_it(tmp_path, capsys):
    out = tmp_path / "report"
    archive = RESULTS / "programs-steps.larc"
    before = archive.read_bytes()
    assert main(["report", str(archive), "--out", str(out), "--json"]) == 0
    assert "lowest error after feedback" in capsys.readouterr().out
    assert (out / "report.html").is_file()
    assert (out / "inner_steps=8" / "tables" / "controls.csv").is_file()
    assert archive.read_bytes() == before


def test_the_quick_result_shows_what_feedback_is_worth():
    run = Run(RESULTS / "programs-quick")  # the suffix may be left out
    assert len(run.manifest()["made_with"]) == 1
    rows = TABLES["programs-quick/tables/contrasts.csv"].decode().splitlines()
    gains = {row.split(",")[0]: float(row.split(",")[1]) for row in rows[1:]}
    assert gains["Adapted G"] > 25
    assert gains["Adapted D"] > 25
