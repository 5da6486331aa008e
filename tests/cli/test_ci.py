"""``larc ci fetch`` against a real local server, stopped by a real Ctrl-C."""

import json
import os
import signal
import subprocess
import sys

import pytest

from larc.cli import main
from tests.github.fetches import WINDOW, expected, fill, rows
from tests.github.github_server import GitHubServer, Hold

pytest.importorskip("httpx")


def test_fetching_is_stopped_goes_on_and_answers_in_json(tmp_path, capsys, monkeypatch):
    for name in [name for name in os.environ if name.lower().endswith(("_proxy", "_token"))]:
        monkeypatch.delenv(name)
    out = tmp_path / "jobs.jsonl"
    with GitHubServer() as server:
        fill(server, 6)
        hold = Hold()
        server.plan(hold, match="/jobs", after=3)
        line = ["ci", "fetch", "o/r", "--out", str(out), "--base-url", server.url, "--json"]
        line += ["--since", WINDOW["since"], "--until", WINDOW["until"]]
        process = subprocess.Popen(
            [sys.executable, "-m", "larc.cli", *line],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert hold.reached.wait(60)
        process.send_signal(signal.SIGINT)
        output, told = process.communicate(timeout=60)
        hold.go_on.set()
        assert (process.returncode, output) == (130, "")
        assert "what was saved is kept; the same command goes on from there: larc ci fetch" in told
        assert "Traceback" not in told
        assert not out.exists()
        asked = len(server.asked)
        assert main(line) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["out"] == str(out)
        assert (report["runs"], report["jobs"], report["already"]) == (6, 12, False)
        # Three runs were read before it was stopped, and are not asked for again.
        assert len([path for path in server.paths(asked) if path.endswith("/jobs")]) == 3
        assert rows(out) == expected(server)
        assert main([option for option in line if option != "--json"]) == 0
        assert "12 jobs of 6 runs of o/r" in capsys.readouterr().out
