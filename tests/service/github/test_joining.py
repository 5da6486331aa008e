"""Jobs from events in any order: asked when they start, labelled when they end, or left out."""

from itertools import permutations
from typing import Any

import pytest

from larc.domains.ci.jobs import LABELS, Observation
from larc.domains.ci.prompts import ci_prompt
from larc.service.github import worker
from tests.service.conftest import until
from tests.service.github.deliveries import REPOSITORY, START, job_event, run_event, shared, stamp

ASKED, LABELLED = ("question", "7", "labelled"), ("label", "7", "applied")


def questions(follower, stream="github.o.r"):
    events = follower.server.events(stream)
    return {one["key"].lstrip("0"): one for one in events if one["kind"] == "question"}


def test_seven_fields_are_joined_from_both_events(follower):
    follower.send_all(run_event(), job_event(status="queued"), job_event())
    view = follower.view()
    asked = questions(follower)["7"]["body"]
    seen = Observation("o/r", 5, ".github/workflows/ci.yml", "push", "build", "c0ffee", START + 10)
    assert asked["prompt"] == ci_prompt(seen)
    assert asked["candidates"] == list(LABELS)
    (running,) = until(lambda: [one for one in follower.view()["running"] if one["risk"]])
    assert running["job_id"] == 7
    assert sum(running["probabilities"]) == pytest.approx(1)
    assert view["counts"]["running"] == 1


def test_a_job_waits_for_the_event_of_its_run(follow):
    follower = follow(join_wait_s=600.0)
    follower.send_all(job_event())
    assert follower.view()["counts"]["running"] == 0
    assert follower.log() == []
    follower.send_all(run_event())
    assert follower.view()["counts"]["running"] == 1
    assert "Event: push" in questions(follower)["7"]["body"]["prompt"]


def test_without_its_run_a_job_is_asked_about_in_the_end(sqlite_follower):
    sqlite_follower.send_all(job_event())
    until(lambda: sqlite_follower.view()["counts"]["running"] == 1)
    assert "Event: unknown" in questions(sqlite_follower)["7"]["body"]["prompt"]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_every_order_of_four_events_ends_in_one_label(follow, order):
    follower = follow(join_wait_s=600.0)
    events = [run_event(), job_event(status="queued"), job_event(), job_event(status="completed")]
    follower.send_all(*(events[one] for one in order), *(events[one] for one in order))
    until(lambda: follower.view()["counts"]["ended"] == 1)
    # The label is held until its question is answered, and then learned.
    until(lambda: sorted(follower.log()) == [LABELLED, ASKED])
    # Whatever came after the end was known made no prediction.
    in_time = order.index(2) < order.index(3) and order.index(0) < order.index(3)
    answer = questions(follower)["7"]["answer"]
    assert answer["scored"] == in_time
    assert follower.view()["counts"]["left_out"] == {}


def test_labels_of_one_second_are_one_batch_and_come_before_later_jobs(follow):
    follower = follow(settle_s=600.0)
    follower.send_all(run_event(), *(job_event(number) for number in range(1, 21)))
    ended = [job_event(number, "completed") for number in range(1, 21)]
    follower.send_all(*reversed(ended))
    assert follower.view()["counts"]["ended"] == 20
    assert len(follower.log()) == 20  # held: the second is not over
    # One that starts in the same second is predicted before they are learned; a later one after.
    follower.send_all(job_event(30, started_at=stamp(70)), job_event(31, started_at=stamp(71)))
    follower.view()
    log = follower.log()
    assert [key for kind, key, _ in log if kind == "label"] == [str(n) for n in range(1, 21)]
    kinds = [(kind, key) for kind, key, _ in log]
    assert kinds.index(("question", "30")) < kinds.index(("label", "1"))
    assert kinds.index(("question", "31")) > kinds.index(("label", "20"))
    versions = {key: one["answer"]["state_version"] for key, one in questions(follower).items()}
    assert versions["30"] == 0
    assert versions["31"] > 0
    assert follower.server.status("github.o.r")["labelled"] == 20


def test_a_job_cancelled_before_it_had_a_runner_is_a_label(sqlite_follower):
    nobody = {"runner_id": None, "runner_name": None, "steps": [], "labels": []}
    ended = job_event(status="completed", conclusion="cancelled", **nobody)
    sqlite_follower.send_all(run_event(), job_event(status="queued"), ended)
    assert sqlite_follower.view()["counts"]["left_out"] == {}
    assert LABELLED in sqlite_follower.log()
    assert questions(sqlite_follower)["7"]["answer"]["scored"] is False


