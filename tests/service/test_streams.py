"""Modes, snapshots, rollback, corrections, expiry, evaluations and logs that grow."""

import json
import signal

import pytest

from larc.service import Client, ServiceError
from larc.service.evaluating import ATTEMPTS, MOST
from tests.service.conftest import CRASHING, options, until


def learned(server, stream, count, label=0, first=0):
    for number in range(first, first + count):
        server.ask(stream, f"q{number}")
        server.label(stream, f"q{number}", label)


def keep(server, stream, name):
    return server.ask(stream, name).json()["said"]["keep"]


def test_observe_learns_and_never_shows(server):
    server.make("s", mode="observe", template="plain")
    first = server.ask("s", "a").json()
    assert first["probabilities"] == first["said"]["reset"]
    server.label("s", "a", 0)
    second = server.ask("s", "b").json()
    assert second["probabilities"] == first["probabilities"]
    assert second["said"]["keep"] != first["said"]["keep"]
    changed = server.http.patch("/v1/streams/s", json={"mode": "learn"})
    assert changed.status_code == 200
    third = server.ask("s", "c").json()
    assert third["probabilities"] == third["mixture"] != first["probabilities"]


def test_frozen_scores_and_never_learns(server):
    server.make("s", mode="frozen", template="plain")
    first = server.ask("s", "a").json()
    label = server.label("s", "a", 0)
    assert (label.status_code, label.json()["status"]) == (200, "scored")
    assert keep(server, "s", "b") == first["said"]["keep"]
    status = server.status("s")
    assert status["losses"]["keep"]["count"] == 1
    assert (status["state_version"], status["labelled"]) == (0, 1)


def test_snapshot_and_rollback(server):
    server.make("s", template="plain")
    learned(server, "s", 2)
    server.ask("s", "before")
    kept = server.http.post("/v1/streams/s/snapshots", json={"label": "good"})
    assert kept.status_code == 201
    version = kept.json()["version"]
    at_snapshot = keep(server, "s", "x0")
    learned(server, "s", 3, label=1, first=10)
    server.ask("s", "after")
    assert keep(server, "s", "x1") != at_snapshot
    missing = server.http.post(
        "/v1/streams/s/rollback", json={"version": 999}, params={"wait": "applied"}
    )
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    done = server.http.post(
        "/v1/streams/s/rollback", json={"version": version}, params={"wait": "applied"}
    )
    assert (done.status_code, done.json()["status"]) == (200, "applied")
    assert keep(server, "s", "x2") == at_snapshot
    for name in ("before", "after", "x0"):  # what was awaited still is
        assert server.label("s", name, 0).status_code == 200
    versions = server.http.get("/v1/streams/s/snapshots").json()["snapshots"]
    assert [(one["version"], one["label"]) for one in versions] == [(version, "good")]
    file = server.http.get(f"/v1/streams/s/snapshots/{version}/file")
    assert file.content.startswith(b"larc live session")


def test_rollback_with_replay_learns_again(server):
    server.make("s", template="plain")
    learned(server, "s", 4)
    server.ask("s", "open")
    now = keep(server, "s", "x0")
    done = server.http.post(
        "/v1/streams/s/rollback",
        json={"version": 0, "replay": True},
        params={"wait": "applied"},
    )
    assert done.status_code == 200
    assert keep(server, "s", "x1") == now
    assert server.label("s", "open", 0).status_code == 200


def test_a_correction_is_as_if_the_label_had_been_right(server):
    for name, wrong in (("s", True), ("t", False)):
        server.make(name, template="plain")
        for number in range(3):
            server.ask(name, f"q{number}", prompt=f"Item {number}: ")
            server.label(name, f"q{number}", 1 if wrong and number == 1 else 0)
    path = "/v1/streams/s/questions/q1/correction"
    body = {"label": 0, "relearn": True}
    done = server.http.post(path, json=body, params={"wait": "applied"})
    assert (done.status_code, done.json()["status"]) == (200, "applied")
    assert server.http.post(path, json=body).status_code == 200  # the same again
    s, t = server.status("s"), server.status("t")
    # What was answered meanwhile stays as it was answered; what is known now is the same.
    assert s["losses"]["reset"]["sum"] == t["losses"]["reset"]["sum"]
    assert keep(server, "s", "x") == keep(server, "t", "x")
    assert (
        server.http.post("/v1/streams/s/questions/x/correction", json={"label": 0}).json()["code"]
        == "not-labelled"
    )


