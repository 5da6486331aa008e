"""A fetched history: what is written, limits, failures, addresses, and the token."""

import json
import logging
import random
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from larc.domains.ci import read_jobs
from larc.errors import LarcError
from larc.github.client import ATTEMPTS, LIMIT_WAITS
from larc.github.fetching import fetch_jobs
from tests.github.fetches import LATER, TOKEN, WINDOW, Clock, expected, fetch, fill, names, rows
from tests.github.github_server import (
    GitHubServer,
    cut_body,
    cut_json,
    drop,
    make_jobs,
    nothing_new,
    redirect,
    refuse,
    stamp,
    web_page,
)

# What is written ----------------------------------------------------------------------------------


def test_every_job_of_every_page_is_written_once_in_order(tmp_path):
    with GitHubServer() as server:
        fill(server, 130, jobs=1)
        server.jobs[1003] = make_jobs(server.runs[3], 250)
        server.jobs[1007] = []
        report = fetch(server, tmp_path / "jobs.jsonl")
        assert rows(tmp_path / "jobs.jsonl") == expected(server)
        assert (report.runs, report.jobs, report.unfinished_jobs) == (130, 378, 0)
        # Two pages of runs, three pages of jobs for one of them.
        assert report.requests == len(server.asked) == 2 + 129 + 3
    jobs, accounting = read_jobs(tmp_path / "jobs.jsonl")
    assert len(jobs) == accounting.read == 378
    assert {job.event for job in jobs} == {"push", "pull_request"}
    assert names(tmp_path) == ["jobs.jsonl", "jobs.jsonl.fetched"]


