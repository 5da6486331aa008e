import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from larc.ci import partial as partial_module
from larc.ci import read_jobs
from larc.ci.answers import flat_row
from larc.ci.fetching import fetch_jobs
from larc.ci.github import ATTEMPTS, LIMIT_WAITS, GitHub
from larc.ci.history import History
from larc.ci.partial import Partial
from larc.errors import LarcError
from tests.ci.github_server import (
    START,
    GitHubServer,
    Hold,
    cut_body,
    cut_json,
    drop,
    first,
    make_jobs,
    make_run,
    nothing_new,
    redirect,
    refuse,
    stamp,
    web_page,
)

TOKEN = "ghp_neverToBeSeenAnywhere0123456789"
WINDOW = {"since": "2026-01-05", "until": "2026-01-07"}
LATER = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server():
    with GitHubServer() as server:
        fill(server, 6)
        yield server


def fill(server, runs, jobs=2):
    for number in range(runs):
        run = make_run(number)
        server.runs.append(run)
        server.jobs[run["id"]] = make_jobs(run, jobs)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, now=LATER):
        self.now, self.slept = now, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def fetch(server, out, clock=None, **changes):
    clock = clock or Clock()
    arguments = {**WINDOW, "out": out, "base_url": server.url, "token": TOKEN}
    arguments |= {"sleep": clock.sleep, "clock": clock} | changes
    return fetch_jobs(arguments.pop("repository", "o/r"), **arguments)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(server):
    found = [flat_row(job, run) for run in server.runs for job in server.jobs[run["id"]]]
    return sorted(found, key=lambda row: (row["started_at"], row["job_id"]))


def names(directory):
    return sorted(path.name for path in directory.iterdir())


# What is written --------------------------------------------------------------------------------


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
    found, fetched = read_jobs(tmp_path / "jobs.jsonl")
    assert sorted(found) == sorted(wanted)
    assert len(found) > 10
    # One of these answers holds a job twice.
    assert (read.left_out, fetched.left_out) == ({"duplicate": 1}, {})


# Limits and failures ----------------------------------------------------------------------------


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


# Listings that move -----------------------------------------------------------------------------


def test_a_run_that_appears_between_two_pages_is_found(tmp_path):
    with GitHubServer() as server:
        fill(server, 150, jobs=1)
        new = make_run(150)

        def appear():
            server.runs.append(new)
            server.jobs[new["id"]] = make_jobs(new, 1)

        server.plan(first(appear), match="created.*[?&]page=2")
        clock, told = Clock(), []
        report = fetch(server, tmp_path / "jobs.jsonl", clock, on_progress=told.append)
        assert report.runs == 151
        assert rows(tmp_path / "jobs.jsonl") == expected(server)
    assert clock.slept == [1]
    assert any("changed while it was read" in step.note for step in told)


def test_a_run_that_is_deleted_between_two_pages_hides_no_other(tmp_path):
    with GitHubServer() as server:
        fill(server, 150, jobs=1)
        server.plan(first(lambda: server.runs.pop()), match="created.*[?&]page=2")
        report = fetch(server, tmp_path / "jobs.jsonl")
        assert report.runs == 149
        assert rows(tmp_path / "jobs.jsonl") == expected(server)


def test_jobs_that_appear_while_they_are_read_are_found(server, tmp_path):
    jobs = make_jobs(server.runs[2], 130)
    server.jobs[1002] = jobs[1:]
    server.plan(first(lambda: server.jobs[1002].insert(0, jobs[0])), match="1002/jobs.*[?&]page=2")
    fetch(server, tmp_path / "jobs.jsonl")
    assert rows(tmp_path / "jobs.jsonl") == expected(server)


def test_pages_that_never_agree_are_read_in_smaller_windows(tmp_path):
    with GitHubServer() as server:
        fill(server, 150, jobs=1)
        calm = server.answer

        def unsteady(path, query):
            """Return one run twice and hide another, wherever there is a second page."""
            body, more = calm(path, query)
            runs = body.get("workflow_runs", [])
            if len(runs) < body["total_count"] and query["page"] == "2":
                runs[0] = calm(path, query | {"page": "1"})[0]["workflow_runs"][-1]
            return body, more

        server.answer = unsteady
        report = fetch(server, tmp_path / "jobs.jsonl", until="2026-01-05")
        assert (report.runs, report.miscounted) == (150, 0)
        assert rows(tmp_path / "jobs.jsonl") == expected(server)


def test_a_count_that_is_wrong_for_good_is_accepted_and_reported(server, tmp_path):
    calm = server.answer

    def generous(path, query):
        body, more = calm(path, query)
        if "workflow_runs" in body or "1002" in path:
            body["total_count"] += 1
        return body, more

    server.answer = generous
    clock = Clock()
    report = fetch(server, tmp_path / "jobs.jsonl", clock)
    assert report.miscounted == 2
    assert clock.slept == [1, 2, 4] * 2
    assert "2 listings miscounted by the server" in str(report)
    assert rows(tmp_path / "jobs.jsonl") == expected(server)


