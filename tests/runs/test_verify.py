"""A run that was touched is noticed, whatever was touched."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from larc import LarcError
from larc.cli import main
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.store import archive_content
from larc.studies.programs.settings import PRESETS
from larc.studies.registry import STUDIES
from larc.studies.running import run_study
from larc.studies.running import verify_run as verify


@pytest.fixture
def run(smoke, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(smoke, copy)
    return copy


def test_an_untouched_run_is_verified(run, capsys):
    assert main(["verify", str(run), "--json"]) == 0
    assert any(
        "before the queries" in line for line in json.loads(capsys.readouterr().out)["verified"]
    )


def test_a_flipped_byte_in_any_file_is_caught_and_named(run):
    record = Run(run)
    names = record.store.names()
    files = [run / name for name in names if record.role(name) in ("evidence", "manifest")]
    assert len(files) > 60
    for number, path in enumerate(files):
        content = path.read_bytes()
        damaged = bytearray(content)
        damaged[(number * 7919) % len(content)] ^= 0x04
        path.write_bytes(damaged)
        with pytest.raises(LarcError) as caught:
            verify(run)
        assert str(run) in str(caught.value)
        path.write_bytes(content)
    verify(run)


def test_missing_and_foreign_files_are_named(run, capsys):
    (run / "units" / "queries" / "queries.parquet").rename(run.parent / "kept")
    assert main(["verify", str(run)]) == 1
    assert "queries.parquet is missing" in capsys.readouterr().err
    (run.parent / "kept").rename(run / "units" / "queries" / "queries.parquet")
    for foreign in (run / "notes.txt", run / "units" / "queries" / "more.parquet"):
        foreign.write_text("mine")
        with pytest.raises(LarcError, match=f"{foreign.name} does not belong"):
            verify(run)
        assert main(["report", str(run)]) == 1
        assert f"{foreign.name} does not belong" in capsys.readouterr().err
        assert foreign.read_text() == "mine"
        foreign.unlink()


def test_predictions_changed_after_the_record_are_caught_even_if_all_hashes_are_redone(run):
    unit = run / "units" / "predict-static-2026092811"
    other = run / "units" / "predict-static-2026092812"
    (unit / "predictions.parquet").write_bytes((other / "predictions.parquet").read_bytes())
    done = json.loads((unit / "done.json").read_text())
    done["predictions.parquet"] = sha256((unit / "predictions.parquet").read_bytes())
    (unit / "done.json").write_bytes(as_json(done))
    Run(run).close()
    with pytest.raises(LarcError, match="not what was on record"):
        verify(run)


def test_a_record_in_another_order_is_refused(run):
    lines = (run / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    (run / "evidence.jsonl").write_bytes(b"".join([lines[0], lines[2], lines[1], lines[3]]))
    Run(run).close()
    with pytest.raises(LarcError, match="does not follow"):
        verify(run)


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "evidence.jsonl"])
def test_a_missing_part_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(LarcError, match=name.replace(".", r"\.")):
        verify(run)


def test_reports_name_missing_and_foreign_files(run, capsys):
    predictions = run / "units/predict-static-2026092811/predictions.parquet"
    content = predictions.read_bytes()
    predictions.write_bytes(b"not parquet")
    assert main(["report", str(run)]) == 1
    assert "predictions.parquet was changed" in capsys.readouterr().err
    predictions.write_bytes(content)
    (run / "units/queries/queries.parquet").unlink()
    assert main(["report", str(run)]) == 1
    assert "queries.parquet is missing" in capsys.readouterr().err
    assert main(["report", str(run.parent)]) == 1
    assert "config.json is missing" in capsys.readouterr().err


def test_a_second_process_is_told_who_has_the_run(run):
    with Run(run).locked():
        command = [sys.executable, "-m", "larc.cli", "study", "programs", "--preset", "smoke"]
        result = subprocess.run(
            [*command, "--out", str(run)], capture_output=True, text=True, check=False
        )
    assert result.returncode == 1
    assert f"in use by process {os.getpid()}" in result.stderr


def test_a_report_is_in_no_record(run):
    before = (run / "manifest.json").read_bytes()
    for name in ("report.html", "report.md", "tables/contrasts.csv"):
        (run / name).unlink()
    verify(run)
    assert main(["report", str(run)]) == 0
    verify(run)
    assert (run / "manifest.json").read_bytes() == before


def test_a_run_closes_itself_without_a_report(tmp_path):
    settings = replace(PRESETS["smoke"], seeds=(7,), updates=2, resamples=20)
    out = tmp_path / "run"
    run = run_study(STUDIES["programs"], settings, out, Execution())
    assert run.is_closed
    verify(out)
    assert not (out / "report.html").exists()
    assert set(run.manifest()["files"]) == set(run.files())
    assert all(run.role(name) == "evidence" for name in run.manifest()["files"])


def test_a_manifest_of_version_0_1_named_the_report_and_is_read(run):
    # Such a manifest lists the report's files too; they are not looked at.
    record = Run(run)
    reports = {name: "0" * 64 for name in record.store.names() if record.role(name) == "report"}
    content = record.manifest_content({**reports, **record.files()})
    (run / "manifest.json").write_bytes(content)
    verify(run)
    (run / "report.md").unlink()
    verify(run)


def test_an_archive_is_verified_reported_and_unpacked(run, tmp_path, capsys):
    assert main(["pack", str(run), "--out", str(tmp_path / "one.larc")]) == 0
    assert main(["pack", str(run), "--out", str(tmp_path / "two.larc")]) == 0
    assert (tmp_path / "one.larc").read_bytes() == (tmp_path / "two.larc").read_bytes()
    assert verify(tmp_path / "one.larc") == verify(run)
    assert main(["report", str(tmp_path / "one.larc")]) == 0
    for table in (run / "tables").iterdir():
        assert (tmp_path / "one" / "tables" / table.name).read_bytes() == table.read_bytes()
    assert main(["unpack", str(tmp_path / "one.larc"), "--out", str(tmp_path / "again")]) == 0
    record = Run(run)
    for name in record.files():
        assert (tmp_path / "again" / name).read_bytes() == record.read(name)
    verify(tmp_path / "again")
    with pytest.raises(LarcError, match="packed and is only read"):
        Run(tmp_path / "one.larc").close()


@pytest.mark.parametrize("index", [0, 7, 20, 1000, -30, -1])
def test_a_changed_byte_of_an_archive_is_noticed(run, tmp_path, index):
    assert main(["pack", str(run), "--out", str(tmp_path / "a.larc")]) == 0
    content = bytearray((tmp_path / "a.larc").read_bytes())
    content[index] ^= 0x10
    (tmp_path / "b.larc").write_bytes(content)
    with pytest.raises(LarcError, match=r"b\.larc"):
        verify(tmp_path / "b.larc")
    (tmp_path / "c.larc").write_bytes(content[: len(content) // 2])
    with pytest.raises(LarcError, match=r"c\.larc"):
        verify(tmp_path / "c.larc")


def test_an_archive_cannot_lead_out_of_itself(tmp_path):
    (tmp_path / "x.larc").write_bytes(archive_content({"../config.json": b"{}"}))
    with pytest.raises(LarcError, match="which no run has"):
        Run(tmp_path / "x.larc")


SMOKE = ["study", "programs", "--preset", "smoke"]


def test_evidence_is_not_made_anew_over_open_queries(run, capsys):
    """Neither of a finished run nor of one whose manifest is gone too."""
    (run / "evidence.jsonl").unlink()
    assert main([*SMOKE, "--out", str(run)]) == 1
    assert "Evidence is not made anew" in capsys.readouterr().err
    assert not (run / "evidence.jsonl").exists()
    (run / "manifest.json").unlink()
    assert main([*SMOKE, "--out", str(run)]) == 1
    assert "lacks 'training finished'" in capsys.readouterr().err
    assert main(["study", "final", str(run)]) == 1
    assert not (run / "evidence.jsonl").exists()


def test_forged_predictions_get_no_evidence(run, capsys):
    """Predictions forged after the queries were opened, everything that tells it removed."""
    lines = (run / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    unit = next(run.glob("units/predict-adapted-*"))
    forged = next(run.glob("units/predict-untrained-*")) / "predictions.parquet"
    hashes = json.loads((unit / "done.json").read_text())
    (unit / "predictions.parquet").write_bytes(forged.read_bytes())
    hashes["predictions.parquet"] = sha256(forged.read_bytes())
    (unit / "done.json").write_bytes(as_json(hashes))
    (run / "manifest.json").unlink()
    (run / "evidence.jsonl").write_bytes(lines[0])
    assert main([*SMOKE, "--out", str(run)]) == 1
    assert "lacks 'predictions written'" in capsys.readouterr().err
    assert main(["verify", str(run)]) == 1