def test_a_name_in_gz_is_packed_and_the_same_bytes_each_time(server, tmp_path):
    fetch(server, tmp_path / "a" / "jobs.jsonl.gz")
    fetch(server, tmp_path / "b.jsonl.gz")
    fetch(server, tmp_path / "c.jsonl")
    packed = (tmp_path / "b.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "a" / "jobs.jsonl.gz").read_bytes()
    assert packed[:2] == b"\x1f\x8b"
    assert read_jobs(tmp_path / "b.jsonl.gz")[0] == read_jobs(tmp_path / "c.jsonl")[0]


def test_the_window_is_days_or_seconds_and_both_ends_count(server, tmp_path):
    second = datetime.fromisoformat(server.runs[2]["created_at"])
    for number, (since, until) in enumerate(
        [
            (stamp(second), stamp(second)),
            (second, second + timedelta(minutes=6)),
            ("2026-01-05T01:14:00+01:00", "2026-01-05T01:14:00.9+01:00"),
        ]
    ):
        report = fetch(server, tmp_path / f"{number}.jsonl", since=since, until=until)
        assert report.runs == 1
    whole = fetch(server, tmp_path / "day.jsonl", since=date(2026, 1, 5), until=date(2026, 1, 5))
    assert (whole.runs, whole.since, whole.until) == (
        6,
        "2026-01-05T00:00:00Z",
        "2026-01-05T23:59:59Z",
    )
    assert server.asked[0].query["created"] == "2026-01-05T00:14:00Z..2026-01-05T00:14:00Z"


def test_unfinished_jobs_are_written_as_they_are_and_counted(server, tmp_path):
    server.runs[5] |= {"status": "in_progress", "conclusion": None}
    changes = {"status": "in_progress", "conclusion": None, "completed_at": None}
    server.jobs[1005][1] |= changes
    server.jobs[1004][0] |= {"status": "queued", "conclusion": None, "started_at": None}
    report = fetch(server, tmp_path / "jobs.jsonl")
    assert (report.unfinished_runs, report.unfinished_jobs, report.jobs) == (1, 2, 12)
    assert "2 jobs unfinished" in str(report)
    _, accounting = read_jobs(tmp_path / "jobs.jsonl")
    assert accounting.left_out == {"not_completed": 2}


def test_real_answers_give_the_jobs_that_reading_them_gives(shared_data, tmp_path):
    source = shared_data / "github"
    numbers = (12007373278, 12083382635, 12890516473)
    pairs = [source / f"tt-github-actions_{number}_workflow" for number in numbers]
    with GitHubServer() as server:
        for pair in pairs:
            run = json.loads(pair.with_suffix(".json").read_text())
            server.runs.append(run)
            jobs = json.loads(Path(f"{pair}_jobs.json").read_text())["jobs"]
            server.jobs[run["id"]] = jobs
        # The runs name other repositories than the one that was asked for: they were renamed.
        fetch(server, tmp_path / "jobs.jsonl", since="2024-11-01", until="2025-02-01")
    files = [Path(f"{pair}{end}") for pair in pairs for end in (".json", "_jobs.json")]
    wanted, read = read_jobs(files)
    fetched_jobs, fetched = read_jobs(tmp_path / "jobs.jsonl")
    assert sorted(fetched_jobs) == sorted(wanted)
    assert len(fetched_jobs) > 10
    # One of these answers holds a job twice.
    assert (read.left_out, fetched.left_out) == ({"duplicate": 1}, {})


# Limits and failures ------------------------------------------------------------------------------


def limit(seconds):
    """Return what GitHub answers where the hour's questions are used up."""
    reset = int(time.time()) + seconds
    message = "API rate limit exceeded for user ID 1."
    return refuse(403, message, x_ratelimit_remaining=0, x_ratelimit_reset=reset)


def test_rate_limits_are_waited_out_and_told(server, tmp_path):
    server.plan(limit(30), match="created")
    server.plan(refuse(429, retry_after=7), match="1002/jobs")
    server.plan(refuse(403, "You have exceeded a secondary rate limit."), "1003/jobs", times=2)
    server.plan(refuse(403, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), match="1004/jobs")
    clock, told = Clock(), []
    fetch(server, tmp_path / "jobs.jsonl", clock, on_progress=told.append)
    assert rows(tmp_path / "jobs.jsonl") == expected(server)
    assert 29 <= clock.slept[0] <= 31
    assert clock.slept[1:] == [7, 60, 120, 0]
    notes = [step.note for step in told if step.note]
    assert notes[1] == f"127.0.0.1 limits the rate; waiting 7 s, until {until(clock.slept[:2])}"
    assert len(notes) == 5


def until(slept):
    return stamp(datetime.fromtimestamp(LATER + sum(slept) + 0.999, UTC))


def test_a_limit_is_not_waited_out_for_ever(server, tmp_path):
    server.plan(limit(9000), match="1004/jobs")
    clock = Clock()
    with pytest.raises(LarcError, match=r"limits the rate until .*; what was read is kept"):
        fetch(server, tmp_path / "jobs.jsonl", clock)
    assert clock.slept == []
    server.plan(refuse(429, retry_after=5), match="1004/jobs", times=99)
    with pytest.raises(LarcError, match="limits the rate"):
        fetch(server, tmp_path / "jobs.jsonl", clock)
    assert clock.slept == [5] * LIMIT_WAITS
    server.plans.clear()
    asked = len(server.asked)
    fetch(server, tmp_path / "jobs.jsonl")
    assert [path.split("/")[-2] for path in server.paths(asked)] == ["1004", "1005"]
    assert rows(tmp_path / "jobs.jsonl") == expected(server)


@pytest.mark.parametrize(
    "fault", [refuse(502), refuse(500), cut_json, cut_body, drop, web_page, nothing_new]
)
@pytest.mark.parametrize("match", ["created", "1003/jobs"])
def test_what_fails_is_asked_again(server, tmp_path, fault, match):
    server.plan(fault, match=match, times=3)
    clock, told = Clock(), []
    fetch(server, tmp_path / "jobs.jsonl", clock, on_progress=told.append)
    assert rows(tmp_path / "jobs.jsonl") == expected(server)
    assert clock.slept == [1, 2, 4]
    assert sum("trying again" in step.note for step in told) == 3


def test_a_failing_server_may_say_when_it_is_back(server, tmp_path):
    server.plan(refuse(503, retry_after=90))
    clock = Clock()
    fetch(server, tmp_path / "jobs.jsonl", clock)
    assert clock.slept == [90]


def test_what_keeps_failing_ends_in_one_sentence_and_is_carried_on(server, tmp_path):
    server.plan(refuse(502), match="1003/jobs", times=99)
    clock = Clock()
    with pytest.raises(LarcError, match=rf"failed {ATTEMPTS} times in a row, last with HTTP 502;"):
        fetch(server, tmp_path / "jobs.jsonl", clock)
    assert clock.slept == [2**n for n in range(ATTEMPTS - 1)]
    assert names(tmp_path) == ["jobs.jsonl.partial"]
    server.plans.clear()
    fetch(server, tmp_path / "jobs.jsonl")
    assert rows(tmp_path / "jobs.jsonl") == expected(server)


def test_no_server_at_all(tmp_path):
    with GitHubServer() as server:
        url = server.url
    clock = Clock()
    with pytest.raises(LarcError, match=r"127\.0\.0\.1 failed .*refused"):
        fetch_jobs("o/r", **WINDOW, out=tmp_path / "a", base_url=url, sleep=clock.sleep)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (refuse(401, "Bad credentials"), "does not accept the token (401); check GITHUB_TOKEN"),
        (refuse(404), "o/r was not found at 127.0.0.1 (404); check its name"),
        (refuse(403, "Resource not accessible"), "(403: Resource not accessible); use a token"),
        (refuse(422, f"{TOKEN} is wrong {TOKEN}"), "refused (HTTP 422: *** is wrong ***)."),
    ],
)
def test_a_refusal_is_one_sentence_without_the_token_and_leaves_no_trace(
    server, tmp_path, fault, sentence
):
    server.plan(fault)
    with pytest.raises(LarcError) as caught:
        fetch(server, tmp_path / "jobs.jsonl")
    assert sentence in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert len(server.asked) == 1
    # A mistyped name must not stand in the way of the right one.
    assert names(tmp_path) == []


