"""A fetch that goes on: after an interruption, beside another, over files that are there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from larc.domains.ci import read_jobs
from larc.errors import LarcError
from larc.github import partial as partial_module
from larc.io.files import atomic_write
from tests.github.fetches import TOKEN, Clock, expected, fetch, fill, names, rows
from tests.github.github_server import START, GitHubServer, Hold, make_jobs, make_run, refuse

ROOT = Path(__file__).parents[2]


def test_progress_counts_windows_then_runs(server, tmp_path):
    told = []
    fetch(server, tmp_path / "jobs.jsonl", on_progress=told.append)
    assert [(step.stage, step.done, step.total) for step in told] == [
        ("runs", 0, 1),
        ("runs", 1, 1),
        *(("jobs", done, 6) for done in range(7)),
    ]


def test_what_cannot_change_is_not_asked_again_and_the_rest_under_its_tag(tmp_path):
    with GitHubServer() as server:
        fill(server, 6)
        out = tmp_path / "jobs.jsonl"
        # It is now: the window is open, and one run has not ended.
        clock = Clock(START.timestamp() + 3600)
        server.runs[1]["status"] = server.jobs[1001][0]["status"] = "in_progress"
        server.plan(refuse(401), match="1005/jobs")
        with pytest.raises(LarcError):
            fetch(server, out, clock)
        asked = len(server.asked)
        report = fetch(server, out, clock)
        ids = [path.split("/")[-2] for path in server.paths(asked)]
        assert ids == ["actions", "1001", "1005"]
        assert [one.status for one in server.asked[asked:]] == [304, 304, 200]
        assert (report.requests, report.unchanged) == (3, 2)
        assert rows(out) == expected(server)


def test_what_changed_while_it_was_interrupted_is_read(tmp_path):
    with GitHubServer() as server:
        fill(server, 6)
        out = tmp_path / "jobs.jsonl"
        clock = Clock(START.timestamp() + 3600)
        server.jobs[1001][0] |= {"status": "in_progress", "conclusion": None}
        server.plan(refuse(401), match="1005/jobs")
        with pytest.raises(LarcError):
            fetch(server, out, clock)
        # A job ends, a run is started again, and another one is new.
        server.jobs[1001][0] |= {"status": "completed", "conclusion": "failure"}
        server.runs[2] |= {"run_attempt": 2, "updated_at": "2026-01-05T23:00:00Z"}
        server.jobs[1002] += [server.jobs[1002][0] | {"id": 99, "run_attempt": 2}]
        new = make_run(6)
        server.runs.append(new)
        server.jobs[new["id"]] = make_jobs(new, 3)
        report = fetch(server, out, clock)
        assert (report.runs, report.jobs, report.unfinished_jobs) == (7, 16, 0)
        assert rows(out) == expected(server)


def test_a_finished_file_is_left_alone(server, tmp_path):
    out = tmp_path / "jobs.jsonl"
    done = fetch(server, out)
    before, asked = out.read_bytes(), len(server.asked)
    again = fetch(server, out, since="2026-01-05T00:00:00Z", token="another")
    assert again.already
    assert not done.already
    assert (again.runs, again.jobs, again.requests) == (done.runs, done.jobs, 0)
    assert "fetched before, nothing was done" in str(again)
    for changes in (
        {"since": "2026-01-06"},
        {"until": "2026-01-06"},
        {"repository": "o/other"},
        {"base_url": f"{server.url}/api/v3"},
    ):
        [name] = changes
        with pytest.raises(LarcError, match=f"was fetched with {name} .* choose another output"):
            fetch(server, out, **changes)
    assert (out.read_bytes(), len(server.asked)) == (before, asked)
    out.write_bytes(before + b"\n")
    with pytest.raises(LarcError, match="is not as a fetch left it"):
        fetch(server, out)
    out.unlink()
    assert not fetch(server, out).already
    assert out.read_bytes() == before


def test_a_file_of_somebody_else_is_left_alone(server, tmp_path):
    out = tmp_path / "jobs.jsonl"
    out.write_text("mine\n")
    with pytest.raises(LarcError, match="is not as a fetch left it"):
        fetch(server, out)
    out.unlink()
    (tmp_path / "jobs.jsonl.partial").mkdir()
    (tmp_path / "jobs.jsonl.partial" / "notes").write_text("mine\n")
    with pytest.raises(LarcError, match="holds something else"):
        fetch(server, out)
    assert server.asked == []
    with pytest.raises(LarcError, match="is a directory; give the name of a file"):
        fetch(server, tmp_path)


def test_an_unfinished_fetch_of_something_else_is_left_alone(server, tmp_path):
    out = tmp_path / "jobs.jsonl"
    server.plan(refuse(401), match="1003/jobs")
    with pytest.raises(LarcError):
        fetch(server, out)
    with pytest.raises(LarcError, match=r"jobs\.jsonl\.partial was fetched with until"):
        fetch(server, out, until="2026-01-06")
    assert fetch(server, out).jobs == 12


def test_two_at_once_do_not_mix(server, tmp_path):
    out = tmp_path / "jobs.jsonl"

    def interfere(step):
        if step.stage == "jobs" and step.done == 3:
            with pytest.raises(LarcError, match="is in use by process"):
                fetch(server, out)

    assert fetch(server, out, on_progress=interfere).jobs == 12


def test_an_unfinished_fetch_is_no_history(server, tmp_path):
    fetch(server, tmp_path / "whole.jsonl")
    server.plan(refuse(401), match="1003/jobs")
    with pytest.raises(LarcError):
        fetch(server, tmp_path / "jobs.jsonl")
    _, accounting = read_jobs(tmp_path)
    assert (accounting.read, accounting.accepted) == (12, 12)


class Stop(BaseException):
    """Stands for a process that ends here and now."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_stopping_at_any_write_rename_or_removal_loses_nothing(
    server, tmp_path, monkeypatch, moment
):
    del server.runs[3:]
    whole = tmp_path / "whole.jsonl"
    fetch(server, whole)
    out = tmp_path / "jobs.jsonl"
    left = 0

    def stopping(work):
        def step(*arguments, **options):
            nonlocal left
            left -= 1
            here = left == 0
            if here and moment == "before":
                raise Stop
            result = work(*arguments, **options)
            if here:
                raise Stop
            return result

        return step

    write, path = atomic_write, Path
    for stop_at in range(1, 100):
        left = stop_at
        with monkeypatch.context() as patch:
            patch.setattr(partial_module, "atomic_write", stopping(write))
            for name in ("replace", "unlink", "rmdir", "mkdir"):
                patch.setattr(path, name, stopping(getattr(path, name)))
            try:
                fetch(server, out)
                break
            except Stop:
                pass
        # Never a part of the file.
        assert not out.exists() or out.read_bytes() == whole.read_bytes()
        report = fetch(server, out)
        assert (report.runs, report.jobs) == (3, 6)
        assert out.read_bytes() == whole.read_bytes()
        assert names(tmp_path)[:2] == ["jobs.jsonl", "jobs.jsonl.fetched"]
        assert len(names(tmp_path)) == 4
        out.unlink()
        (tmp_path / "jobs.jsonl.fetched").unlink()
    # Every unit was written and removed.
    assert stop_at > 20


