"""G1 to G7, each by what would break it: real processes, killed."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
import sqlalchemy as sa

import larc
from larc.service import Client
from larc.service.engine import Engine, EngineSettings
from larc.service.protocol import TemplateSpec
from larc.service.store.database import open_database
from larc.service.store.leases import claim
from larc.service.store.log import Command
from larc.service.store.results import Step, commit
from larc.service.store.schema import SHARDS, event, stream
from tests.service.conftest import CRASHING, options, until

# Learned anew, events have other neighbours in their batches, if any. A label that is learned twice
# among six to a hundred moves the answer by 2e-4 or more.
SAME = 1e-5
POINTS = ["take:2", "taken:3", "taken:6", "played:2", "played:4", "commit:3", "committed:4"]


def traffic(address, token, stream, count, failures):
    """Ask and label, again and again until acknowledged; returns the answers."""
    answers = {}
    with Client(address, token, attempts=1, timeout=10) as client:
        for number in range(count):
            try:
                client.stream(stream)
                answer = client.ask(stream, f"Item {number}: ", ["up", "down"], id=f"q{number}")
                answers[f"q{number}"] = answer.probabilities
                client.label(stream, f"q{number}", number % 2)
                answers[f"label q{number}"] = True
            except larc.LarcError:
                failures.append(number)
                return answers
    return answers


def check_log(server, stream, answers, count):
    """Everything acknowledged is there, took effect once, in order, and says the same."""
    status = until(
        lambda: (s := server.status(stream))["applied_seq"] == s["last_seq"] and s, seconds=60
    )
    events = server.events(stream)
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    labels = [one["key"] for one in events if one["kind"] == "label"]
    assert len(labels) == len(set(labels)) == status["labelled"]
    assert all(one["status"] == "applied" for one in events if one["kind"] == "label")
    given = {one["key"]: one["answer"] for one in events if one["kind"] == "question"}
    for name, policy in answers.items():
        if name.startswith("label "):
            assert name.removeprefix("label ") in labels  # G1
        else:
            assert given[name]["probabilities"] == policy  # G3
    versions = [one["answer"]["state_version"] for one in events if one["kind"] == "question"]
    assert versions == sorted(versions)  # G4: an answer knows all that came before it
    before = 0
    for one in events:
        if one["kind"] == "question":
            assert one["answer"]["state_version"] == before
        else:
            before = one["seq"]
    if count is not None:
        assert status["labelled"] == count


def check_state(server, stream):
    """G2 in the state itself: learned anew from its log, which has each label once, it is equal."""
    before = server.ask(stream, "as it is", "At the end: ").json()["said"]["keep"]
    path = f"/v1/streams/{stream}/rollback?wait=applied"
    replayed = server.http.post(path, json={"version": 0, "replay": True}).raise_for_status()
    assert replayed.json()["status"] == "applied"
    after = server.ask(stream, "learned anew", "At the end: ").json()["said"]["keep"]
    assert after == pytest.approx(before, abs=SAME)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point_nothing_is_lost_or_doubled(processes, database, point):
    process = processes("data", *options(database), script=CRASHING)
    process.environment["LARC_CRASH"] = point
    server = process.start()
    failures = []
    answers = traffic(server.address, server.token, "s", 6, failures)
    assert failures, "it was not killed"
    assert process.ended() == -signal.SIGKILL
    process.environment["LARC_CRASH"] = "never:1"
    server = process.start()
    again = traffic(server.address, server.token, "s", 6, [])
    for name, policy in answers.items():
        assert again[name] == policy  # G3, over a kill
    check_log(server, "s", again, 6)
    check_state(server, "s")


def test_random_kills_under_load(processes, database):
    process = processes("data", *options(database))
    stream_names = [f"s{number}" for number in range(4)]
    server = process.start()
    current = {"address": server.address}
    answers = {name: {} for name in stream_names}
    generator = np.random.default_rng(1)
    stop = threading.Event()

    def work(name):
        number = 0
        while not stop.is_set():
            try:
                with Client(current["address"], server.token, attempts=1, timeout=10) as client:
                    client.stream(name)
                    answer = client.ask(name, f"Item {number}: ", ["up", "down"], id=f"q{number}")
                    old = answers[name].setdefault(f"q{number}", answer.probabilities)
                    assert old == answer.probabilities
                    client.label(name, f"q{number}", number % 2)
                    answers[name][f"label q{number}"] = True
                number += 1
            except larc.LarcError:
                time.sleep(0.05)  # the same again, until it is acknowledged

    with ThreadPoolExecutor(4) as pool:
        works = [pool.submit(work, name) for name in stream_names]
        for _ in range(3):
            time.sleep(generator.uniform(0.3, 1.5))
            process.kill()
            server = process.start()
            current["address"] = server.address
        # Every stream goes on after the last kill.
        reached = {name: len(answers[name]) for name in stream_names}
        until(lambda: all(len(answers[n]) > reached[n] + 2 for n in stream_names))
        stop.set()
        for one in works:
            one.result()
    for name in stream_names:
        check_log(server, name, answers[name], None)
        check_state(server, name)


def test_sigterm_under_load_loses_nothing(processes, database):
    process = processes("data", *options(database))
    server = process.start()
    failures = []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(traffic, server.address, server.token, "s", 10_000, failures)
        until(lambda: server.make("s").status_code == 200 and server.status("s")["labelled"] > 3)
        process.signal(signal.SIGTERM)
        assert process.ended(30) == 0
        answers = future.result()
    server = process.start()
    check_log(server, "s", answers, None)


# G5 ----------------------------------------------------------------------------------------------


@pytest.fixture
def two_owners(database, tmp_path):
    opened = open_database(database or f"sqlite:///{tmp_path}/larc.db")
    yield opened
    opened.close()


def test_a_stale_worker_cannot_write(two_owners, models):
    from larc.service.store.admin import make_stream

    with two_owners.writing() as connection:
        spec = models.spec(TemplateSpec())
        row, _ = make_stream(
            connection, "s", "default", spec, mode="learn", expiry=None, who="test"
        )
        old = claim(connection, "old", 10.0, all_of_them=True)
    with two_owners.writing() as connection:
        new = claim(connection, "new", 10.0, all_of_them=True)
    assert new[row.shard] == old[row.shard] + 1
    step = Step(row.id, row.shard, 0, 1, values={"version": 1}, body=b"stale")
    with two_owners.writing() as connection:
        assert commit(connection, [step], old, "old", "") == [row.id]
    with two_owners.writing() as connection:
        # Not even an owner who has taken the name of the new one, with the old epoch.
        assert commit(connection, [step], old, "new", "") == [row.id]
        assert connection.execute(sa.select(stream.c.applied_seq)).scalar_one() == 0
    with two_owners.writing() as connection:
        assert commit(connection, [step], new, "new", "") == []


def test_a_worker_that_stops_within_a_transaction_holds_nobody_up(postgres):
    """The rows that it had locked are free again, once the database has lost its patience."""
    address = postgres.new()
    stopped, other = open_database(address), open_database(address)
    try:
        with stopped.writer.connect() as connection:
            claim(connection, "stopped", 10.0, all_of_them=False)  # and no word any more
            with other.writing() as second:
                assert len(claim(second, "other", 10.0, all_of_them=False)) == SHARDS
            with pytest.raises(sa.exc.DBAPIError):
                connection.execute(sa.text("select 1"))
            connection.invalidate()
    finally:
        stopped.close()
        other.close()


def test_options_of_the_address_hold_for_all_connections(postgres):
    """Whoever reads looks where the others write."""
    address = postgres.new()
    with closing(open_database(address)) as first, first.writing() as connection:
        connection.execute(sa.text("create schema mine"))
    with closing(open_database(f"{address}?options=-csearch_path%3Dmine")) as opened:
        for engine in (opened.writer, opened.reader):
            with engine.connect() as connection:
                assert connection.execute(sa.text("show search_path")).scalar_one() == "mine"
        with opened.writing() as connection:
            patience = sa.text("show idle_in_transaction_session_timeout")
            assert connection.execute(patience).scalar_one() == "5s"


def test_a_paused_worker_comes_back_to_nothing(processes, postgres):
    """One of two processes is stopped past its lease; the other takes over, and nothing doubles."""
    database = postgres.new()
    shared = ("--database", database, "--lease", "1")
    first, second = processes("one", *shared), processes("two", *shared)
    one = first.start()
    second.token_file.write_text(first.token_file.read_text())
    answers = traffic(one.address, one.token, "s", 3, [])
    first.signal(signal.SIGSTOP)
    two = second.start()
    answers |= traffic(two.address, one.token, "s", 6, failures := [])
    assert not failures
    first.signal(signal.SIGCONT)
    answers |= traffic(one.address, one.token, "s", 9, failures)
    assert not failures
    check_log(two, "s", answers, 9)


def test_two_processes_share_the_streams(processes, postgres):
    database = postgres.new()
    shared = ("--database", database, "--lease", "1")
    first, second = processes("one", *shared), processes("two", *shared)
    one = first.start()
    second.token_file.write_text(first.token_file.read_text())
    two = second.start()

    def owned(server):
        return server.http.get("/readyz").json()["shards"]

    until(lambda: 0 < owned(one) == owned(two))
    names = [f"s{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(traffic, (one, two)[n % 2].address, one.token, name, 5, [])
            for n, name in enumerate(names)
        ]
        answers = [job.result() for job in jobs]
    second.kill()
    for name, known in zip(names, answers, strict=True):
        more = traffic(one.address, one.token, name, 7, failures := [])
        assert not failures
        check_log(one, name, known | more, 7)


# G2, G6, G7 --------------------------------------------------------------------------------------


@pytest.fixture
def engine(database, tmp_path, models):
    opened = open_database(database or f"sqlite:///{tmp_path}/larc.db")
    running = Engine(opened, models, EngineSettings(lease_s=5))
    running.start()
    yield running
    running.stop()


def make(engine, name, template):
    from larc.service.store.admin import make_stream

    spec = engine.models.spec(template)

    def making(connection):
        return make_stream(connection, name, "x", spec, mode="learn", expiry=None, who="test")[0].id

    return engine.writer.submit(making).result()


def send(engine, name, kind, key, body):
    taken = engine.submit(Command(name, kind, key, body)).result()
    return engine.waiters.wait(taken.stream, taken.seq).result(60)


def question(number):
    return {"prompt": f"Item {number % 3}: ", "candidates": ["up", "down", "flat"]}


def test_streams_in_one_batch_are_as_if_alone(engine, models):
    """G7: within rounding in shared batches, to the bit for solo streams."""
    plain, solo = TemplateSpec(), TemplateSpec(solo=True)
    names = {f"p{n}": plain for n in range(6)} | {f"o{n}": solo for n in range(2)}
    numbers = {name: make(engine, name, template) for name, template in names.items()}
    got = {name: [] for name in names}

    def live(name):
        for number in range(5):
            outcome = send(engine, name, "question", f"q{number}", question(number))
            got[name].append(outcome.answer["probabilities"])
            send(engine, name, "label", f"q{number}", {"label": (number + len(name)) % 3})

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(live, name) for name in names]:
            done.result()
    for name, template in names.items():
        controller = models.controller(template, models.start(template), numbers[name])
        for number in range(5):
            body = question(number)
            asked = larc.Question(f"q{number}", tuple(body["candidates"]), body["prompt"])
            alone = controller.ask([asked])[0].forecast.probabilities
            if template.solo:
                assert tuple(got[name][number]) == alone
            else:
                np.testing.assert_allclose(got[name][number], alone, atol=1e-5)
            controller.learn({f"q{number}": (number + len(name)) % 3})


def test_one_streams_refused_label_harms_no_other(engine):
    for number in range(8):
        make(engine, f"s{number}", TemplateSpec())
        send(engine, f"s{number}", "question", "q", question(0))
    bodies = [{"losses": [1e38, 0.0, -1e38]} if n == 3 else {"label": 0} for n in range(8)]
    taken = [engine.submit(Command(f"s{n}", "label", "q", body)) for n, body in enumerate(bodies)]
    outcomes = [
        engine.waiters.wait(one.result().stream, one.result().seq).result(60) for one in taken
    ]
    assert [one.status for one in outcomes] == ["applied"] * 3 + ["refused"] + ["applied"] * 4
    assert "not finite" in outcomes[3].reason
    assert send(engine, "s3", "label", "q", {"label": 1}).status == "applied"


def test_batches_are_shared(engine, models, monkeypatch):
    """Sixteen questions that wait together are one call of the model's reader."""
    names = [f"s{number}" for number in range(16)]
    for name in names:
        make(engine, name, TemplateSpec())
    calls = []
    original = larc.Learner.read_many
    go = threading.Event()

    def blocking():
        go.wait(60)
        return
        yield

    def counted(self, requests, **more):
        calls.append(len(list(requests)))
        return original(self, requests, **more)

    monkeypatch.setattr(larc.Learner, "read_many", counted)
    engine.run(blocking())
    time.sleep(0.05)
    taken = [
        engine.submit(Command(name, "question", "q", question(n))).result()
        for n, name in enumerate(names)
    ]
    go.set()
    for one in taken:
        engine.waiters.wait(one.stream, one.seq).result(60)
    assert max(calls) == 32  # two strategies each
    assert len(calls) <= 2


def test_an_answer_made_after_its_label_was_known_is_not_scored(engine):
    """G6, where a label overtakes its question's computation."""
    number = make(engine, "s", TemplateSpec())
    go = threading.Event()

    def blocking():
        go.wait(60)
        return
        yield

    engine.run(blocking())
    time.sleep(0.05)
    asked = engine.submit(Command("s", "question", "q", question(0))).result()
    label = engine.submit(Command("s", "label", "q", {"label": 0})).result()
    go.set()
    assert engine.waiters.wait(number, asked.seq).result(60).answer["scored"] is False
    assert engine.waiters.wait(number, label.seq).result(60).status == "applied"
    with engine.database.reading() as connection:
        statuses = connection.execute(sa.select(event.c.status).order_by(event.c.seq)).scalars()
        assert list(statuses) == ["labelled", "applied"]