def test_a_skipped_job_was_never_queued(sqlite_follower):
    nobody = {"runner_id": None, "runner_name": None, "steps": [], "labels": []}
    ended = job_event(status="completed", conclusion="skipped", completed_at=stamp(10), **nobody)
    sqlite_follower.send_all(run_event(), ended)
    view = sqlite_follower.view()
    assert [LABELS[one["label"]] for one in view["recent"]] == ["other"]
    # Its end before its start, as GitHub writes it at times.
    early = job_event(8, "completed", conclusion="skipped", completed_at=stamp(9), **nobody)
    sqlite_follower.send_all(early)
    assert sqlite_follower.view()["counts"]["left_out"] == {"completed_before_started": 1}


def test_a_check_run_that_arrives_as_a_job_is_left_out(sqlite_follower):
    nobody = {"runner_id": None, "runner_name": None, "steps": [], "labels": []}
    for number, conclusion in enumerate(("success", "failure", "neutral"), start=1):
        ended = job_event(number, "completed", conclusion=conclusion, **nobody)
        sqlite_follower.send_all(ended)
    assert sqlite_follower.view()["counts"]["left_out"] == {"check_run": 3}
    assert sqlite_follower.log() == []


def test_a_rerun_repeats_the_ends_of_jobs_it_does_not_run(follow):
    follower = follow(join_wait_s=600.0)
    follower.send_all(run_event(), job_event(1), job_event(2, name="test"))
    follower.send_all(job_event(1, "completed"))
    follower.send_all(job_event(2, "completed", name="test", conclusion="failure"))
    # The second attempt: build is copied under a new id, test runs again.
    again = {"run_attempt": 2}
    follower.send_all(run_event(attempt=2, run_started_at=stamp(200)))
    follower.send_all(job_event(11, "completed", **again))
    follower.send_all(job_event(12, name="test", started_at=stamp(210), **again))
    times = {"started_at": stamp(210), "completed_at": stamp(260)}
    follower.send_all(job_event(12, "completed", name="test", **times, **again))
    view = until(lambda: (v := follower.view())["counts"]["ended"] == 3 and v)
    assert view["counts"]["left_out"] == {"copy_of_an_earlier_attempt": 1}
    labelled = {"1", "2", "12.2"}  # held, until they are answered
    until(lambda: {key for kind, key, _ in follower.log() if kind == "label"} == labelled)
    # The same commit, two ends: that job is flaky.
    (flaky,) = view["flaky"]
    assert (flaky["name"], flaky["commits"], flaky["repeated"]) == ("test", 1, 1)
    assert (flaky["cases"][0]["succeeded"], flaky["cases"][0]["failed"]) == (12, 2)


def test_a_copy_is_known_without_the_attempts_event(sqlite_follower):
    sqlite_follower.send_all(run_event(), job_event(1), job_event(1, "completed"))
    sqlite_follower.send_all(job_event(11, "completed", run_attempt=2))
    until(lambda: sqlite_follower.view()["counts"]["left_out"])
    assert sqlite_follower.view()["counts"]["left_out"] == {"copy_of_an_earlier_attempt": 1}


def test_an_end_without_a_label_drops_the_question(sqlite_follower):
    sqlite_follower.send_all(run_event(), job_event())
    sqlite_follower.send_all(job_event(status="completed", conclusion="startup_failure"))
    assert sqlite_follower.view()["counts"]["left_out"] == {"unrecognized_conclusion": 1}
    assert ("question", "7", "dropped") in sqlite_follower.log()


def test_a_renamed_repository_keeps_its_stream(sqlite_follower):
    later = REPOSITORY | {"full_name": "new-owner/r2"}
    sqlite_follower.send_all(run_event(), job_event(), run_event(4, repository=later))
    sqlite_follower.send_all(job_event(8, repository=later, run_id=4, started_at=stamp(20)))
    view = sqlite_follower.view("new-owner/r2")
    assert (view["stream"], view["counts"]["running"]) == ("github.o.r", 2)
    assert "Repository: o/r" in questions(sqlite_follower)["8"]["body"]["prompt"]
    # Somebody else takes the name that is free now: another number, another stream.
    other = {"id": 78, "full_name": "o/r"}
    sqlite_follower.send_all(run_event(5, repository=other), job_event(9, repository=other))
    assert sqlite_follower.view("o/r")["stream"] == "github.o.r-78"