def test_questions_expire(server):
    server.make("s", expiry={"after_s": 0.1})
    server.make("d", expiry={"after_s": 0.1, "then": "label", "label": "down"})
    server.ask("s", "a")
    server.ask("d", "a")
    until(lambda: server.status("s")["awaited"] == 0)
    until(lambda: server.status("d")["labelled"] == 1)
    late = server.label("s", "a", 0)
    assert (late.status_code, late.json()["code"]) == (410, "expired")
    assert server.label("d", "a", "down").status_code == 200
    assert server.make("x", expiry={"after_s": 1, "then": "label"}).status_code == 422


def test_evaluations(server):
    server.make("s")
    for number in range(12):
        server.ask("s", f"q{number}", prompt=f"Item {number % 2}: ")
        server.label("s", f"q{number}", number % 2)
    begun = server.http.post("/v1/streams/s/evaluations", json={"draws": 200})
    assert begun.status_code == 202
    path = f"/v1/streams/s/evaluations/{begun.json()['id']}"
    done = until(lambda: (e := server.http.get(path).json())["status"] != "running" and e)
    assert done["status"] == "done"
    result = done["result"]
    assert result["labels"] == 12
    gain = result["gains"]["kept"]
    assert gain["lower"] <= gain["estimate"] <= gain["upper"]
    kept = server.status("s")["losses"]["keep"]
    # The replay is the stream again: what was kept lost the same.
    assert abs(result["losses"]["kept"] - kept["sum"] / kept["count"]) < 1e-5


def test_an_evaluation_learns_early_labels_too(server):
    """A label that came before its question is in the state that answers what comes after."""
    server.make("s", template="plain")
    for number in range(3):
        server.label("s", f"e{number}", 1)
        assert server.ask("s", f"e{number}").json()["scored"] is False
    learned(server, "s", 3)
    kept = server.status("s")["losses"]["keep"]
    result = ended(server, begun(server, "s"))["result"]
    assert result["labels"] == kept["count"] == 3
    assert result["losses"]["kept"] == pytest.approx(kept["sum"] / 3, abs=1e-5)
    assert result["losses"]["kept"] > result["losses"]["reset"] + 1e-4  # they said otherwise


def test_an_evaluation_judges_by_labels_as_they_were_corrected(server):
    server.make("s", template="plain")
    learned(server, "s", 4, label=1)
    for label in (1, 0):  # the last one counts
        correction = {"label": label, "relearn": False}
        path = "/v1/streams/s/questions/q1/correction?wait=applied"
        server.http.post(path, json=correction).raise_for_status()
    losses = ended(server, begun(server, "s"))["result"]["losses"]
    shown = server.status("s")["losses"]
    for name, same in (("kept", "keep"), ("reset", "reset")):
        assert losses[name] == pytest.approx(shown[same]["sum"] / 4, abs=1e-5)


def begun(server, stream):
    reply = server.http.post(f"/v1/streams/{stream}/evaluations", json={"draws": 100})
    assert reply.status_code == 202
    return f"/v1/streams/{stream}/evaluations/{reply.json()['id']}"


def ended(server, path):
    return until(lambda: (e := server.http.get(path).json())["status"] != "running" and e)


