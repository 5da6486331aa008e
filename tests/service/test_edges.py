"""What a review of the service found wrong or untried."""

import asyncio
import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import sqlalchemy as sa

from larc.service import AsyncClient
from larc.service.http.context import HttpSettings
from larc.service.server import listening
from tests.service import test_guarantees
from tests.service.conftest import ROOT, until


def keep(server, stream, name):
    return server.ask(stream, name).json()["said"]["keep"]


def test_an_address_that_was_told_takes_connections():
    opened = listening("127.0.0.1", 0)
    with opened, socket.create_connection(opened.getsockname(), timeout=10):
        pass


def test_every_guarantee_on_the_page_names_its_tests():
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (G\d) \|.*$", page, re.MULTILINE)
    assert rows == [f"G{number}" for number in range(1, 8)]
    for line in re.findall(r"^\| G\d \|.*$", page, re.MULTILINE):
        names = re.findall(r"`(test_\w+)`", line)
        assert names, line
        for name in names:
            assert hasattr(test_guarantees, name), name


def test_an_early_label_is_learned_again_by_a_replay(server):
    server.make("s", template="plain")
    server.label("s", "a", 0)
    server.ask("s", "a")
    now = keep(server, "s", "x0")
    done = server.http.post(
        "/v1/streams/s/rollback", json={"version": 0, "replay": True}, params={"wait": "applied"}
    )
    assert done.json()["status"] == "applied"
    assert keep(server, "s", "x1") == now


def test_events_are_sent_in_order_past_an_early_label(start, monkeypatch):
    """An early label has its status at once; what came before it must not be left out."""
    from larc.service import engine as engines
    from larc.service import rounds

    original, begun = rounds.play, []

    def slow(pairs):
        begun.append(time.sleep(1.5))
        return original(pairs)

    monkeypatch.setattr(engines, "play", slow)
    server = start()
    server.make("s")
    body = {"id": "a", "prompt": "Next: ", "candidates": ["up", "down"]}
    seen = []

    async def both():
        options = {"base_url": server.address, "headers": server.http.headers, "timeout": 60}
        async with httpx.AsyncClient(**options) as client:
            asking = asyncio.create_task(client.post("/v1/streams/s/questions", json=body))
            await asyncio.sleep(0.3)
            await client.post("/v1/streams/s/questions/b/label", json={"label": 0})
            async with client.stream("GET", "/v1/streams/s/events/stream") as events:
                async for line in events.aiter_lines():
                    if line.startswith("id: "):
                        seen.append(int(line.removeprefix("id: ")))
                    if len(seen) == 2:
                        break
            await asking

    asyncio.run(both())
    assert seen == [1, 2]


@pytest.fixture
def two(start, postgres):
    """Two servers on one database, and a client's token that both know."""
    database = postgres.new()
    first, second = start(database, "one"), start(database, "two")
    until(lambda: all(one.http.get("/readyz").json()["shards"] == 32 for one in (first, second)))
    return first, second


def test_a_refusal_is_the_same_from_every_process(two):
    """Each stream is one server's to compute; the other learns what came of it by the database."""
    first, _ = two
    spec = {"given": ["mine"], "experts": []}
    assert first.http.put("/v1/templates/given", json=spec).status_code == 201
    for number in range(4):
        first.make(f"s{number}", template="given")
        for server in two:
            refused = server.http.post(
                f"/v1/streams/s{number}/rollback", json={"version": 999}, params={"wait": "applied"}
            )
            assert (refused.status_code, refused.json()["code"]) == (404, "not-found")
            refused = server.ask(f"s{number}", "q")
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
            assert "mine" in refused.json()["detail"]


def test_two_processes_make_one_stream_at_once(two, monkeypatch):
    """Both have looked and seen none when the first one makes it."""
    from larc.service.store import admin

    original, seen = admin.note, []

    def slow(connection, who, action, target, **detail):
        seen.append(target)
        time.sleep(0.3)  # the row is inserted, and not committed
        original(connection, who, action, target, **detail)

    monkeypatch.setattr(admin, "note", slow)
    with ThreadPoolExecutor(2) as pool:
        replies = [job.result() for job in [pool.submit(one.make, "s") for one in two]]
    assert sorted(one.status_code for one in replies) == [200, 201]
    assert seen == ["s"]
    assert two[0].status("s") == two[1].status("s")


