"""A run that was touched is noticed, whatever was touched."""

import json
import shutil

import pytest

from larc import LarcError
from larc.cli import main
from larc.runs.run import Run, as_json, sha256
from larc.runs.verify import verify


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
    files = [path for path in sorted(run.rglob("*")) if path.is_file()]
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
    (run / "tables" / "contrasts.csv").unlink()
    assert main(["verify", str(run)]) == 1
    assert "contrasts.csv is missing" in capsys.readouterr().err
    main(["report", str(run)])
    for place in (run / "notes.txt", run / "units" / "queries" / "more.parquet"):
        place.write_text("mine")
        with pytest.raises(LarcError, match=f"{place.name} does not belong"):
            verify(run)
        assert main(["report", str(run)]) == 1
        assert f"{place.name} does not belong" in capsys.readouterr().err
        assert place.read_text() == "mine"
        place.unlink()


def test_predictions_changed_after_the_record_are_caught_even_if_all_hashes_are_redone(run):
    unit = run / "units" / "predict-static-2026092811"
    other = run / "units" / "predict-static-2026092812"
    (unit / "predictions.parquet").write_bytes((other / "predictions.parquet").read_bytes())
    done = json.loads((unit / "done.json").read_text())
    done["predictions.parquet"] = sha256((unit / "predictions.parquet").read_bytes())
    (unit / "done.json").write_bytes(as_json(done))
    Run(run).write_manifest()
    with pytest.raises(LarcError, match="not what was on record"):
        verify(run)


def test_a_record_in_another_order_is_refused(run):
    lines = (run / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    (run / "evidence.jsonl").write_bytes(b"".join([lines[0], lines[2], lines[1], lines[3]]))
    Run(run).write_manifest()
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
    import os
    import subprocess
    import sys

    with Run(run).locked():
        command = [sys.executable, "-m", "larc.cli", "study", "programs", "--preset", "smoke"]
        result = subprocess.run(
            [*command, "--out", str(run)], capture_output=True, text=True, check=False
        )
    assert result.returncode == 1
    assert f"in use by process {os.getpid()}" in result.stderr
