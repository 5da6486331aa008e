"""The names that other programs rely on, on both databases."""

import httpx
import pytest

from tests.service.conftest import until


def test_a_stream_is_made_once(server):
    first = server.make("tickets")
    assert first.status_code == 201
    assert first.json()["asked"] == first.json()["labelled"] == first.json()["awaited"] == 0
    assert server.make("tickets").status_code == 200
    other = server.make("tickets", template="solo")
    assert other.status_code == 409
    assert other.headers["content-type"] == "application/problem+json"
    assert other.json()["code"] == "other-template"
    assert server.make("new", template="nobody").status_code == 422


def test_a_body_may_be_left_out(server):
    assert server.http.put("/v1/streams/tickets").status_code == 201


def test_a_question_has_one_answer(server):
    server.make("s")
    first = server.ask("s", "a")
    assert first.status_code == 201
    answer = first.json()
    assert answer["id"] == "a"
    assert sum(answer["probabilities"]) == pytest.approx(1)
    assert answer["state_version"] == 0
    again = server.ask("s", "a")
    assert (again.status_code, again.json()) == (200, answer)
    assert server.label("s", "a", "up").status_code == 200
    later = server.ask("s", "a")
    assert (later.status_code, later.json()) == (200, answer)  # also after it has learned
    other = server.ask("s", "a", prompt="Something else: ")
    assert (other.status_code, other.json()["code"]) == (409, "other-body")
    assert server.ask("s", None).json()["id"]
    assert server.ask("missing", "a").status_code == 404


def test_labels_each_have_their_own_answer(server):
    server.make("s")
    server.ask("s", "a")
    taken = server.label("s", "a", "down", wait=False)
    assert (taken.status_code, taken.json()["status"]) == (202, "accepted")
    applied = server.label("s", "a", 1)
    assert (applied.status_code, applied.json()["status"]) == (200, "applied")
    again = server.label("s", "a", "down", wait=False)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert again.json()["seq"] == taken.json()["seq"]
    other = server.label("s", "a", "up")
    assert (other.status_code, other.json()["code"]) == (409, "other-label")
    server.ask("s", "b")
    for wrong in (2, "sideways", -1):
        assert server.label("s", "b", wrong).status_code == 422
    for wrong in (True, 0.5, None, []):
        assert server.label("s", "b", wrong).status_code == 422
    assert server.label("s", "b", 0).status_code == 200
    status = server.status("s")
    assert (status["asked"], status["labelled"], status["awaited"]) == (2, 2, 0)


def test_losses_are_labels_too(server):
    server.make("s")
    before = server.ask("s", "a").json()
    assert server.label("s", "a", losses=[0.0, 1.0]).status_code == 200
    assert server.label("s", "a", losses=[0, 1]).status_code == 200
    assert server.label("s", "a", losses=[1.0, 0.0]).status_code == 409
    assert server.label("s", "b", losses=[1.0]).status_code == 202
    after = server.ask("s", "c").json()
    assert after["said"]["keep"][0] > before["said"]["keep"][0]
    assert server.status("s")["risks"]["keep"]["count"] == 1
    refused = server.label("s", "c", losses=[1.0, 2.0, 3.0])
    assert refused.status_code == 422


def test_a_label_may_come_before_its_question(server):
    server.make("s")
    early = server.label("s", "a", "up")
    assert (early.status_code, early.json()["status"]) == (202, "early")
    assert server.label("s", "a", "up").status_code == 200
    assert server.label("s", "a", "down").status_code == 409
    answer = server.ask("s", "a")
    assert (answer.status_code, answer.json()["scored"]) == (201, False)
    status = server.status("s")
    assert (status["asked"], status["labelled"], status["awaited"]) == (1, 1, 0)
    assert status["losses"] == {}  # an answer made after its label counts nowhere
    assert status["state_version"] == 2  # but it was learned
    kinds = [(one["kind"], one["status"]) for one in server.events("s")]
    assert kinds == [("label", "applied"), ("question", "labelled")]


def test_an_early_label_that_fits_no_candidate_is_refused_when_its_question_comes(server):
    server.make("s")
    server.label("s", "a", "sideways")
    assert server.ask("s", "a").status_code == 201
    label, _ = server.events("s")
    assert label["status"] == "refused"
    assert "none of its candidates" in label["reason"]
    assert server.label("s", "a", "up").status_code == 200  # its key is free again


def test_the_log_is_in_order(server):
    server.make("s")
    for number in range(3):
        server.ask("s", f"q{number}")
        server.label("s", f"q{number}", 0)
    events = server.events("s")
    assert [one["seq"] for one in events] == [1, 2, 3, 4, 5, 6]
    assert events[0]["answer"]["id"] == "q0"
    rest = server.http.get("/v1/streams/s/events", params={"after": 4}).json()
    assert [one["seq"] for one in rest["events"]] == [5, 6]
    assert rest["last_seq"] == 6


def test_what_is_shown_of_a_stream(server):
    server.make("s")
    server.ask("s", "a")
    server.label("s", "a", 0)
    server.ask("s", "b")
    status = server.status("s")
    assert status["losses"]["mixture"]["count"] == 1
    assert 0 < status["losses"]["mixture"]["sum"] < 1
    assert set(status["weights"]) == {"keep", "reset", "PRIOR", "LAST", "HASHED"}
    assert sum(status["weights"].values()) == pytest.approx(1)
    assert status["bound"] > 0
    assert status["awaited"] == 1


