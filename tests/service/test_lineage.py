"""What a rollback took back stays so; what was corrected stays corrected."""

from contextlib import closing

import pytest

from larc.service.retraining import RetrainSettings, known_labels, retrain
from larc.service.store.database import open_database
from larc.service.store.reading import history, stream_row


def ask(server, stream, name):
    return server.ask(stream, name, prompt="Item: ").raise_for_status().json()


def teach(server, stream, names, label):
    for name in names:
        ask(server, stream, name)
        server.label(stream, name, label).raise_for_status()


def command(server, stream, path, **body):
    answer = server.http.post(f"/v1/streams/{stream}/{path}?wait=applied", json=body)
    assert answer.json().get("status", "applied") == "applied"
    return answer.raise_for_status().json()


def correct(server, stream, name, label):
    command(server, stream, f"questions/{name}/correction", label=label, relearn=True)


def said(server, *streams):
    return [ask(server, one, "at the end")["said"]["keep"] for one in streams]


@pytest.fixture
def poisoned(start, tmp_path):
    """Two streams: of one, wrong labels were taken back; of the other, they never came."""
    server = start()
    for stream in ("bad", "good"):
        server.make(stream)
        teach(server, stream, ["q0", "q1"], 0)
    version = command(server, "bad", "snapshots", label="before")["version"]
    server.label("bad", "early", 1)
    for name in ("wrong0", "wrong1", "wrong2", "early"):
        ask(server, "good", name)
        server.http.delete(f"/v1/streams/good/questions/{name}").raise_for_status()
        ask(server, "bad", name)
        if name != "early":
            server.label("bad", name, 1).raise_for_status()
    command(server, "bad", "snapshots", label="wrong")
    command(server, "bad", "rollback", version=version)
    for stream in ("bad", "good"):
        teach(server, stream, ["q2", "q3"], 0)
    return server, f"sqlite:///{tmp_path / 'data' / 'larc.db'}"


def test_a_move_does_not_learn_what_was_taken_back(poisoned, models):
    server, address = poisoned
    with closing(open_database(address)) as opened:
        wish = RetrainSettings("night", 2e9, streams=("good",), updates=1, window=4)
        retrain(models, opened, wish)
    for stream in ("bad", "good"):
        command(server, stream, "move", slow_state="night")
    bad, good = said(server, "bad", "good")
    assert bad == pytest.approx(good, abs=1e-6)  # other batches: rounding


def test_a_correction_learns_again_only_what_it_is_of(poisoned):
    """The nearest snapshot has the wrong labels: it is not where learning begins."""
    server, _ = poisoned
    for stream in ("bad", "good"):
        correct(server, stream, "q2", 1)
    bad, good = said(server, "bad", "good")
    assert bad == pytest.approx(good, abs=1e-6)
    before = bad[0]
    correct(server, "bad", "wrong1", 0)  # this one counts from now on, and the others do not
    version = command(server, "bad", "snapshots", label="after")["version"]
    assert ask(server, "bad", "then")["said"]["keep"][0] > before
    after = ask(server, "bad", "then, too")["said"]["keep"]
    command(server, "bad", "rollback", version=version)
    correct(server, "bad", "q3", 0)  # as it was
    assert ask(server, "bad", "and then")["said"]["keep"] == pytest.approx(after, abs=1e-6)


def test_what_was_taken_back_trains_nothing(poisoned):
    server, address = poisoned
    with closing(open_database(address)) as opened, opened.reading() as connection:
        row = stream_row(connection, "bad")
        events = list(history(connection, row.id, 0, row.applied_seq))
    (back,) = (one.received_at for one in events if one.kind == "rollback")
    wrong = {"wrong0", "wrong1", "wrong2", "early"}
    right = {"q0", "q1", "q2", "q3"}
    assert set(known_labels(iter(events), 2e9)) == right
    assert set(known_labels(iter(events), back - 1e-6)) == {"q0", "q1"} | wrong
    correct(server, "bad", "wrong1", 0)
    with closing(open_database(address)) as opened, opened.reading() as connection:
        events = list(history(connection, row.id, 0, row.applied_seq + 1))
    assert set(known_labels(iter(events), 2e9)) == right | {"wrong1"}


def test_a_second_correction_keeps_the_first(start):
    server = start()
    for stream, labels in (("a", (1, 1)), ("b", (0, 0))):
        server.make(stream)
        for name, label in zip(("q0", "q1"), labels, strict=True):
            teach(server, stream, [name], label)
            command(server, stream, "snapshots", label=name)
    correct(server, "a", "q0", 0)
    correct(server, "a", "q1", 0)
    a, b = said(server, "a", "b")
    assert a == pytest.approx(b, abs=1e-6)