def test_a_default_label_that_fits_no_candidate_expires_the_question(server):
    server.make("s", expiry={"after_s": 0.1, "then": "label", "label": "sideways"})
    server.ask("s", "a")
    until(lambda: server.status("s")["awaited"] == 0)
    assert server.label("s", "a", 0).json()["code"] == "expired"


def test_a_damaged_state_stops_no_other_stream(start, tmp_path):
    server = start()
    for name in ("s", "t"):
        server.make(name)
        server.ask(name, "a")
    engine = sa.create_engine(f"sqlite:///{tmp_path}/data/larc.db")
    with engine.begin() as connection:  # whole by its digests, of another shape inside
        body = connection.execute(sa.text("select body from state where stream = 2")).scalar_one()
        update = sa.text("update state set body = :b where stream = 1")
        connection.execute(update, {"b": body[:40]})
    engine.dispose()
    assert server.ask("t", "b").status_code == 201


def test_a_state_of_another_form_is_refused_in_one_sentence(models, monkeypatch):
    from types import SimpleNamespace

    from larc.service.live import revive
    from larc.service.problems import Problem
    from larc.service.protocol import TemplateSpec
    from larc.stream.cheap import HashedLogistic

    template = TemplateSpec()
    content = models.controller(template, models.start(template), 1).to_bytes()
    row = SimpleNamespace(id=1, name="s", spec=json.dumps(models.spec(template)))
    monkeypatch.setattr(HashedLogistic, "restore", lambda self, state: dict(state)["missing"])
    with pytest.raises(Problem, match="damaged"):
        revive(models, row, content)


def test_what_was_erased_is_not_on_the_disk(start, tmp_path):
    server = start()
    server.make("s")
    server.ask("s", "a", prompt="a secret that is erased")
    directory = tmp_path / "data"

    def on_disk():
        return any(b"secret that is" in one.read_bytes() for one in directory.iterdir())

    assert on_disk()
    assert server.http.delete("/v1/streams/s").status_code == 204
    assert not on_disk()


def test_a_full_disk_refuses_and_loses_nothing(processes):
    """A real limit on the size of the process's files, lifted again."""
    process = processes("data")
    server = process.start()
    server.make("s")
    answers = {"first": server.ask("s", "first").json()}
    assert server.label("s", "first", 0).status_code == 200
    pid, kind = process.process.pid, resource.RLIMIT_FSIZE
    _, most = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (100_000, most))
    refused = None
    for number in range(60):
        reply = server.http.post(
            "/v1/streams/s/questions/first/label", json={"label": 0}
        )  # a repetition is answered from the log
        assert reply.status_code in (200, 503)
        asked = server.http.put(f"/v1/streams/x{number}", json={})
        if asked.status_code == 503:
            refused = asked
            break
        assert asked.status_code == 201
    assert refused is not None
    assert refused.json()["code"] == "database"
    resource.prlimit(pid, kind, (most, most))
    until(lambda: server.make("after").status_code in (200, 201))
    assert server.ask("s", "first").json() == answers["first"]
    assert server.ask("s", "second").status_code == 201
    assert server.label("s", "second", 1).status_code == 200
    assert server.status("s")["labelled"] == 2
    for earlier in range(number):
        assert server.http.get(f"/v1/streams/x{earlier}").status_code == 200


def test_256_questions_are_one_request_and_257_are_refused(sqlite_server):
    names = [f"s{number}" for number in range(16)]
    for name in names:
        sqlite_server.make(name, template="plain")
    questions = [
        {"stream": names[n % 16], "id": f"q{n}", "prompt": "Next: ", "candidates": ["up", "down"]}
        for n in range(257)
    ]
    path = "/v1/questions:batch"
    refused = sqlite_server.http.post(path, json={"questions": questions})
    assert refused.status_code == 422
    reply = sqlite_server.http.post(path, json={"questions": questions[:256]})
    assert [one["status"] for one in reply.json()["answers"]] == [201] * 256