def test_hostile_payloads_change_nothing(sqlite_follower):
    odd = [
        job_event(id="7"),
        job_event(id=-1),
        job_event(id=2**80),
        job_event(name=None),
        job_event(head_sha=["c0ffee"]),
        job_event(1, name="a\0b\ud800", started_at="yesterday"),
        job_event(2, status="completed", conclusion=7),
        {"action": "completed", "workflow_job": 7, "repository": REPOSITORY},
        {"action": "completed", "workflow_job": {}, "repository": REPOSITORY},
        {"action": "requested", "workflow_run": {"id": True}, "repository": REPOSITORY},
    ]
    for document in odd:
        sqlite_follower.send(document)
    for repository in ({"id": 5, "full_name": "../../etc"}, {"id": 6}, {"id": "x"}, 7):
        sqlite_follower.send(job_event(repository=repository))
    sqlite_follower.send_all(run_event(), job_event(50))
    view = until(lambda: (v := sqlite_follower.view())["counts"]["running"] == 1 and v)
    assert view["running"][0]["job_id"] == 50
    listed = sqlite_follower.server.http.get("/v1/github/repositories").json()["repositories"]
    assert [one["repository"] for one in listed] == ["o/r"]


# With real payloads ------------------------------------------------------------------------------


def test_real_deliveries_of_one_job(sqlite_follower):
    for action in ("queued", "in_progress"):
        document = shared(f"octokit_webhooks_workflow_job_{action}.json")
        assert sqlite_follower.send(document).status_code == 202
    name = document["repository"]["full_name"]
    until(lambda: sqlite_follower.view(name)["counts"]["running"] == 1)
    ended = shared("octokit_webhooks_workflow_job_completed.failure.with-organization.json")
    # The sample's end is of another day than its start.
    ended["workflow_job"]["completed_at"] = "2021-09-13T02:31:13Z"
    ended["workflow_job"]["started_at"] = "2021-09-13T02:21:13Z"
    assert sqlite_follower.send(ended).status_code == 202
    view = until(lambda: (v := sqlite_follower.view(name))["counts"]["ended"] == 1 and v)
    assert view["recent"][0]["conclusion"] == "failure"


def test_a_real_run_is_joined_with_its_job(sqlite_follower):
    run = shared("octokit_webhooks_workflow_run_completed.json")
    job = shared("octokit_webhooks_workflow_job_in_progress.json")
    job["repository"] = run["repository"]
    job["workflow_job"]["run_id"] = run["workflow_run"]["id"]
    sqlite_follower.send_all(run, job)
    name = run["repository"]["full_name"]
    sqlite_follower.view(name)
    (question,) = questions(sqlite_follower, "github." + name.replace("/", ".")).values()
    assert "Workflow: 2823525" in question["body"]["prompt"]
    assert "Path: .github/workflows/test.yml" in question["body"]["prompt"]
    assert "Event: repository_dispatch" in question["body"]["prompt"]


@pytest.mark.parametrize("number", [12083382635, 12890516473, 12007373278])
def test_real_jobs_of_a_run_with_its_check_runs(sqlite_follower, number):
    run = shared(f"tt-github-actions_{number}_workflow.json")
    jobs = shared(f"tt-github-actions_{number}_workflow_jobs.json")["jobs"]
    repository = {"id": run["repository"]["id"], "full_name": run["repository"]["full_name"]}
    about = {"repository": repository}
    sqlite_follower.send_all({"action": "requested", "workflow_run": run, **about})
    checks = 0
    for job in jobs:
        nobody = not (job["runner_id"] or job["steps"] or job["labels"])
        checks += nobody and job["conclusion"] not in ("cancelled", "skipped")
        sqlite_follower.send_all({"action": "completed", "workflow_job": job, **about})
    running = sum(job["status"] == "in_progress" for job in jobs)
    queued = sum(job["status"] not in ("in_progress", "completed") for job in jobs)

    def decided():
        counts = sqlite_follower.view(repository["full_name"])["counts"]
        left_out = sum(counts["left_out"].values())
        total = counts["ended"] + counts["running"] + counts["queued"] + left_out
        return counts if total == len({job["id"] for job in jobs}) else None

    counts = until(decided)
    assert counts["left_out"].get("check_run", 0) == checks
    assert (counts["running"], counts["queued"]) == (running, queued)
    assert counts["ended"] > 0


def test_a_delivery_that_breaks_holds_no_other_up(sqlite_follower, monkeypatch):
    module: Any = worker
    receive = module.receive

    def breaking(desk, row):
        if '"id": 13,' in row.body:
            raise ZeroDivisionError
        receive(desk, row)

    monkeypatch.setattr(module, "receive", breaking)
    sqlite_follower.send_all(run_event(), job_event(13), job_event(7))
    assert [one["job_id"] for one in sqlite_follower.view()["running"]] == [7]
