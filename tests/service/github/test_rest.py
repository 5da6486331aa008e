"""What no event said is asked of GitHub, what events lost is found, and one check run is shown."""

import sys

import pytest

from larc.errors import LarcError
from larc.github.apps import AppTokens
from larc.service.github.outbox import escaped
from tests.service.conftest import until
from tests.service.github.deliveries import job_event, run_event, stamp
from tests.service.github.rest_server import Rest

NOBODY = {"runner_id": None, "runner_name": None, "steps": [], "labels": []}


@pytest.fixture
def rest():
    with Rest() as server:
        yield server


def asking(follow, rest, **changes):
    chosen = {"api": rest.url, "token": "ghp_of_the_tests", "reconcile_s": 3600.0}
    return follow(**(chosen | changes))


def job_of(*arguments, **changes):
    return job_event(*arguments, **changes)["workflow_job"]


def test_a_run_whose_event_never_came_is_asked_for(follow, rest):
    rest.runs[3] = run_event()["workflow_run"]
    follower = asking(follow, rest)
    hostile = {"run_url": "http://127.0.0.1:1/repos/o/r/actions/runs/3"}
    follower.send_all(job_event(**hostile))
    until(lambda: follower.view()["counts"]["running"] == 1)
    (question,) = follower.server.events("github.o.r")
    assert "Path: .github/workflows/ci.yml\nEvent: push" in question["body"]["prompt"]
    assert rest.paths() == ["/repos/o/r/actions/runs/3/attempts/1"]
    assert set(rest.authorized) == {"Bearer ghp_of_the_tests"}


def test_a_copy_is_recognised_by_the_attempt_that_rest_tells(follow, rest):
    rest.runs[3] = run_event(attempt=2, run_started_at=stamp(500))["workflow_run"]
    follower = asking(follow, rest)
    follower.send_all(job_event(11, "completed", run_attempt=2))
    until(lambda: follower.view()["counts"]["left_out"])
    assert follower.view()["counts"]["left_out"] == {"copy_of_an_earlier_attempt": 1}


def test_the_end_of_a_job_that_was_never_delivered_is_found(follow, rest):
    follower = asking(follow, rest, reconcile_s=1.0, overdue_s=0.0)
    follower.send_all(run_event(), job_event(7), job_event(8, name="gone"))
    rest.jobs[7] = job_of(7, "completed", conclusion="failure")
    view = until(lambda: (v := follower.view())["counts"]["ended"] == 1 and v)
    assert view["recent"][0]["conclusion"] == "failure"
    # A job that GitHub has deleted will never end: its question is dropped.
    until(lambda: follower.view()["counts"]["left_out"] == {"gone": 1})
    assert ("question", "8", "dropped") in follower.log()


def test_runs_and_jobs_that_were_never_delivered_are_found(follow, rest):
    follower = asking(follow, rest, reconcile_s=1.0)
    follower.send_all(run_event(1))  # from here on the repository is known
    rest.runs[3] = run_event(status="completed")["workflow_run"]
    rest.jobs[21] = job_of(21, "completed")
    rest.jobs[22] = job_of(22, "completed", conclusion="skipped", **NOBODY)
    rest.jobs[23] = job_of(23, "completed", **NOBODY)
    view = until(lambda: (v := follower.view())["counts"]["ended"] == 2 and v)
    assert view["counts"]["left_out"] == {"check_run": 1}
    # All of it has ended and is known: the jobs are not listed again.
    until(lambda: rest.paths().count("/repos/o/r/actions/runs") > 3)
    assert rest.paths().count("/repos/o/r/actions/runs/3/jobs") == 1
    assert len(follower.log()) == 4


def test_a_server_that_fails_delays_nothing_but_itself(follow, rest):
    follower = asking(follow, rest)
    rest.runs[3] = run_event()["workflow_run"]
    rest.failing[("GET", "/repos/o/r/actions/runs/3/attempts/1")] = 500
    follower.send_all(job_event())
    until(lambda: follower.view()["counts"]["running"] == 1)
    assert rest.paths().count("/repos/o/r/actions/runs/3/attempts/1") == 2


def test_without_a_token_nothing_is_asked(follow, rest):
    follower = follow(api=rest.url)
    follower.send_all(job_event())
    until(lambda: follower.view()["counts"]["running"] == 1)
    assert rest.asked == []


# Out ---------------------------------------------------------------------------------------------


def test_one_commit_status_changed_in_place(follow, rest):
    follower = asking(follow, rest, output="status", output_every_s=0.0)
    follower.send_all(run_event(), job_event())
    until(lambda: rest.statuses)
    follower.send_all(job_event(status="completed"))
    until(lambda: "1 ended" in rest.statuses[-1]["description"])
    assert {(one["sha"], one["context"], one["state"]) for one in rest.statuses} == {
        ("c0ffee", "LARC", "success")
    }


@pytest.fixture
def app(tmp_path):
    """The settings of an App with a key of its own."""
    pytest.importorskip("jwt")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    file = tmp_path / "app.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return {"app_id": "12", "installation_id": "34", "app_key_file": str(file), "token": ""}


def test_one_neutral_check_run_for_a_commit_changed_in_place(follow, rest, app):
    follower = asking(follow, rest, output="check-run", output_every_s=0.0, **app)
    follower.send_all(run_event(), job_event(1), job_event(2, name="a | [b](c)"))
    until(lambda: "2 running" in str(rest.checks))
    follower.send_all(job_event(1, "completed"), job_event(2, "completed", name="a | [b](c)"))
    until(lambda: "2 ended" in str(rest.checks))
    ((number, check),) = rest.checks.items()
    assert (check["conclusion"], check["head_sha"], check["name"]) == ("neutral", "c0ffee", "LARC")
    assert check["updates"] > 0
    assert escaped("a | [b](c)") in check["output"]["summary"]
    assert rest.paths("POST").count("/repos/o/r/check-runs") == 1
    assert f"/repos/o/r/check-runs/{number}" in rest.paths("PATCH")
    # One token of the installation was enough, and was used for everything.
    assert rest.tokens == ["ghs_0"]
    assert {one for one in rest.authorized if "ghs" in one} == {"Bearer ghs_0"}


def test_a_check_run_whose_answer_was_lost_is_not_made_twice(follow, rest, app):
    rest.failing[("POST", "/repos/o/r/check-runs")] = -502  # made, and the answer is lost
    follower = asking(follow, rest, output="check-run", output_every_s=0.0, **app)
    follower.send_all(run_event(), job_event())
    until(lambda: rest.paths("PATCH"))
    assert len(rest.checks) == 1
    assert rest.paths("POST").count("/repos/o/r/check-runs") == 1


def test_an_apps_key_that_is_none_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "key.pem"
    file.write_text("no key")
    with pytest.raises(LarcError, match="numbers"):
        AppTokens("https://api.github.com", "x", "1", str(file))
    with pytest.raises(LarcError, match="cannot be read"):
        AppTokens("https://api.github.com", "1", "1", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(LarcError, match="needs PyJWT"):
        AppTokens("https://api.github.com", "1", "1", str(file))