def test_without_a_token_none_is_sent(server, tmp_path):
    server.plan(refuse(401))
    with pytest.raises(LarcError, match="asks for a token"):
        fetch(server, tmp_path / "jobs.jsonl", token=None)
    fetch(server, tmp_path / "jobs.jsonl", token="")
    assert not any("authorization" in one.headers for one in server.asked)


def test_any_schedule_of_misbehaviour_gives_the_same_bytes(tmp_path):
    with GitHubServer(page_size=7) as server:
        fill(server, 20, jobs=9)
        fetch(server, tmp_path / "calm.jsonl")
        calm = (tmp_path / "calm.jsonl").read_bytes()
        faults = [refuse(502), cut_json, cut_body, drop, limit(3), refuse(429, retry_after=1)]
        for seed in range(3):
            chance = random.Random(seed)
            for after in range(60):
                if chance.random() < 0.4:
                    server.plan(chance.choice(faults), after=after)
            fetch(server, tmp_path / f"{seed}.jsonl")
            server.plans.clear()
            assert (tmp_path / f"{seed}.jsonl").read_bytes() == calm
    assert len(calm.splitlines()) == 180


# Addresses and the token --------------------------------------------------------------------------


def test_an_enterprise_server_answers_below_its_own_path(tmp_path):
    with GitHubServer(prefix="/api/v3") as server:
        fill(server, 2)
        fetch(server, tmp_path / "jobs.jsonl", base_url=f"{server.url}/")
        assert rows(tmp_path / "jobs.jsonl") == expected(server)
        assert server.asked[0].path == "/api/v3/repos/o/r/actions/runs"
        # The slash at the end makes no other address.
        assert fetch(server, tmp_path / "jobs.jsonl").already


