"""A recorded history played into a server: the study's numbers come out of the live path."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from larc.cli import main
from larc.domains.ci.experts import EXPERTS, half_brier
from larc.domains.ci.prompter import job_question
from larc.domains.ci.seeding import causal_jobs
from larc.domains.ci.synthetic import synthetic_jobs
from larc.errors import LarcError
from larc.github.webhooks import job_delivery, run_delivery
from larc.service.github.replay import backfill, recorded_deliveries, replay_webhooks
from larc.service.server import ServerSettings, running
from larc.service.templates import BUILT_IN, Models, Start
from larc.state import read_slow
from larc.studies.ci.queue import audit_queue
from larc.studies.ci.settings import PRESETS
from tests.service.conftest import Server, until
from tests.service.github.deliveries import SECRET, Follower, settings

NAME, STREAM = "synthetic/one", "github.synthetic.one"


def history(count, seed=3):
    """Return made-up jobs of one repository; several of them start and end in one second."""
    jobs = [job for job in synthetic_jobs(2 * count, seed) if job.repository == NAME][:count]
    return [job._replace(completed_at=-(-job.completed_at // 60) * 60) for job in jobs]


def losses(follower):
    """Return the mean half-Brier loss of every predictor on the jobs that were predicted."""
    status = follower.server.status(STREAM)
    return {name: one["sum"] / one["count"] for name, one in status["losses"].items()}


def ended(follower, count):
    return until(lambda: (v := follower.view(NAME))["counts"]["ended"] == count and v)


def test_the_studys_numbers_come_out_of_the_live_path(tmp_path, tiny):
    jobs = history(60)
    file = tmp_path / "jobs.jsonl"
    names = ("success", "failure", "cancelled", "skipped")
    rows = [{**job._asdict(), "conclusion": names[job.label]} for job in jobs]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    study = ["study", "ci", "--preset", "smoke", "--synthetic", "0", "--jobs", str(file)]
    study += ["--train", "30", "--audit", "30", "--seeds", "7", "--out", str(out)]
    assert main(study) == 0
    (fitted,) = out.glob("units/*7/slow.safetensors")
    (predicted,) = out.glob("units/audit-*/predictions.parquet")
    offline: dict[str, list[float]] = {}
    asked = set()
    for row in pq.read_table(predicted).to_pylist():
        offline.setdefault(row["path"], []).append(half_brier(row["policy"], row["label"]))
        asked.add(row["name"])
    settings_of = replace(PRESETS["smoke"], synthetic=0, jobs=(str(file),), train="30", audit="30")
    split = audit_queue(settings_of)
    training, audit = split.training, split.audit
    assert asked == {f"{job.job_id:020d}" for job in audit}
    models = Models([Start(tiny, read_slow(fitted), "tiny", "fitted")], "sgd:1.0")
    chosen = ServerSettings(
        tmp_path / "data", port=0, token_file=tmp_path / "token", github=settings(settle_s=600.0)
    )
    with running(chosen, models) as address:
        server = Server(address, (tmp_path / "token").read_text().strip())
        assert backfill(address, server.token, training) == {NAME: len(training)}
        played = replay_webhooks(address, SECRET, audit)
        assert played.jobs == len(audit)
        Follower(server).view(NAME)  # whatever was sent has taken effect
        server.http.close()
    # Labels of the last second wait for a later event, or for time to pass.
    with running(replace(chosen, github=settings()), models) as address:
        server = Server(address, (tmp_path / "token").read_text().strip())
        ended(Follower(server), len(training) + len(audit))
        until(lambda: server.status(STREAM)["labelled"] == len(audit))
        live = losses(Follower(server))
        server.http.close()
    compared = {"P0M0", "P1M0", "P0M1", "P1M1", "HEDGE4", *EXPERTS}
    for name in sorted(compared):
        assert live[name] == pytest.approx(np.mean(offline[name]), abs=1e-4), name
    # And something was learned, so that this says something.
    assert abs(live["P1M1"] - live["P0M1"]) > 1e-3


def test_every_strategy_is_as_in_a_replay_of_its_session(models, follow):
    jobs = history(40)
    follower = follow(settle_s=600.0)
    replay_webhooks(follower.server.address, SECRET, jobs)
    follower.view(NAME)
    controller = models.controller(BUILT_IN["ci"], models.starts[0], stream=1)  # its first
    said: dict[str, dict[str, list[float]]] = {}
    for kind, together in causal_jobs(jobs):
        if kind == "ask":
            questions = [job_question(job.job_id, job.observation) for job in together]
            contexts = [job.workflow_path for job in together]
            for question, answer in zip(
                questions, controller.ask(questions, contexts=contexts), strict=True
            ):
                said[question.name] = dict(answer.said) | {"mixture": answer.forecast.probabilities}
        else:
            controller.learn({f"{job.job_id:020d}": job.label for job in together})
    events = follower.server.events(STREAM)
    answers = {one["key"]: one["answer"] for one in events if one["kind"] == "question"}
    assert set(answers) == set(said)
    for name, expected in said.items():
        told = answers[name]["said"] | {"mixture": answers[name]["mixture"]}
        assert set(told) == set(expected)
        for predictor, policy in expected.items():
            assert told[predictor] == pytest.approx(list(policy), abs=1e-4), (name, predictor)


def test_a_replay_that_is_repeated_changes_nothing(sqlite_follower):
    jobs = history(10)
    address = sqlite_follower.server.address
    first = replay_webhooks(address, SECRET, jobs)
    ended(sqlite_follower, 10)
    log = sqlite_follower.log(STREAM)
    again = replay_webhooks(address, SECRET, jobs)
    assert (first.duplicates, again.duplicates) == (0, first.deliveries)
    assert sqlite_follower.log(STREAM) == log
    assert first.deliveries == len(list(recorded_deliveries(jobs)))


def test_a_history_is_told_once_and_before_the_first_question(follower):
    jobs = history(20)
    address, token = follower.server.address, follower.server.token
    assert backfill(address, token, jobs) == {NAME: 20}
    assert backfill(address, token, jobs) == {NAME: 20}
    view = ended(follower, 20)
    assert [kind for kind, _, _ in follower.log(STREAM)] == ["history"]
    assert view["counts"]["predicted"] == 0
    # GitHub's number of the repository comes with the first webhook; the stream is the same.
    later = [
        job._replace(job_id=job.job_id + 1000, run_id=job.job_id, started_at=job.started_at + 10**6)
        for job in jobs[:1]
    ]
    later = [job._replace(completed_at=job.started_at + 60) for job in later]
    replay_webhooks(address, SECRET, later)
    view = ended(follower, 21)
    assert view["stream"] == STREAM
    asked = [one for one in follower.server.events(STREAM) if one["kind"] == "question"]
    # The prompt of a strategy with cases is kept in the state; HEDGE4 has seen the history too.
    assert asked[0]["answer"]["said"]["HEDGE4"] != pytest.approx([0.25] * 4)
    with pytest.raises(LarcError, match="delete the stream first"):
        backfill(address, token, history(5, seed=9))


def test_a_server_that_refuses_is_named(sqlite_follower):
    with pytest.raises(LarcError, match=r"the server refused \(401\): the signature"):
        replay_webhooks(sqlite_follower.server.address, "another secret", history(1))


def test_a_rollback_replays_a_repositorys_stream_as_it_was(follow):
    jobs = history(30)
    follower = follow(settle_s=600.0)
    server = follower.server
    backfill(server.address, server.token, jobs[:10])
    replay_webhooks(server.address, SECRET, jobs[10:])
    last = jobs[-1]._replace(started_at=jobs[-1].started_at + 10**5)

    def said(number):
        """Let a job start that is the same but for its number, and return what was predicted."""
        row = last._replace(job_id=number, run_id=9000)._asdict() | {"conclusion": None}
        follower.send(run_delivery(row))
        follower.send_all(job_delivery(row, "in_progress"))
        follower.view(NAME)
        asked = {one["key"]: one for one in server.events(STREAM) if one["kind"] == "question"}
        return asked[f"{number:020d}"]["answer"]["said"]

    before = said(9001)
    body = {"version": 0, "replay": True}
    server.http.post(f"/v1/streams/{STREAM}/rollback", json=body).raise_for_status()
    after = said(9002)
    for name, policy in before.items():
        assert after[name] == pytest.approx(policy, abs=1e-5), name
