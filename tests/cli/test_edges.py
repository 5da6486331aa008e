"""Command lines that no command can do: one sentence, nothing made, no traceback."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import larc
from larc.cli import main
from larc.io.files import read_whole

SMOKE = ["study", "programs", "--preset", "smoke"]
JOB = {
    "repository": "o/r",
    "job_name": "build",
    "head_sha": "c0ffee",
    "job_id": 7,
    "conclusion": "success",
    "started_at": "2026-01-02T00:00:00Z",
    "completed_at": "2026-01-02T01:00:09Z",
}


def refused(capsys, *line):
    assert main([str(part) for part in line]) == 1
    told = capsys.readouterr().err
    assert told.startswith("larc: ")
    assert told.count("\n") == 1
    return told


@pytest.mark.parametrize("kind", ["file", "below a file", "device", "loop"])
def test_a_run_needs_a_directory(tmp_path, capsys, kind):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    places = {"below a file": tmp_path / "file" / "x", "device": "/dev/null"}
    out = places.get(kind, tmp_path / kind)
    assert "choose another --out" in refused(capsys, *SMOKE, "--out", out)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threads", "100000"), "256 or less"),
        (("--learning-rate", "nan"), "a finite number"),
        (("--training-groups", "99"), "16 or less"),
        (("--address", "auto"), "give --engine ray"),
        (("--engine", "ray", "--workers", "2"), "leave --workers out"),
        (("--texts", "both"), "one of plain, control"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, capsys, options, message):
    assert message in refused(capsys, *SMOKE, *options, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [("--threads", "100000"), ("--threads", "-1"), ("--port", "70000"), ("--rate", "nan")],
)
def test_a_service_that_cannot_be_is_refused(tmp_path, capsys, options):
    pytest.importorskip("fastapi")
    line = ("serve", "--substrate", "tiny", "--data", tmp_path / "data", *options)
    assert options[0] in refused(capsys, *line)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("options", [("--workers", "3"), ("--worker-cpus", "2"), ("--address", "")])
def test_one_process_is_told_nothing_of_a_cluster(tmp_path, capsys, options):
    pytest.importorskip("fastapi")
    line = ("serve", "--substrate", "tiny", "--data", tmp_path / "data", *options)
    assert f"{options[0]} is a Ray cluster's" in refused(capsys, *line)
    ray = (*line, "--engine", "ray", "--database", "postgresql://nowhere/x")
    assert "--worker-cpus" in refused(capsys, *ray, "--worker-cpus", "nan")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "options",
    [("--until", "nan"), ("--until", "inf"), ("--until", "1", "--threads", "-1")],
)
def test_a_retraining_that_cannot_be_is_refused(tmp_path, capsys, options):
    pytest.importorskip("fastapi")
    line = ("serve", "retrain", "--data", tmp_path, "--name", "n", *options)
    assert " ".join(options[-2:-1]) in refused(capsys, *line)


def test_what_a_service_is_told_may_come_before_retrain(tmp_path, capsys):
    """It is heard there, too: else another service would be meant, without a word."""
    pytest.importorskip("fastapi")
    wish = ("retrain", "--name", "n", "--until", "1")
    mine = ("serve", "--data", tmp_path / "mine")
    assert str(tmp_path / "mine" / "larc.db") in refused(capsys, *mine, *wish)
    assert "unknown kind" in refused(capsys, *mine, "--database", "mysql://x", *wish)
    after = ("retrain", "--data", tmp_path / "other", *wish[1:])
    assert str(tmp_path / "other" / "larc.db") in refused(capsys, *mine, *after)


def test_files_and_made_up_jobs_contradict_each_other(tmp_path, capsys):
    line = ("study", "ci", "--preset", "smoke", "--jobs", tmp_path / "missing.jsonl")
    assert "makes jobs up instead" in refused(capsys, *line, "--out", tmp_path / "run")
    told = refused(capsys, *line, "--synthetic", "0", "--out", tmp_path / "run")
    assert "missing.jsonl cannot be read" in told


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b"", "0 rows read, left out: none"),
        (b"\xff\xfe\x00binary", "1 rows read, left out: 1 invalid_utf8"),
        (b'{"a": 1}\n', "left out: 1 not_a_job"),
        (json.dumps(JOB).replace('{"r', '{"repository": "x/y", "r').encode(), "1 invalid_json"),
    ],
)
def test_a_file_without_jobs_is_no_baseline(tmp_path, capsys, content, left):
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(content)
    for more in ((), ("--json",)):
        assert left in refused(capsys, "ci", "baseline", path, *more)


def test_a_baseline_in_json_is_one_line(tmp_path, capsys):
    path = tmp_path / "jobs.jsonl"
    path.write_text(json.dumps(JOB))
    assert main(["ci", "baseline", str(path), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows"]["accepted"] == 1


def test_a_fetch_asks_nothing_for_a_file_that_cannot_be(tmp_path, capsys, monkeypatch):
    def unasked(*_, **__):
        raise AssertionError("GitHub was asked")

    monkeypatch.setattr("larc.github.fetching.GitHub", unasked)
    line = ("ci", "fetch", "o/r", "--since", "2026-01-01", "--until", "2026-01-02", "--out")
    assert "below a file" in refused(capsys, *line, "/dev/null/jobs.jsonl")
    assert "give a str or Path" in refused(capsys, *line, "x" * 5000)
    assert "File name too long" in refused(capsys, "ci", "baseline", "x" * 5000)


def carried_out(line, **environment):
    return subprocess.run(
        [sys.executable, "-m", "larc.cli", *map(str, line)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
        encoding="utf-8",
    )


def test_a_terminal_of_few_letters_is_written_to(tmp_path):
    path = tmp_path / "jobs.jsonl"
    path.write_text(json.dumps(JOB))
    done = carried_out(["ci", "baseline", path], PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 rows read")


def test_a_name_that_is_no_text_here_is_refused(tmp_path):
    path = tmp_path / "ünï.jsonl"
    path.write_text(json.dumps(JOB))
    assert carried_out(["ci", "baseline", path], LC_ALL="C").returncode == 0
    done = carried_out(["ci", "baseline", path], LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 1
    assert "is no text in this locale" in done.stderr
    assert "Traceback" not in done.stderr


#: Root may read everything, unless that is taken away.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.mark.skipif(os.getuid() == 0 and not shutil.which("setpriv"), reason="root needs setpriv")
def test_what_may_not_be_read_is_said_to_be_so(tmp_path):
    closed, state = tmp_path / "closed", tmp_path / "state"
    closed.mkdir()
    (closed / "config.json").write_text("{}")
    closed.chmod(0)
    state.write_bytes(b"x")
    state.chmod(0)
    prefix = UNPRIVILEGED if os.getuid() == 0 else []
    for line in (
        [*SMOKE, "--out", closed],
        ["report", closed],
        ["export", state, "--to", "peft", "--out", tmp_path / "new", "--substrate", "tiny"],
    ):
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "larc.cli", *map(str, line)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "Permission denied" in done.stderr
        assert "damaged" not in done.stderr
        assert "missing" not in done.stderr


def test_a_run_is_no_state(smoke, tmp_path, capsys):
    line = ["export", smoke, "--to", "peft", "--out", tmp_path / "new", "--substrate", "tiny"]
    assert "is a run; give one of its states, such as" in refused(capsys, *line)
    line[1] = tmp_path / "run.larc"
    line[1].write_bytes(b"x")
    assert "is a packed run" in refused(capsys, *line)


def test_a_deleted_report_is_written_anew(smoke, capsys):
    (smoke / "report.html").unlink()
    assert main([*SMOKE, "--out", str(smoke)]) == 0
    assert f"the report is {smoke / 'report.html'}" in capsys.readouterr().out
    assert (smoke / "report.html").exists()


def test_a_package_whose_file_is_an_endless_device_is_refused(tiny, tmp_path):
    larc.SlowState.initial(tiny, seed=1).save_pretrained(tmp_path / "package")
    for name in ("model.safetensors", "config.json"):
        (tmp_path / "package" / name).unlink()
        (tmp_path / "package" / name).symlink_to("/dev/zero")
        with pytest.raises(larc.LarcError, match="no regular file"):
            larc.SlowState.from_pretrained(tmp_path / "package")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read_whole(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smolm2-135m", "did you mean 'smollm2-135m'?"),
        ("no such model", "the presets are tiny"),
        ("", "the presets are tiny"),
        ("a/b/c", "no id of the"),
    ],
)
def test_a_mistyped_model_is_not_asked_of_the_hub(name, hint, monkeypatch):
    def unasked(*_, **__):
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr("larc.substrate.sources._from_pretrained", unasked)
    with pytest.raises(larc.LarcError) as caught:
        larc.load_substrate(name)
    assert hint in str(caught.value)
