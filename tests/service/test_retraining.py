"""A slow state trained on a service's own logs, and streams that move to it when they are told."""

import json
import time
from contextlib import closing

import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.io.files import atomic_write
from larc.service.retraining import RetrainSettings, known_labels, retrain
from larc.service.store.database import open_database
from larc.service.store.reading import history, stream_row
from larc.state import SlowState

CANDIDATES = ("up", "down")


@pytest.fixture
def logs(start, database, tmp_path):
    """A server, and the address of its database."""
    return start(database), database or f"sqlite:///{tmp_path / 'data' / 'larc.db'}"


def teach(server, stream, first, last, right):
    for number in range(first, last):
        server.ask(stream, f"q{number}", prompt=f"Day {number % 3}: ").raise_for_status()
        server.label(stream, f"q{number}", right(number)).raise_for_status()


def retrained(models, address, until, name="night", **more):
    with closing(open_database(address)) as opened:
        wish = RetrainSettings(name, until, updates=2, window=4, draws=100, **more)
        return retrain(models, opened, wish)


def moment():
    """A time that everything before has been received by, and nothing after."""
    time.sleep(0.02)
    now = time.time()
    time.sleep(0.02)
    return now


def test_a_state_is_offered_and_streams_move_when_told(logs, models):
    server, address = logs
    for name in ("a", "b"):
        server.make(name)
        teach(server, name, 0, 6, lambda number: number % 2)
    until = moment()
    for name in ("a", "b"):
        teach(server, name, 6, 9, lambda number: number % 2)
    server.ask("a", "open")
    server.ask("a", "before")
    before = {name: server.status(name) for name in ("a", "b")}
    result = retrained(models, address, until)
    assert (result["streams"], result["trained_on"], result["labels"]) == (2, 12, 6)
    for losses in (result["running"], result["new"]):
        assert set(losses) == {"kept", "reset", "sham"}
    assert {name: server.status(name) for name in ("a", "b")} == before  # nobody has moved
    *_, offer = server.http.get("/v1/states").json()["states"]
    assert (offer["name"], offer["digest"]) == ("night", result["digest"])
    assert offer["result"]["labels"] == 6
    assert offer["parent"] == before["a"]["slow"] != offer["digest"]

    move = {"slow_state": "night"}
    answer = server.http.post("/v1/streams/a/move?wait=applied", json=move)
    assert (answer.status_code, answer.json()["status"]) == (200, "applied")
    after = server.status("a")
    assert after["slow"] == result["digest"]
    assert server.status("b") == before["b"]
    assert (after["labelled"], after["awaited"]) == (9, 2)
    assert server.label("a", "open", 0).json()["status"] == "applied"  # asked before the move
    fresh = server.ask("a", "fresh").json()
    old = server.http.post("/v1/streams/a/rollback?wait=applied", json={"version": 18}).json()
    assert old["status"] == "applied"
    assert server.status("a")["slow"] == before["a"]["slow"]
    again = server.ask("a", "again").json()
    kept = next(e["answer"] for e in server.events("a") if e["key"] == "before")
    assert again["said"]["keep"] == pytest.approx(kept["said"]["keep"], abs=1e-6)
    assert again["said"]["reset"] != pytest.approx(fresh["said"]["reset"], abs=1e-9)


def test_a_stream_goes_on_from_an_offer_after_a_restart(start, models, tmp_path):
    server = start()
    server.make("a")
    teach(server, "a", 0, 4, lambda number: 0)
    result = retrained(models, f"sqlite:///{tmp_path / 'data' / 'larc.db'}", moment())
    assert result["labels"] == 0
    server.http.post("/v1/streams/a/move?wait=applied", json={"slow_state": "night"})
    said = server.ask("a", "x").json()["said"]
    server.stop()
    server = start()
    assert server.status("a")["slow"] == result["digest"]
    assert server.ask("a", "y").json()["said"]["reset"] == pytest.approx(said["reset"], abs=1e-6)


def test_an_offered_state_is_trained_further(start, models, tmp_path):
    """Its streams have no other; what comes of it is compared with it."""
    server = start()
    server.make("a")
    teach(server, "a", 0, 4, lambda number: number % 2)
    address = f"sqlite:///{tmp_path / 'data' / 'larc.db'}"
    first = retrained(models, address, moment())
    server.http.post("/v1/streams/a/move?wait=applied", json={"slow_state": "night"})
    with pytest.raises(LarcError, match="no stream"):
        retrained(models, address, moment(), "day")
    with pytest.raises(LarcError, match="'nobody'"):
        retrained(models, address, moment(), "day", state="nobody")
    second = retrained(models, address, moment(), "day", state="night")
    assert (second["parent"], second["trained_on"]) == (first["digest"], 4)
    assert second["digest"] not in (first["digest"], first["parent"])
    server.http.post("/v1/streams/a/move?wait=applied", json={"slow_state": "day"})
    assert server.status("a")["slow"] == second["digest"]


