"""Listings that move while they are read, and listings that do not hold everything."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from larc.errors import LarcError
from larc.github.client import GitHub
from larc.github.fetching import fetch_jobs
from larc.github.history import History
from larc.github.partial import Partial
from tests.github.fetches import TOKEN, Clock, expected, fetch, fill, rows
from tests.github.github_server import (
    START,
    GitHubServer,
    first,
    make_jobs,
    make_run,
    refuse,
    stamp,
)

# Listings that move -------------------------------------------------------------------------------


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


# More runs than are listed ------------------------------------------------------------------------


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


def test_a_server_that_repeats_one_page_for_ever_is_asked_a_few_times(tmp_path):
    asked = []

    def answer(request):
        asked.append(request.url)
        name = "jobs" if request.url.path.endswith("/jobs") else "workflow_runs"
        return httpx.Response(200, json={"total_count": 900, name: [{"id": 3}]})

    report = fetch_jobs(
        "o/r",
        since="2026-01-01",
        until="2026-01-31",
        out=tmp_path / "jobs.jsonl",
        transport=httpx.MockTransport(answer),
        sleep=lambda _: None,
        clock=lambda: 2e9,
    )
    assert (report.runs, report.miscounted) == (1, 2)
    assert len(asked) < 20