def test_an_evaluation_that_was_cut_off_begins_again(processes, database):
    process = processes("data", *options(database), script=CRASHING)
    process.environment["LARC_CRASH"] = "evaluated:1"
    server = process.start()
    server.make("s", template="plain")
    learned(server, "s", 3)
    path = begun(server, "s")
    assert process.ended() == -signal.SIGKILL
    process.environment["LARC_CRASH"] = "never:1"
    done = ended(process.start(), path)
    assert (done["status"], done["result"]["labels"]) == ("done", 3)


def test_an_evaluation_that_ends_every_process_is_given_up(processes):
    process = processes("data", script=CRASHING)
    process.environment["LARC_CRASH"] = "evaluated:1"
    server = process.start()
    server.make("s", template="plain")
    learned(server, "s", 1)
    path = begun(server, "s")
    assert process.ended() == -signal.SIGKILL
    for _ in range(ATTEMPTS - 1):
        process.start()
        assert process.ended() == -signal.SIGKILL
    failed = ended(process.start(), path)
    assert (failed["status"], "3 times" in failed["result"]["reason"]) == ("failed", True)


def test_another_process_takes_an_evaluation_over(processes, postgres):
    shared = options(postgres.new())
    first, second = processes("one", *shared, script=CRASHING), processes("two", *shared)
    first.environment["LARC_CRASH"] = "evaluated:1"
    one = first.start()
    second.token_file.write_text(first.token_file.read_text())
    two = second.start()
    two.make("s", template="plain")
    learned(two, "s", 2)
    path = begun(one, "s")
    assert first.ended() == -signal.SIGKILL
    assert ended(two, path)["status"] == "done"


def test_evaluations_of_a_stream_are_limited(server, monkeypatch):
    from larc.service.engine import Engine

    monkeypatch.setattr(Engine, "_begin", lambda self, evaluation: None)  # they take long
    server.make("s")
    for _ in range(MOST):
        begun(server, "s")
    refused = server.http.post("/v1/streams/s/evaluations", json={})
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many")


def test_an_evaluation_that_breaks_has_failed(start, monkeypatch):
    from larc.service import evaluating

    monkeypatch.setattr(evaluating, "summary", lambda losses, wish: losses[0]["missing"])
    server = start()
    server.make("s", template="plain")
    learned(server, "s", 1)
    failed = ended(server, begun(server, "s"))
    assert failed["status"] == "failed"
    assert "TypeError" in failed["result"]["reason"]


def test_the_log_as_it_grows(server):
    server.make("s")
    server.ask("s", "a")
    seen = []
    headers = {"Last-Event-ID": "0"}
    with server.http.stream("GET", "/v1/streams/s/events/stream", headers=headers) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        for line in events.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
                if len(seen) == 1:
                    server.label("s", "a", 0)
            if len(seen) == 2:
                break
    assert [(one["seq"], one["kind"]) for one in seen] == [(1, "question"), (2, "label")]


def test_the_client(server):
    with Client(server.address, server.token) as client:
        client.stream("s", template="plain")
        answer = client.ask("s", "Next: ", ["up", "down"], id="a")
        assert answer.id == answer["id"] == "a"
        assert client.label("s", "a", "up", wait=True).status == "applied"
        assert client.label("s", "a", 0).duplicate
        other = client.ask("s", "Next: ", ["up", "down"])
        client.label("s", other.id, [0.0, 1.0], wait=True)
        version = client.snapshot("s", "first").version
        client.correct("s", "a", "down")
        client.rollback("s", version)
        client.used("s", "a")
        dropped = client.ask("s", "Next: ", ["up", "down"]).id
        client.drop("s", dropped)
        many = client.ask_many([{"stream": "s", "prompt": "x", "candidates": ["a", "b"]}] * 3)
        assert [one["status"] for one in many.answers] == [201] * 3
        assert client.status("s").asked >= 4
        assert client.events("s", after=2).events[0]["seq"] == 3
        with pytest.raises(ServiceError, match="no stream") as refused:
            client.ask("missing", "x", ["a", "b"])
        assert (refused.value.status, refused.value.code) == (404, "not-found")