# Each line on its standard input starts a process that fetches: importing once is enough.
SCRIPT = """
import os, sys
from larc.github.fetching import fetch_jobs

for _ in sys.stdin:
    child = os.fork()
    if not child:
        report = fetch_jobs(
            "o/r", since="2026-01-05", until="2026-01-07", out=sys.argv[1], base_url=sys.argv[2],
            token=os.environ["GITHUB_TOKEN"],
            on_progress=lambda step: print(step, file=sys.stderr, flush=True),
        )
        print(report, file=sys.stderr, flush=True)
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def test_a_process_killed_within_every_listing_is_carried_on_to_the_same_bytes(tmp_path):
    with GitHubServer(page_size=5) as server:
        fill(server, 8, jobs=7)
        fetch(server, tmp_path / "whole.jsonl.gz")
        requests = len(server.asked)
        out, log = tmp_path / "jobs.jsonl.gz", tmp_path / "said"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                [sys.executable, "-c", SCRIPT, str(out), server.url],
                cwd=ROOT,
                env=os.environ | {"GITHUB_TOKEN": TOKEN},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as starter,
        ):

            def start():
                starter.stdin.write("go\n")
                starter.stdin.flush()
                return int(starter.stdout.readline())

            # After the first page of the runs, and of each run's jobs. What was read whole is not
            # asked for again: one process lists the runs, each later one reads one run further.
            for after in (1, *[3] * 8):
                hold = Hold()
                server.plan(hold, after=after)
                process = start()
                assert hold.reached.wait(60)
                os.kill(process, signal.SIGKILL)
                assert int(starter.stdout.readline()) == signal.SIGKILL
                hold.go_on.set()
                assert not out.exists()
            asked = len(server.asked)
            start()
            assert starter.stdout.readline() == "0\n"
            starter.stdin.close()
        assert len(server.asked) - asked < requests
    assert "56 jobs of 8 runs of o/r" in log.read_text()
    assert TOKEN not in log.read_text()
    assert out.read_bytes() == (tmp_path / "whole.jsonl.gz").read_bytes()
    assert "jobs.jsonl.gz.partial" not in names(tmp_path)