def test_what_comes_later_trains_nothing(start, models, tmp_path):
    """Two services with the same labels until a time, and opposite ones after: the same state."""
    digests = []
    for name, turn in (("one", 0), ("other", 1)):
        server = start(data=name)
        server.make("a")
        teach(server, "a", 0, 5, lambda number: number % 2)
        server.ask("a", "late", prompt="Late: ")
        until = moment()
        server.label("a", "late", turn)
        correction = {"label": turn, "key": name}
        server.http.post("/v1/streams/a/questions/q1/correction", json=correction)
        teach(server, "a", 5, 8, lambda number, turn=turn: (number + turn) % 2)
        address = f"sqlite:///{tmp_path / name / 'larc.db'}"
        digests.append(retrained(models, address, until)["digest"])
        with closing(open_database(address)) as opened, opened.reading() as connection:
            row = stream_row(connection, "a")
            known = known_labels(history(connection, row.id, 0, row.applied_seq), until)
        assert set(known) == {f"q{number}" for number in range(5)}
    assert digests[0] == digests[1]


def test_corrections_count_from_when_they_came(start, tmp_path):
    server = start()
    server.make("a")
    teach(server, "a", 0, 3, lambda number: 0)
    early = moment()
    body = {"label": 1, "relearn": False}
    server.http.post("/v1/streams/a/questions/q0/correction?wait=applied", json=body)
    late = moment()
    path = tmp_path / "data" / "larc.db"
    with closing(open_database(f"sqlite:///{path}")) as opened, opened.reading() as connection:
        row = stream_row(connection, "a")
        events = list(history(connection, row.id, 0, row.applied_seq))
        first = known_labels(iter(events), early)["q0"]
        second = known_labels(iter(events), late)["q0"]
    assert (first[2]["label"], second[2]["label"]) == (0, 1)
    assert second[0] > first[0]


def test_what_cannot_be_retrained_is_refused(start, models, tmp_path):
    server = start()
    address = f"sqlite:///{tmp_path / 'data' / 'larc.db'}"
    server.make("a")
    with pytest.raises(LarcError, match="no stream"):
        retrained(models, address, moment())
    teach(server, "a", 0, 4, lambda number: 0)
    for name, told in (("no name", "is no name"), ("first", "name it otherwise")):
        with pytest.raises(LarcError, match=told):
            retrained(models, address, moment(), name)
    for until in (float("nan"), float("inf")):
        with pytest.raises(LarcError, match="is no time"):
            retrained(models, address, until)
    with closing(open_database(address)) as opened, pytest.raises(LarcError, match="updates is 0"):
        retrain(models, opened, RetrainSettings("night", moment(), updates=0))
    retrained(models, address, moment())
    with pytest.raises(LarcError, match="offered already"):
        retrained(models, address, moment(), seed=2)
    missing = server.http.post("/v1/streams/a/move", json={"slow_state": "day"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    reader = {"Authorization": f"Bearer {server.token_for(['read'], ['*'])}"}
    body = {"slow_state": "night"}
    assert server.http.post("/v1/streams/a/move", json=body, headers=reader).status_code == 403


def test_the_command_retrains_a_service_that_runs(start, models, tmp_path, capsys):
    server = start()
    server.make("a")
    teach(server, "a", 0, 4, lambda number: 0)
    until = moment()
    teach(server, "a", 4, 6, lambda number: 0)
    (first,) = models.starts
    atomic_write(tmp_path / "first", first.slow.to_bytes())
    line = ["serve", "retrain", "--data", str(tmp_path / "data"), "--name", "night", "--json"]
    line += ["--substrate", "tiny", "--state", str(tmp_path / "first"), "--updates", "1"]
    assert main([*line, "--until", "yesterday"]) == 1
    assert "--until yesterday" in capsys.readouterr().err
    assert main([*line, "--until", str(until)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["name"], result["trained_on"], result["labels"]) == ("night", 4, 2)
    assert server.http.get("/v1/states").json()["states"][-1]["digest"] == result["digest"]
    assert SlowState.from_bytes(first.slow.to_bytes()).digest == result["parent"]
