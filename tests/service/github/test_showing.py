"""What is shown of a repository, from rows that say what comes out."""

import json

import pytest
import sqlalchemy as sa

from larc.service.github.showing import repositories_view, repository_view, time_left
from larc.service.github.tables import job, repository
from larc.service.store.database import now, open_database
from tests.service.github.deliveries import job_event, run_event, stamp


@pytest.fixture
def connection(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/larc.db")
    with database.writing() as opened:
        opened.execute(
            sa.insert(repository).values(
                id=7, name="o/r", full_name="o/r", stream="github.o.r", shard=7, reconciled_at=0.0
            )
        )
        yield opened
    database.close()


def put(connection, number, state="done", risk=None, label=None, seconds=60, **changes):
    """Keep a job; one that runs began so many seconds ago."""
    begins = round(now(connection)) - seconds if state == "asked" else 1000 * number
    row = {
        "repository": 7,
        "id": number,
        "attempt": 1,
        "name": "build",
        "commit": f"c{number}",
        "workflow_id": 5,
        "status": "in_progress" if state == "asked" else "completed",
        "conclusion": None if label is None else ("success", "failure", "cancelled")[label],
        "started_at": begins,
        "completed_at": None if state == "asked" else begins + seconds,
        "ran": True,
        "state": state,
        "seen_at": 0.0,
        "question": str(number),
        "answered": True,
        "risk": risk,
        "probabilities": None if risk is None else json.dumps([0.99 - risk, risk, 0.005, 0.005]),
        "label": label,
    }
    connection.execute(sa.insert(job).values({**row, **changes}))


def view(connection, below=0.05):
    return repository_view(connection, "O/R", below)


def test_running_jobs_are_ordered_by_risk_times_time_left(connection):
    for number, seconds in enumerate((100, 200, 300, 400), start=1):
        put(connection, number, label=0, seconds=seconds)
        put(connection, 10 + number, label=1, seconds=10 * seconds, name="slow")
    put(connection, 20, label=2, seconds=5)  # one that was cancelled says nothing of the time
    put(connection, 31, "asked", risk=0.5, seconds=50)
    put(connection, 32, "asked", risk=0.1, seconds=50, name="slow")
    put(connection, 33, "asked", risk=0.9, seconds=5000)  # longer than any before it
    put(connection, 34, "asked", seconds=50)  # not answered yet
    running = view(connection).running
    assert [one.job_id for one in running] == [32, 31, 33, 34]
    first = running[1]
    assert first.remaining.count == 4
    assert first.remaining.p50 == pytest.approx(150, abs=2)
    assert first.remaining.p90 == pytest.approx(350, abs=2)
    assert first.order == pytest.approx(0.5 * first.remaining.p50)
    assert running[2].remaining is None
    assert running[3].probabilities is None


def test_time_left_is_of_those_that_ran_for_longer():
    assert time_left([10, 20, 30], elapsed=15).p50 == 5
    assert time_left([], elapsed=0) is None


def test_a_label_of_little_probability_is_a_surprise(connection):
    put(connection, 1, risk=0.02, label=1)
    put(connection, 2, risk=0.6, label=1)
    put(connection, 3, risk=0.02, label=0)
    put(connection, 4, label=1)  # never predicted
    shown = view(connection)
    assert [one.job_id for one in shown.surprises] == [1]
    assert [one.job_id for one in shown.recent] == [4, 3, 2, 1]
    assert [one.job_id for one in view(connection, below=0.7).surprises] == [2, 1]


def test_one_commit_with_both_ends_is_flaky(connection):
    put(connection, 1, label=1, commit="aa")
    put(connection, 2, label=0, commit="aa", attempt=2)
    put(connection, 3, label=1, commit="bb")
    put(connection, 4, label=1, commit="bb", attempt=2)
    put(connection, 5, label=2, commit="cc")
    put(connection, 6, label=0, commit="cc", attempt=2)
    put(connection, 7, label=0, commit="bb", workflow_id=6)  # another workflow's
    (flaky,) = view(connection).flaky
    assert (flaky.commits, flaky.repeated) == (1, 2)
    assert (flaky.cases[0].commit, flaky.cases[0].succeeded, flaky.cases[0].failed) == ("aa", 2, 1)


def test_the_ledger_counts_what_cancelling_would_have_done(connection):
    put(connection, 1, risk=0.95, label=1, seconds=100)
    put(connection, 2, risk=0.8, label=1, seconds=10)
    put(connection, 3, risk=0.8, label=0, seconds=1)
    put(connection, 4, risk=0.7, label=2, seconds=1000)
    put(connection, 5, risk=0.4, label=1, seconds=10_000)
    put(connection, 6, "asked", risk=0.99)
    ledger = {one.at: one for one in view(connection).what_if}
    half = ledger[0.5]
    assert (half.cancelled, half.saved, half.saved_s) == (4, 2, 110)
    assert (half.lost, half.lost_s, half.other) == (1, 1, 1)
    assert (ledger[0.9].cancelled, ledger[0.9].saved_s, ledger[0.9].lost) == (1, 100, 0)
    assert ledger[0.99].cancelled == 0


def test_a_token_sees_its_repositories_alone(sqlite_follower):
    other = {"id": 8, "full_name": "p/q"}
    sqlite_follower.send_all(run_event(), run_event(repository=other))
    sqlite_follower.view("p/q")
    server = sqlite_follower.server
    token = server.token_for(["read"], ["github.o.*"])
    headers = {"Authorization": f"Bearer {token}"}
    listed = server.http.get("/v1/github/repositories", headers=headers).json()["repositories"]
    assert [one["repository"] for one in listed] == ["o/r"]
    for name, status in (("o/r", 200), ("p/q", 404), ("no/one", 404)):
        answer = server.http.get(f"/v1/github/repositories/{name}", headers=headers)
        assert answer.status_code == status
    told = {"events": [{"kind": "ask", "jobs": [history_job()]}]}
    path = "/v1/github/repositories/o/r/history"
    assert server.http.post(path, json=told, headers=headers).status_code == 403


def history_job():
    return {
        "repository": "o/r",
        "job_name": "build",
        "head_sha": "aa",
        "started_at": 10,
        "completed_at": 20,
        "label": 0,
        "job_id": 1,
    }


def test_a_deleted_stream_takes_its_repository_along(follower):
    follower.send_all(run_event(), job_event(name="a secret name"))
    follower.view()
    assert follower.server.http.delete("/v1/streams/github.o.r").status_code == 204
    assert follower.server.http.get("/v1/github/repositories/o/r").status_code == 404
    # What comes later begins anew.
    follower.send_all(run_event(4), job_event(9, run_id=4, started_at=stamp(99)))
    assert follower.view()["counts"]["jobs"] == 1


def test_repositories_are_listed_with_their_counts(connection):
    put(connection, 1, label=1)
    put(connection, 2, "asked", risk=0.5)
    (one,) = repositories_view(connection, ["*"]).repositories
    assert (one.repository, one.running, one.ended) == ("o/r", 1, 1)
    assert repositories_view(connection, ["tickets.*"]).repositories == []