def test_coroutines_have_the_same_client(sqlite_server):
    async def talk():
        async with AsyncClient(sqlite_server.address, sqlite_server.token) as client:
            await client.stream("s", template="plain")
            asked = [client.ask("s", "Next: ", ["up", "down"], id=f"q{n}") for n in range(8)]
            answers = await asyncio.gather(*asked)
            for answer in answers:
                await client.label("s", answer.id, "up", wait=True)
            assert (await client.label("s", "q0", 0)).duplicate
            await client.used("s", "q0")
            version = (await client.snapshot("s")).version
            await client.correct("s", "q0", "down")
            await client.rollback("s", version)
            await client.drop("s", (await client.ask("s", "Next: ", ["up", "down"])).id)
            await client.ask_many([{"stream": "s", "prompt": "x", "candidates": ["a", "b"]}])
            assert (await client.status("s")).labelled == 8
            return (await client.events("s", after=3)).events[0]["seq"]

    assert asyncio.run(talk()) == 4


def test_other_origins_get_no_permission(sqlite_server):
    headers = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "GET"}
    for method in ("OPTIONS", "GET"):
        reply = sqlite_server.http.request(method, "/v1/streams", headers=headers)
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_token_expires(sqlite_server):
    body = {"scopes": ["read"], "streams": ["*"], "expires_in_s": 0.5}
    token = sqlite_server.http.post("/v1/tokens", json=body).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    path = f"{sqlite_server.address}/v1/streams"
    until(lambda: httpx.get(path, headers=headers).status_code == 401)


def test_listeners_are_limited_and_end_with_the_server(processes, start):
    server = start(http=HttpSettings(listeners=1))
    server.make("s")
    path = "/v1/streams/s/events/stream"
    with server.http.stream("GET", path) as first:
        assert first.status_code == 200
        server.ask("s", "a")
        lines = first.iter_lines()
        next(lines)
        assert server.http.get(path).status_code == 429
    process = processes("other")
    other = process.start()
    other.make("s")
    other.ask("s", "a")
    with other.http.stream("GET", path) as listening_on:
        lines = listening_on.iter_lines()
        next(lines)
        began = time.monotonic()
        process.signal(signal.SIGTERM)
        list(lines)  # it ends whole, long before the eight seconds that requests get
        assert time.monotonic() - began < 6
    assert process.ended() == 0


def test_errors_of_libraries_quote_no_prompt(tmp_path, processes, capfd):
    script = tmp_path / "breaking.py"
    script.write_text(
        "import sys\nfrom larc.cli import main\nfrom larc.service.http import questions\n"
        "def broken(*a, **k):\n    raise RuntimeError('a private prompt')\n"
        "questions.checked_candidates = broken\n"
        "if __name__ == '__main__':\n    sys.exit(main(sys.argv[1:]))\n"
    )
    server = processes("data", script=script).start()
    server.make("s")
    assert server.ask("s", "a").status_code == 500
    lines = capfd.readouterr().err.splitlines()
    assert [json.loads(line)["error"] for line in lines if "error" in json.loads(line)]
    assert not [line for line in lines if "private" in line]


def instruction(name):
    """What an instruction of the container file says, every time it is given."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return re.findall(rf"^{name} (.+)$", text, re.MULTILINE)


def test_the_container_has_what_it_copies():
    copied = [name for line in instruction("COPY") for name in line.split()[:-1]]
    assert "larc" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"pyproject.toml", project["readme"], "constraints.txt"} <= set(copied)
    assert "serve" in project["optional-dependencies"]


def test_the_containers_commands_run(processes):
    """Its command serves, its check finds that out, its signal ends it."""
    (command,) = [json.loads(line) for line in instruction("CMD")]
    assert command[:2] == ["larc", "serve"]
    process = processes("data", "--host", command[command.index("--host") + 1])
    assert set(command[2::2]) <= {"--data", "--host", "--token-file"}  # as `processes` gives them
    server = process.start()
    (check,) = instruction("HEALTHCHECK")
    program = re.fullmatch(r'CMD python -c "(.+)"', check)[1]
    assert "127.0.0.1:8722" in program
    assert instruction("EXPOSE") == ["8722"]
    program = program.replace("127.0.0.1:8722", server.address.removeprefix("http://"))
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
    assert instruction("STOPSIGNAL") == ["SIGTERM"]
    process.signal(signal.SIGTERM)
    assert process.ended() == 0
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode != 0
