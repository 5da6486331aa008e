"""Histories for a running server, from the command line; a whole `larc ci live`, stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from larc.cli import main
from larc.domains.ci.synthetic import synthetic_jobs
from tests.service.conftest import processes, until
from tests.service.github.deliveries import SECRET

__all__ = ["processes"]
ROOT = Path(__file__).parents[2]
CONCLUSIONS = ("success", "failure", "cancelled", "skipped")


def write(file, jobs):
    rows = [{**job._asdict(), "conclusion": CONCLUSIONS[job.label]} for job in jobs]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_a_history_is_told_and_the_next_is_played(processes, tmp_path, monkeypatch, capsys):
    config = tmp_path / "larc.toml"
    config.write_text(
        f'[github]\nsettle_s = 0.0\n[[github.hooks]]\nname = "ours"\nsecrets = ["{SECRET}"]\n'
    )
    process = processes("data", "--config", str(config))
    server = process.start()
    jobs = synthetic_jobs(60, seed=4)
    before, after = write(tmp_path / "a.jsonl", jobs[:40]), write(tmp_path / "b.jsonl", jobs[40:])
    line = ["ci", "backfill", before, "--to", server.address]
    assert main([*line, "--token-file", str(process.token_file)]) == 0
    assert "synthetic/one: 20 jobs are known" in capsys.readouterr().out
    line = ["ci", "replay-webhooks", after, "--to", server.address, "--hook", "ours"]
    assert main(line) == 1
    assert "secret is missing" in capsys.readouterr().err
    monkeypatch.setenv("LARC_GITHUB_WEBHOOK_SECRET", SECRET)
    assert main(line) == 0
    assert "of 20 jobs, 0 sent before" in capsys.readouterr().out

    def counts():
        return server.http.get("/v1/github/repositories/synthetic/one").json()["counts"]

    until(lambda: (counts()["ended"], counts()["predicted"]) == (30, 10))


def test_wrong_settings_are_named(tmp_path, capsys):
    cases = {
        "[github]\nhoks = []": "github.hoks is wrong",
        "[github]\nsurprise = 2": "github.surprise is wrong",
        "github = 1": "give a section",
        "[gitlab]": "the sections",
        "[github": "cannot be read as TOML",
        '[github]\noutput = "check-run"': "only a GitHub App may make check runs",
        '[github]\noutput = "status"': "needs a token",
        '[github]\napp_id = "1"': "give all three",
        '[[github.hooks]]\nsecrets = ["hunter2"]': "github.hooks.0.secrets.0 is wrong",
        '[github]\napi = "http://example.org"\ntoken = "x"': "readable on its way",
    }
    file = tmp_path / "larc.toml"
    for text, told in cases.items():
        file.write_text(text)
        line = [
            "serve",
            "--substrate",
            "tiny",
            "--data",
            str(tmp_path / "d"),
            "--config",
            str(file),
        ]
        assert main(line) == 1
        error = capsys.readouterr().err
        assert told in error
        assert "hunter2" not in error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_history_happens_now_and_ctrl_c_ends_it(tmp_path, number):
    command = [sys.executable, "-m", "larc.cli", "ci", "live", "--port", "0", "--speed", "600"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LARC_LOG": "error"}
    # In a background job SIGINT may be ignored; here it is not.
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        words = process.stdout.readline().split()
        assert words[:3] == ["the", "dashboard", "is"]
        assert "jobs are known" in process.stdout.readline()
        headers = {"Authorization": f"Bearer {words[-1]}"}
        with httpx.Client(base_url=words[3], headers=headers) as client:

            def predicted():
                view = client.get("/v1/github/repositories/synthetic/app").json()
                return view["counts"]["predicted"] > 20 and view["flaky"]

            until(predicted)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == (130 if number == signal.SIGINT else 0), error
    assert "Traceback" not in error
