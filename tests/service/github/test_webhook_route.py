"""Deliveries: signed over bytes, taken once for ever, answered whatever the model does."""

import json
import threading

import httpx

from larc.github.webhooks import SIGNATURE, signature
from larc.service.server import ServerSettings, serving
from tests.service.conftest import until
from tests.service.github.deliveries import SECRET, job_event, run_event, settings


def post(follower, body, **headers):
    base = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "a-1"}
    return follower.server.http.post(
        "/v1/github/webhook/default", content=body, headers=[*base.items(), *headers.items()]
    )


def test_githubs_published_vector():
    vector = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature("It's a Secret to Everybody", b"Hello, World!") == vector


def test_signatures_are_over_the_bytes(sqlite_follower):
    body = b'{"zen":  "spaces count"}'
    right = signature(SECRET, body)
    assert post(sqlite_follower, body, **{SIGNATURE: right}).status_code == 202
    same = json.dumps(json.loads(body)).encode()
    wrong = [
        (same, right),
        (body, right[:-1]),
        (body, right.replace("sha256", "sha1")),
        (body, "sha256=é".encode()),
        (body, signature("another secret", body)),
        (body, ""),
    ]
    for content, given in wrong:
        answer = post(sqlite_follower, content, **{SIGNATURE: given})
        assert answer.status_code == 401, given
        assert answer.json()["code"] == "unsigned"
    assert post(sqlite_follower, body).status_code == 401


def test_two_secrets_while_one_is_replaced(follow):
    follower = follow(hooks=[{"name": "default", "secrets": ["the old secret", SECRET]}])
    assert follower.send(run_event()).status_code == 202
    assert follower.send(run_event(4), secret="the old secret").status_code == 202
    assert follower.send(run_event(5), secret="no secret at all").status_code == 401
    follower.hook = "other"
    assert follower.send(run_event(6)).status_code == 404


def test_a_delivery_is_taken_once_for_ever(follower):
    assert follower.send(run_event()).status_code == 202
    assert follower.send(job_event(), delivery="d-1").status_code == 202
    again = follower.send(job_event(), delivery="d-1")
    assert (again.status_code, again.json()) == (200, {"status": "duplicate"})
    # The same under another id: the job is known, and nothing is asked again.
    assert follower.send(job_event(), delivery="d-2").status_code == 202
    assert follower.view()["counts"]["running"] == 1
    assert follower.log() == [("question", "7", "awaited")]


def test_what_is_no_json_is_refused(sqlite_follower):
    for body, status in ((b"payload=%7B%7D", 400), (b"[" * 100_000, 400), (b"[]", 422)):
        answer = post(sqlite_follower, body, **{SIGNATURE: signature(SECRET, body)})
        assert answer.status_code == status


def test_a_large_delivery_is_taken_and_a_larger_one_is_not(sqlite_follower):
    document = job_event() | {"padding": "x" * 2**21}
    assert sqlite_follower.send(document).status_code == 202
    too_large = b"x" * (25 * 2**20 + 1)
    assert post(sqlite_follower, too_large).status_code == 413


def test_other_events_are_ignored(sqlite_follower):
    answer = sqlite_follower.send({"zen": "Design for failure."}, event="ping")
    assert (answer.status_code, answer.json()) == (202, {"status": "ignored"})


def test_a_delivery_is_acknowledged_while_the_model_is_busy(tmp_path, models):
    chosen = ServerSettings(tmp_path, port=0, token_file=tmp_path / "token", github=settings())
    busy, go_on = threading.Event(), threading.Event()

    def long_job():
        busy.set()
        go_on.wait(60)
        yield

    with serving(chosen, models) as (server, address):
        thread = threading.Thread(target=server.serve_here, daemon=True)
        thread.start()
        engine = server.config.app.app.state.context.engine
        engine.run(long_job())
        assert busy.wait(60)
        with httpx.Client(base_url=address) as client:
            body = json.dumps(run_event()).encode()
            headers = {
                "X-GitHub-Event": "workflow_run",
                "X-GitHub-Delivery": "a",
                SIGNATURE: signature(SECRET, body),
            }
            until(lambda: server.started)
            answer = client.post("/v1/github/webhook/default", content=body, headers=headers)
        assert answer.status_code == 202
        assert not go_on.is_set()
        go_on.set()
        server.should_exit = True
        thread.join()
