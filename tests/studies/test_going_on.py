"""Runs that were stopped: by older versions, by a full disk, in their final evaluation."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from larc.cli import main
from larc.runs.run import Run
from larc.studies.running import verify_run as verify
from tests.studies.test_programs import SMALL, predictions, small

# Stopped after its training, by the code of commit 4526cff; its command is `small`.
SCHEMA_1 = Path(__file__).parent / "data" / "run-schema-1"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert small(out) == 0
    return out


def test_a_run_of_schema_1_is_gone_on_with_as_it_is(tmp_path, whole):
    out = tmp_path / "run"
    shutil.copytree(SCHEMA_1, out)
    trained = out / "units/train-adapted-2026092811/slow.safetensors"
    before = trained.read_bytes()
    assert small(out) == 0
    assert trained.read_bytes() == before
    assert Run(out).schema == 1
    assert "identities" not in json.loads((out / "manifest.json").read_text())
    assert set(predictions(out)) == set(predictions(whole))
    assert len(verify(out)) == 3
    # It goes on as it was started: texts were encoded with the control tokens they spell.
    made = [path for path in out.glob("units/*/provenance.json") if b'"texts"' in path.read_bytes()]
    assert made
    assert {json.loads(path.read_text())["texts"] for path in made} == {"control"}


def test_a_run_says_how_its_texts_are_encoded(whole):
    assert Run(whole).settings["texts"] == "plain"
    assert {facts["texts"] for facts in Run(whole).made_with()} == {"plain"}


def test_a_run_names_every_identity(whole):
    identities = json.loads((whole / "manifest.json").read_text())["identities"]
    assert identities["data"] == Run(whole).data != ""
    assert set(identities["factors"]) == {"train-adapted-2026092811"}
    arms = ("adapted", "untrained")
    assert set(identities["predictions"]) == {f"predict-{arm}-2026092811" for arm in arms}
    assert identities["adapter"] == [""]
    assert len(identities["sources"]) == len(identities["substrate"]) == 1
    assert any("belong to the substrate" in sentence for sentence in verify(whole))


def run_limited(out, size):
    """The study in a process of its own, whose files may not be larger than so many bytes."""
    arguments = ["study", "programs", "--preset", "smoke", *SMALL, "--out", str(out)]
    return subprocess.run(
        [sys.executable, "-B", "-m", "larc.cli", *arguments],  # a cut .pyc would stay
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(out.parent)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def test_a_disk_that_takes_no_more_stops_a_study_in_one_sentence_and_loses_nothing(tmp_path, whole):
    out = tmp_path / "run"
    stopped = run_limited(out, 2000)  # a slow state is larger, a config is not
    assert stopped.returncode == 1
    assert stopped.stderr.strip().splitlines()[-1].startswith("larc: ")
    assert "could not be written (File too large)" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not list(out.rglob("*.part"))
    assert small(out) == 0
    assert predictions(out) == predictions(whole)
    verify(out)


@pytest.mark.parametrize("record", ["final-queries opened", "final-queries written"])
def test_a_final_evaluation_stopped_at_its_end_is_gone_on_with(tmp_path, whole, record, capsys):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    manifest = (out / "manifest.json").read_bytes()
    assert main(["study", "final", str(out)]) == 0
    expected = {path.name: path.read_bytes() for path in out.glob("tables/final-*")}
    # As it is when a process is killed after one of its last records: the report was not made.
    lines = (out / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    last = next(n for n, line in enumerate(lines, start=1) if json.loads(line)["event"] == record)
    (out / "evidence.jsonl").write_bytes(b"".join(lines[:last]))
    if record == "final-queries opened":
        shutil.rmtree(out / "units" / "final-queries")
    for path in out.glob("tables/final-*"):
        path.unlink()
    (out / "manifest.json").write_bytes(manifest)
    assert main(["study", "final", str(out)]) == 0
    assert {path.name: path.read_bytes() for path in out.glob("tables/final-*")} == expected
    verify(out)
    capsys.readouterr()
    assert main(["study", "final", str(out)]) == 1
    assert "a run has one" in capsys.readouterr().err


def test_a_lock_left_behind_is_named_and_goes_with_the_next_command(tmp_path, whole, capsys):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    (out / "lock").write_text("123\n")
    assert main(["verify", str(out)]) == 1
    assert "lock was left by a process that was killed" in capsys.readouterr().err
    assert small(out) == 0
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize("name", ["ledger.json", "curve.json", "slow.safetensors"])
def test_no_report_is_made_from_a_damaged_unit(tmp_path, whole, capsys, name):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    (out / "units/train-adapted-2026092811" / name).write_text("{}")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["report", str(out)]) == 1
    assert f"{name} was changed" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