def test_nothing_without_a_token(server):
    server.make("s")
    bare = httpx.Client(base_url=server.address)
    with bare:
        assert bare.get("/healthz").status_code == 200
        paths = ("/readyz", "/metrics", "/v1/streams", "/v1/streams/s", "/v1/models", "/v1/audit")
        for path in paths:
            refused = bare.get(path)
            assert refused.status_code == 401, path
            assert refused.headers["www-authenticate"] == "Bearer"
        body = {"id": "a", "prompt": "x", "candidates": ["a", "b"]}
        assert bare.post("/v1/streams/s/questions", json=body).status_code == 401
        wrong = {"Authorization": f"Bearer {server.token[:-1]}x"}
        assert bare.get("/v1/streams", headers=wrong).status_code == 401
        assert bare.get("/v1/streams", headers={"Authorization": "Basic eDp5"}).status_code == 401


def test_a_foreign_stream_does_not_exist(server):
    server.make("acme.tickets")
    server.make("other.tickets")
    token = server.token_for(["ask", "label", "read"], ["acme.*"])
    with httpx.Client(
        base_url=server.address, headers={"Authorization": f"Bearer {token}"}
    ) as acme:
        assert acme.get("/v1/streams/acme.tickets").status_code == 200
        for stream in ("other.tickets", "missing"):
            body = {"id": "a", "prompt": "x", "candidates": ["a", "b"]}
            answers = [
                acme.get(f"/v1/streams/{stream}"),
                acme.put(f"/v1/streams/{stream}", json={}),
                acme.post(f"/v1/streams/{stream}/questions", json=body),
                acme.post(f"/v1/streams/{stream}/questions/a/label", json={"label": 0}),
                acme.get(f"/v1/streams/{stream}/events"),
                acme.delete(f"/v1/streams/{stream}"),
            ]
            assert {one.status_code for one in answers} == {404}
        names = [one["name"] for one in acme.get("/v1/streams").json()["streams"]]
        assert names == ["acme.tickets"]
        assert acme.delete("/v1/streams/acme.tickets").status_code == 403
        assert acme.get("/v1/tokens").status_code == 403


def test_questions_of_many_streams_at_once(server):
    for name in "abc":
        server.make(name)
    questions = [
        {"stream": name, "id": "q", "prompt": "Next: ", "candidates": ["up", "down"]}
        for name in ("a", "b", "c", "missing")
    ]
    questions.append({**questions[0], "prompt": "Other: "})
    reply = server.http.post("/v1/questions:batch", json={"questions": questions})
    assert reply.status_code == 207
    statuses = [one["status"] for one in reply.json()["answers"]]
    assert statuses[1:4] == [201, 201, 404]
    assert sorted([statuses[0], statuses[4]]) == [201, 409]


def test_dropped_questions_take_no_label(server):
    server.make("s")
    server.ask("s", "a")
    assert server.http.delete("/v1/streams/s/questions/a").status_code == 204
    assert server.http.delete("/v1/streams/s/questions/a").status_code == 204
    late = server.label("s", "a", 0)
    assert (late.status_code, late.json()["code"]) == (410, "dropped")
    until(lambda: server.status("s")["awaited"] == 0)
    assert server.http.delete("/v1/streams/s/questions/b").status_code == 404
    server.ask("s", "c")
    server.label("s", "c", 0)
    assert server.http.delete("/v1/streams/s/questions/c").status_code == 409


def test_used_is_kept(server):
    server.make("s")
    server.ask("s", "a")
    assert server.http.post("/v1/streams/s/questions/a/used").status_code == 204
    assert server.http.post("/v1/streams/s/questions/b/used").status_code == 404


def test_erasing_a_stream_leaves_nothing(server):
    server.make("s")
    server.ask("s", "a", prompt="a secret of s")
    server.label("s", "a", 0)
    assert server.http.delete("/v1/streams/s").status_code == 204
    assert server.http.get("/v1/streams/s").status_code == 404
    assert server.make("s").status_code == 201
    answer = server.ask("s", "a").json()
    assert (answer["seq"], answer["state_version"]) == (1, 0)


def test_experts_of_the_caller(server):
    spec = {"given": ["mine"], "experts": ["prior"]}
    assert server.http.put("/v1/templates/with-mine", json=spec).status_code == 201
    assert server.http.put("/v1/templates/with-mine", json=spec).status_code == 200
    assert server.http.put("/v1/templates/with-mine", json={}).status_code == 409
    server.make("s", template="with-mine")
    assert server.ask("s", "a").status_code == 422
    asked = server.ask("s", "a", experts={"mine": [0.9, 0.1]})
    assert asked.json()["said"]["mine"] == [0.9, 0.1]
    assert server.ask("s", "b", experts={"mine": [0.9, 0.9]}).status_code == 422
    for number in range(10):
        server.ask("s", f"q{number}", experts={"mine": [0.99, 0.01]})
        server.label("s", f"q{number}", 0)
    weights = server.status("s")["weights"]
    assert max(weights, key=weights.get) == "mine"


def test_a_template_cannot_bring_code(server):
    for spec in ({"rule": "os:system"}, {"experts": ["os:system"]}, {"rule": "subprocess:Popen:1"}):
        assert server.http.put("/v1/templates/evil", json=spec).status_code == 422
