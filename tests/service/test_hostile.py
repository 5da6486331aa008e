"""Requests that nobody should send, databases that are away, and what the description promises."""

import json
import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest
import schemathesis
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from benchmarks.torture.hostile import hostile
from larc.service.engine import EngineSettings
from larc.service.http.context import HttpSettings
from larc.service.protocol import BODY_BYTES
from tests.service.conftest import until

CONFORMANCE = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
]


def test_hostile_requests_break_nothing(server):
    result = hostile(server.address, server.token, 600, 1, lambda _: None)
    assert result.requests == 600
    assert not result.problems
    assert 500 not in result.statuses
    # Most of them reach a route's own code, and it does as they say or refuses them itself.
    shares = {status: count / 600 for status, count in result.statuses.items()}
    assert sum(share for status, share in shares.items() if status // 100 == 2) > 0.2
    assert shares.get(422, 0) > 0.15
    assert shares.get(401, 0) + shares.get(405, 0) < 0.2


def test_every_answer_is_described(sqlite_server):
    """Schemathesis finds no status, type or body of an answer that the description does not have.

    Most of what it makes up is refused; `test_every_route_answers_as_described` has the rest.
    """
    sqlite_server.make("s")
    sqlite_server.ask("s", "q")
    described = sqlite_server.http.get("/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=sqlite_server.address)
    headers = {"Authorization": f"Bearer {sqlite_server.token}"}
    count = 0
    for operation in schema.get_all_operations():
        one = operation.ok()
        if one.path.endswith("/events/stream"):
            continue
        count += 1

        @settings(
            max_examples=4,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=one.as_strategy())
        def try_it(case):
            check_case(case, headers)

        try_it()
    assert count > 25


JOB = {
    "repository": "o/r",
    "job_name": "build",
    "head_sha": "aa",
    "started_at": 10,
    "completed_at": 20,
    "label": 0,
    "job_id": 7,
}
#: A request that each route takes, in this order: parts of the path, and a body.
RIGHT: dict[str, dict[str, Any]] = {
    "GET /healthz": {},
    "GET /readyz": {},
    "GET /metrics": {},
    "PUT /v1/templates/{template}": {"template": "t", "body": {"rule": "sgd:0.1"}},
    "GET /v1/templates/{template}": {"template": "t"},
    "PUT /v1/streams/{stream}": {"body": {"template": "t", "expiry": {"after_s": 1e6}}},
    "POST /v1/streams/{stream}/questions": {
        "body": {"id": "q", "prompt": "Next: ", "candidates": ["up", "down"]}
    },
    "GET /v1/streams/{stream}/questions/{question}": {},
    "POST /v1/streams/{stream}/questions/{question}/used": {},
    "POST /v1/streams/{stream}/questions/{question}/label": {"body": {"label": 0}},
    "POST /v1/streams/{stream}/questions/{question}/correction": {"body": {"label": 1}},
    "POST /v1/questions:batch": {
        "body": {"questions": [{"stream": "s", "id": "d", "prompt": "x", "candidates": ["a", "b"]}]}
    },
    "DELETE /v1/streams/{stream}/questions/{question}": {"question": "d"},
    "POST /v1/streams/{stream}/snapshots": {"body": {"label": "kept"}},
    "GET /v1/streams/{stream}/snapshots": {},
    "GET /v1/streams/{stream}/snapshots/{version}/file": {"version": 3},
    "POST /v1/streams/{stream}/rollback": {"body": {"version": 3}},
    "PATCH /v1/streams/{stream}": {"body": {"mode": "observe"}},
    "GET /v1/streams": {},
    "GET /v1/streams/{stream}": {},
    "GET /v1/streams/{stream}/events": {},
    "POST /v1/streams/{stream}/evaluations": {"body": {"draws": 100}},
    "GET /v1/streams/{stream}/evaluations/{evaluation}": {},
    "POST /v1/tokens": {"body": {"scopes": ["read"], "streams": ["a.*"]}},
    "GET /v1/tokens": {},
    "DELETE /v1/tokens/{token}": {},
    "GET /v1/audit": {},
    "GET /v1/models": {},
    "GET /v1/states": {},
    "POST /v1/completions": {"body": {"model": "larc:s", "prompt": "x", "max_tokens": 1}},
    "POST /v1/chat/completions": {
        "body": {"model": "larc:s", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    },
    "DELETE /v1/streams/{stream}": {},
    "POST /v1/github/repositories/{owner}/{name}/history": {
        "body": {"events": [{"kind": "ask", "jobs": [JOB]}, {"kind": "arrive", "jobs": [JOB]}]}
    },
    "GET /v1/github/repositories": {},
    "GET /v1/github/repositories/{owner}/{name}": {},
}
# These answer no request that is right by its description alone: events that do not end,
# deliveries, which are signed, and moves to a state that has to be offered first.
APART = {
    "GET /v1/streams/{stream}/events/stream",
    "POST /v1/github/webhook/{hook}",
    "POST /v1/streams/{stream}/move",
}


def test_every_route_answers_as_described(sqlite_server):
    described = sqlite_server.http.get("/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=sqlite_server.address)
    headers = {"Authorization": f"Bearer {sqlite_server.token}"}
    routes = {
        f"{one.ok().method.upper()} {one.ok().path}": one.ok()
        for one in schema.get_all_operations()
    }
    assert set(routes) - set(RIGHT) == APART
    parts = {"stream": "s", "question": "q", "owner": "o", "name": "r"}
    for name, wish in RIGHT.items():
        fields = {**parts, **{key: value for key, value in wish.items() if key != "body"}}
        used = {key: value for key, value in fields.items() if f"{{{key}}}" in name}
        case = routes[name].Case(
            path_parameters=used,
            **({"body": wish["body"], "media_type": "application/json"} if "body" in wish else {}),
        )
        response = check_case(case, headers)
        assert response.status_code // 100 == 2, (name, response.text)
        if name.endswith("/evaluations"):
            parts["evaluation"] = response.json()["id"]
        if name == "POST /v1/tokens":
            parts["token"] = response.json()["id"]


def check_case(case, headers):
    """Send a request, and check the answer against the description."""
    response = case.call(headers=headers)
    case.validate_response(response, checks=CONFORMANCE)
    return response


def test_bodies_are_limited(sqlite_server):
    sqlite_server.make("s")
    path = "/v1/streams/s/questions"
    large = b'{"prompt": "' + b"x" * BODY_BYTES + b'"}'
    assert sqlite_server.http.post(path, content=large).status_code == 413

    def chunks():
        for _ in range(40):
            yield b"x" * 65536

    with suppress(httpx.TransportError):  # it may close the connection before all is sent
        assert sqlite_server.http.post(path, content=chunks()).status_code == 413
    deep = sqlite_server.http.post(
        path, content=b"[" * 100_000, headers={"Content-Type": "application/json"}
    )
    assert (deep.status_code, deep.json()["code"]) == (400, "bad-json")
    many = {"prompt": "x", "candidates": [str(n) for n in range(65)]}
    assert sqlite_server.http.post(path, json=many).status_code == 422
    long = sqlite_server.ask("s", "long", prompt="word " * 15_000)
    assert (long.status_code, long.json()["code"]) == (422, "refused")
    assert sqlite_server.ask("s", "long").status_code == 201  # its id is free again


def test_a_body_that_never_comes_is_given_up(start):
    server = start(http=HttpSettings(body_s=0.3))
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        head = "POST /v1/streams/s/questions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        slow.sendall(f"{head}Authorization: Bearer {server.token}\r\n\r\n{{".encode())
        assert b" 408 " in slow.recv(1000)


def connected(server):
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def received(connection):
    """Everything until the other end closes the connection."""
    parts = []
    while part := connection.recv(4096):
        parts.append(part)
    return b"".join(parts)


def test_a_head_that_never_ends_is_given_up(start):
    server = start(http=HttpSettings(header_s=0.5))
    with connected(server) as idle:  # not even begun
        assert b" 408 " in received(idle)
    with connected(server) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        sent = 0
        with suppress(OSError):  # it is closed: a header now and then prolongs nothing
            while sent < 200:
                slow.sendall(b"x: y\r\n")
                sent += 1
                time.sleep(0.05)
        assert sent < 200
    kept = server.http.get("/healthz")
    time.sleep(1.0)  # a connection that was used may rest for longer
    stream = kept.extensions["network_stream"]
    assert server.http.get("/healthz").extensions["network_stream"] is stream
    with connected(server) as second:  # the second request of a connection has no longer
        second.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\n")
        replies = received(second)
        assert (replies.count(b" 200 "), replies.count(b" 408 ")) == (1, 1)


def test_headers_are_limited(sqlite_server):
    with connected(sqlite_server) as long:
        long.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        with suppress(OSError):
            for number in range(20_000):
                long.sendall(f"x{number}: {'y' * 1000}\r\n".encode())
        with suppress(ConnectionResetError):
            assert b" 431 " in received(long)
        assert number < 19_999
    assert sqlite_server.http.get("/healthz").status_code == 200


def test_connections_are_limited(start):
    server = start(connections=4)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(server))
        with httpx.Client(base_url=server.address) as one_more:
            until(lambda: one_more.get("/healthz").status_code == 503)
    until(lambda: server.http.get("/healthz").status_code == 200)


def test_rates_are_limited(start):
    server = start(http=HttpSettings(rate=1.0))
    statuses = [server.http.get("/v1/streams") for _ in range(5)]
    limited = [one for one in statuses if one.status_code == 429]
    assert limited
    assert limited[0].headers["retry-after"].isdigit()


def test_a_token_that_was_revoked_is_refused(sqlite_server):
    token = sqlite_server.token_for(["read"], ["*"])
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{sqlite_server.address}/v1/streams", headers=headers).status_code == 200
    name = token.split("_")[1]
    assert sqlite_server.http.delete(f"/v1/tokens/{name}").status_code == 204
    assert httpx.get(f"{sqlite_server.address}/v1/streams", headers=headers).status_code == 401
    actions = [one["action"] for one in sqlite_server.http.get("/v1/audit").json()["entries"]]
    assert actions == ["make token", "make token", "revoke token"]


def test_no_secret_is_kept_and_no_prompt_is_logged(sqlite_server, tmp_path, caplog):
    sqlite_server.make("s")
    caplog.set_level("DEBUG", logger="larc.service")
    sqlite_server.ask("s", "q", prompt="a very private prompt")
    sqlite_server.http.get("/v1/streams/s/events")
    secret = sqlite_server.token.split("_", 2)[2]
    assert "private" not in caplog.text
    assert secret not in caplog.text
    assert secret.encode() not in (tmp_path / "data" / "larc.db").read_bytes()


def test_metrics(sqlite_server):
    sqlite_server.make("s")
    sqlite_server.ask("s", "q")
    text = sqlite_server.http.get("/metrics").text
    assert 'larc_events_total{kind="question",result="awaited"} 1.0' in text
    assert "larc_batch_size_bucket" in text
    assert sqlite_server.http.get("/readyz").json()["ready"] is True


# The database is away ----------------------------------------------------------------------------


def test_a_database_starts_once_its_port_is_free(postgres):
    """While it is away, a connection of anybody's may get its port."""
    postgres.stop()
    try:
        with socket.socket() as other:
            # Connections that ended a moment ago keep the port from who does not say so.
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", postgres.port))
            other.listen()
            threading.Timer(1.0, other.close).start()
            postgres.start()
    finally:
        if not postgres.runs():
            postgres.start()
    assert postgres.new()


def test_a_database_that_restarts(start, postgres):
    server = start(postgres.new(), engine=EngineSettings(lease_s=2))
    server.make("s")
    server.ask("s", "a")
    postgres.stop("immediate")
    try:
        refused = server.label("s", "a", 0, wait=False)
        assert (refused.status_code, refused.json()["code"]) == (503, "database")
        assert server.http.get("/readyz").status_code == 503
    finally:
        postgres.start()
    until(lambda: server.label("s", "a", 0, wait=False).status_code in (200, 202))
    until(lambda: server.status("s")["labelled"] == 1)
    assert until(lambda: server.ask("s", "b").status_code in (200, 201))
    assert [one["seq"] for one in server.events("s")] == [1, 2, 3]


def test_a_disk_that_is_full(start, monkeypatch):
    from larc.service.store import database as databases

    original = databases._prepared

    def small(connection, record):
        original(connection, record)
        connection.execute("PRAGMA max_page_count=120")

    monkeypatch.setattr(databases, "_prepared", small)
    server = start(http=HttpSettings(wait_s=2))
    server.make("s")
    answers = {}
    for number in range(200):
        asked = server.ask("s", f"q{number}", prompt="word " * 30)
        if asked.status_code != 201:
            break
        answers[f"q{number}"] = asked.json()
    assert asked.status_code == 503
    assert asked.json()["code"] in ("database", "late")
    for name, answer in answers.items():  # what was acknowledged is whole
        again = server.ask("s", name, prompt="word " * 30)
        assert (again.status_code, again.json()) == (200, answer)


def test_a_damaged_state_is_not_used(start, tmp_path):
    server = start()
    server.make("s")
    server.ask("s", "a")
    engine = sa.create_engine(f"sqlite:///{tmp_path}/data/larc.db")
    with engine.begin() as connection:
        body = bytearray(connection.execute(sa.text("select body from state")).scalar_one())
        body[len(body) // 2] ^= 1
        connection.execute(sa.text("update state set body = :b"), {"b": bytes(body)})
    engine.dispose()
    reply = server.http.post(
        "/v1/completions", json={"model": "larc:s", "prompt": "x", "max_tokens": 1}
    )
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "damaged")


def test_tables_of_a_newer_version_are_refused(tmp_path):
    from larc.errors import LarcError
    from larc.service.store.database import open_database

    address = f"sqlite:///{tmp_path}/larc.db"
    opened = open_database(address)
    with opened.writing() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    opened.close()
    with pytest.raises(LarcError, match="newer larc"):
        open_database(address)


def test_the_tables_are_what_the_migrations_make(tmp_path):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from larc.service.store.database import open_database
    from larc.service.store.schema import metadata

    opened = open_database(f"sqlite:///{tmp_path}/larc.db")
    with opened.writer.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    opened.close()


def test_problems_are_json(sqlite_server):
    for path in ("/nothing", "/v1/streams/%00", "/v1/streams/" + "a" * 300):
        reply = sqlite_server.http.get(path)
        assert reply.status_code in (404, 422)
        assert json.loads(reply.text)["code"] in ("not-found", "invalid")