def test_a_renamed_repository_is_followed_with_the_token(server, tmp_path):
    move = redirect("/repos/o/r/actions/runs?created=2026-01-05..2026-01-08&per_page=100")
    server.plan(move, match="created")
    assert fetch(server, tmp_path / "jobs.jsonl").runs == 6
    assert all(one.headers["authorization"] == f"Bearer {TOKEN}" for one in server.asked)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_token_does_not_follow_to_another_host(server, tmp_path, status):
    with GitHubServer(runs=server.runs, jobs=server.jobs) as other:

        def elsewhere(handler):
            return redirect(f"{other.url}{handler.path}", status)(handler)

        def back(handler):
            return redirect(f"{server.url}{handler.path}", status)(handler)

        server.plan(elsewhere, match="created|1002/jobs|1003/jobs", times=3)
        # And it does not come back from there either.
        other.plan(back, match="1003/jobs")
        fetch(server, tmp_path / "jobs.jsonl")
        assert rows(tmp_path / "jobs.jsonl") == expected(server)
        assert len(other.asked) == 3
        assert TOKEN not in str(other.asked)
        assert sum("authorization" not in one.headers for one in server.asked) == 1


def test_redirects_without_end_are_refused(server, tmp_path):
    server.plan(redirect("/elsewhere"), times=99)
    with pytest.raises(LarcError, match="redirects badly"):
        fetch(server, tmp_path / "jobs.jsonl")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"repository": "o"}, "'o' is no repository; give it as OWNER/REPO"),
        ({"repository": "../r"}, "is no repository"),
        ({"repository": "o/.."}, "is no repository"),
        ({"repository": "o/r/../../x"}, "is no repository"),
        ({"since": "yesterday"}, "since 'yesterday' is no time"),
        ({"since": "2026-01-05T12:00:00"}, "has no time zone"),
        ({"since": "2026-01-08"}, "until 2026-01-07 is before since 2026-01-08"),
        ({"since": "0001-01-01"}, "before the first workflow run"),
        ({"base_url": "http://github.example.org/api/v3"}, "a token would be readable"),
        ({"base_url": "github.example.org"}, "no web address"),
        ({"base_url": "ftp://github.example.org"}, "no web address"),
        ({"base_url": "https://me:hush@github.example.org"}, "more than scheme, host and path"),
        ({"token": f"{TOKEN}\n{TOKEN}"}, "characters that no token has"),
        ({"token": "ключ"}, "characters that no token has"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_asked(server, tmp_path, changes, sentence):
    with pytest.raises(LarcError) as caught:
        fetch(server, tmp_path / "jobs.jsonl", **changes)
    assert sentence in str(caught.value)
    assert not any(secret in str(caught.value) for secret in (TOKEN, "hush", "ключ"))
    assert server.asked == []
    assert names(tmp_path) == []


def test_the_token_is_in_no_file_message_or_log(server, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    told = []
    out = tmp_path / "jobs.jsonl"
    server.plan(refuse(502, TOKEN), match="1002")
    server.plan(refuse(403, f"{'x' * 190} {TOKEN}"), match="1004")
    with pytest.raises(LarcError) as caught:
        fetch(server, out, on_progress=told.append)
    seen = [read_all(tmp_path), str(caught.value), str(told)]
    report = fetch(server, out, on_progress=told.append)
    seen += [read_all(tmp_path), str(report), str(told), caplog.text, *capfd.readouterr()]
    assert TOKEN in server.asked[0].headers["authorization"]
    assert not any(TOKEN[:9] in text for text in seen)


def read_all(directory):
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return "".join(path.read_text() for path in files)


def test_httpx_is_asked_for_by_name(server, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(LarcError, match=r"pip install 'larc-lm\[studies\]'"):
        fetch(server, tmp_path / "jobs.jsonl")