def test_jobs_that_never_stop_moving_end_in_one_sentence(server, tmp_path):
    def move():
        server.jobs[1002] = make_jobs(server.runs[2], len(server.jobs[1002]) + 1)

    server.jobs[1002] = make_jobs(server.runs[2], 150)
    server.plan(first(move), match="1002/jobs.*[?&]page=2", times=99)
    with pytest.raises(LarcError, match="the jobs of run 1002 kept changing"):
        fetch(server, tmp_path / "jobs.jsonl")


def test_a_deleted_run_is_counted_and_a_deleted_repository_is_not_taken_for_one(server, tmp_path):
    del server.jobs[1002]
    report = fetch(server, tmp_path / "jobs.jsonl")
    assert (report.runs, report.gone_runs, report.jobs) == (6, 1, 10)
    server.plan(refuse(404), match="1002/jobs|[?&]per_page=1&|[?&]per_page=1$", times=99)
    with pytest.raises(LarcError, match="o/r was not found"):
        fetch(server, tmp_path / "other.jsonl")


# More runs than are listed ----------------------------------------------------------------------


def test_more_than_a_thousand_runs_are_listed_in_parts(tmp_path):
    with GitHubServer() as server:
        # 2,600 runs in three days, 2,400 of them on the second; 1,500 of those in one hour.
        for number in range(2600):
            if number < 1500:
                created = START + timedelta(hours=36, seconds=2 * number)
            else:
                created = START + timedelta(hours=22, seconds=120 * (number - 1500))
            server.runs.append(make_run(number, created))
        with (
            Partial(tmp_path / "jobs.jsonl", {}) as partial,
            GitHub("o/r", server.url, TOKEN) as github,
        ):
            begin = int(START.timestamp())
            runs = History(github, partial).runs(begin, begin + 3 * 86_400 - 1)
    assert [run["id"] for run in runs] == [1000 + number for number in range(2600)]
    asked = [one.query["created"] for one in server.asked]
    # Days first, then parts of the one that has too many, and no window that was split is paged.
    assert asked[1] == "2026-01-05T00:00:00Z..2026-01-05T23:59:59Z"
    assert "2026-01-06T00:00:00Z..2026-01-06T23:59:59Z" in asked
    assert "2026-01-06T12:00:00Z..2026-01-06T23:59:59Z" in asked
    assert all(int(one.query["page"]) <= 10 for one in server.asked)
    assert len(asked) < 50


def test_too_many_runs_in_one_second_are_refused(tmp_path):
    with GitHubServer() as server:
        server.runs = [make_run(number, START) for number in range(1001)]
        with pytest.raises(LarcError, match="more than 1000 runs created in the one second"):
            fetch(server, tmp_path / "jobs.jsonl", since=stamp(START), until=stamp(START))


def test_a_server_that_does_not_know_the_filter(tmp_path):
    with GitHubServer(knows_created=False) as server:
        fill(server, 6)
        server.runs[0]["created_at"] = "2025-12-31T23:59:59Z"
        report = fetch(server, tmp_path / "jobs.jsonl")
        assert report.runs == 5
        server.runs = [make_run(number) for number in range(1200)]
        with pytest.raises(LarcError, match="too old to know the filter"):
            fetch(server, tmp_path / "other.jsonl", until="2026-01-05")


def test_the_future_is_not_asked_about(tmp_path):
    with GitHubServer() as server:
        server.runs = [make_run(number) for number in range(1200)]
        clock = Clock(datetime.fromisoformat(server.runs[-1]["created_at"]).timestamp())
        end = int(datetime(2036, 1, 1, tzinfo=UTC).timestamp())
        with (
            Partial(tmp_path / "jobs.jsonl", {}) as partial,
            GitHub("o/r", server.url, TOKEN) as github,
        ):
            runs = History(github, partial, clock=clock).runs(int(START.timestamp()), end)
    assert len(runs) == 1200
    days = {one.query["created"][:10] for one in server.asked}
    assert "2026-01-05" in days
    assert max(days) < "2026-01-14"


# Addresses and the token ------------------------------------------------------------------------


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
    with pytest.raises(LarcError, match=r"pip install 'larc\[studies\]'"):
        fetch(server, tmp_path / "jobs.jsonl")


# Going on ---------------------------------------------------------------------------------------


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
            with pytest.raises(LarcError, match="is being fetched by another process"):
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

    write, path = partial_module.write_whole, partial_module.Path
    for place in range(1, 100):
        left = place
        with monkeypatch.context() as patch:
            patch.setattr(partial_module, "write_whole", stopping(write))
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
    assert place > 20


# Each line on its standard input starts a process that fetches: importing once is enough.
SCRIPT = """
import os, sys
from larc.ci.fetching import fetch_jobs

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
        out, said = tmp_path / "jobs.jsonl.gz", tmp_path / "said"
        with (
            said.open("w") as errors,
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
    assert "56 jobs of 8 runs of o/r" in said.read_text()
    assert TOKEN not in said.read_text()
    assert out.read_bytes() == (tmp_path / "whole.jsonl.gz").read_bytes()
    assert "jobs.jsonl.gz.partial" not in names(tmp_path)
