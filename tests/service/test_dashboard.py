"""The dashboard's pages over HTTP: who may see them, what they say, and what their forms do."""

import base64
import hashlib
import json
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

import larc.service.dashboard
from larc.service.dashboard.overview import PAGE
from larc.service.dashboard.rendering import POLICY
from larc.service.http.context import HttpSettings
from tests.service.conftest import ROOT, until

STATIC = Path(larc.service.dashboard.__file__).parent / "static"
#: Of the files of uPlot 1.6.32 as they are in its package on npm.
UPLOT = {
    "uplot-1.6.32.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def filled(server):
    """A server with a stream of a dozen labels, one question awaited, one of them hostile."""
    server.make("acme.tickets", template="sham")
    for number in range(12):
        server.ask("acme.tickets", f"t{number}", candidates=("up", "down", EVIL))
        server.label("acme.tickets", f"t{number}", 0 if number % 3 else 2)
    server.ask("acme.tickets", f"late {EVIL}", prompt=f"Then: {EVIL} ")
    return server


def test_without_a_session_nothing_is_shown(filled, visit):
    stranger = visit(filled)
    assert stranger.get("/").status_code == 401
    for path in ("/streams/acme.tickets", "/playground", "/streams/acme.tickets/log.jsonl"):
        page = stranger.get(path)
        assert page.url.path == "/login"
        assert "acme" not in page.text.replace(path, "")
    for path in ("/changes", "/streams/acme.tickets/changes"):
        assert stranger.get(path).url.path == "/login"
    assert (
        stranger.http.post("/streams/acme.tickets/mode", data={"mode": "frozen"}).status_code == 401
    )
    assert filled.status("acme.tickets")["mode"] == "learn"


def test_a_token_opens_a_session_that_ends(filled, visit):
    person = visit(filled)
    wrong = person.http.post("/login", data={"token": "larc_0_nothing"})
    assert wrong.status_code == 401
    assert "no such token" in wrong.text
    answer = person.http.post(
        "/login",
        data={"token": filled.token, "next": "//evil.example/x"},
        follow_redirects=False,
    )
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert filled.token not in cookie
    assert "acme.tickets" in person.get("/").text
    kept = person.http.cookies["larc_session"]
    assert person.send("/logout").url.path == "/login"
    person.http.cookies.set("larc_session", kept)
    assert until(lambda: person.get("/").status_code == 401)


def test_a_revoked_token_ends_its_sessions(filled, visit):
    token = filled.token_for(["read"], ["acme.*"])
    person = visit(filled, token)
    assert person.get("/").status_code == 200
    filled.http.delete(f"/v1/tokens/{token.split('_')[1]}").raise_for_status()
    assert until(lambda: person.get("/").status_code == 401)
    # Nor does the cookie stand for a token that opens another.
    assert visit(filled).http.post("/login", data={"token": token}).status_code == 401


def test_a_session_opens_no_session(filled, visit):
    cookie = visit(filled, filled.token).http.cookies["larc_session"]
    assert visit(filled).http.post("/login", data={"token": cookie}).status_code == 401


def test_another_customers_stream_does_not_exist(filled, visit):
    person = visit(filled, filled.token_for(["ask", "label", "read", "admin"], ["globex.*"]))
    assert "acme" not in person.get("/").text
    numbers = re.findall(r"<dd>(\d+)", person.get("/").text)
    assert numbers[:4] == ["0", "0", "0", "0"]
    for path in ("", "/question?id=t1", "/rollback?version=0", "/log.jsonl", "/changes"):
        assert person.get(f"/streams/acme.tickets{path}").status_code == 404
        missing = person.get(f"/streams/nothing{path}").status_code
        assert missing == 404
    for path in ("mode", "snapshots", "rollback", "evaluations"):
        fields = {"mode": "frozen", "version": "0", "confirmed": "yes"}
        assert person.send(f"/streams/acme.tickets/{path}", **fields).status_code == 404
    assert filled.status("acme.tickets")["mode"] == "learn"


def test_scopes_are_kept(filled, visit):
    person = visit(filled, filled.token_for(["read"], ["acme.*"]))
    page = person.get("/streams/acme.tickets")
    assert page.status_code == 200
    assert "Change the mode" not in page.text
    assert person.send("/streams/acme.tickets/mode", mode="frozen").status_code == 403
    assert person.send("/playground/ask", prompt="a", candidates="b\nc").status_code == 403
    blind = visit(filled, filled.token_for(["ask"], ["acme.*"]))
    assert blind.get("/").status_code == 403
    assert blind.get("/streams/acme.tickets").status_code == 403


def test_forms_of_other_sites_are_refused(filled, visit):
    person = visit(filled, filled.token)
    assert (
        person.http.post("/streams/acme.tickets/mode", data={"mode": "frozen"}).status_code == 403
    )
    stolen = visit(filled, filled.token)
    key = re.search(r'name="form_key" value="([0-9a-f]+)"', stolen.get("/").text)[1]
    fields = {"mode": "frozen", "form_key": key}
    assert person.http.post("/streams/acme.tickets/mode", data=fields).status_code == 403
    evil = {"Origin": "https://evil.example"}
    fields["form_key"] = re.search(r'name="form_key" value="([0-9a-f]+)"', person.get("/").text)[1]
    refused = person.http.post("/streams/acme.tickets/mode", data=fields, headers=evil)
    assert refused.status_code == 403
    refused = visit(filled).http.post("/login", data={"token": filled.token}, headers=evil)
    assert refused.status_code == 403
    assert filled.status("acme.tickets")["mode"] == "learn"


def test_every_answer_has_the_policy_and_no_inline_code(filled, visit):
    person = visit(filled, filled.token)
    person.send("/playground/ask", page="/playground", prompt=f"a {EVIL} ", candidates=f"b\n{EVIL}")
    for path in (
        "/",
        "/login",
        "/streams/acme.tickets",
        "/streams/acme.tickets/question?id=t1",
        f"/streams/acme.tickets/question?id=late {EVIL}",
        "/streams/acme.tickets/rollback?version=0",
        "/streams/playground",
        "/playground",
        "/streams/nothing",
        "/static/charts.js",
    ):
        page = person.get(path)
        assert page.headers["content-security-policy"] == POLICY, path
        assert page.headers["x-content-type-options"] == "nosniff"
        if "html" not in page.headers["content-type"]:
            continue
        assert EVIL not in page.text, path
        assert not re.search(r"<[^>]* (style|on\w+)=", page.text), path
        for script in re.findall(r"<script([^>]*)>", page.text):
            assert "src=" in script or 'type="application/json"' in script
        for address in re.findall(r'(?:src|href)="(https?:)?//', page.text):
            pytest.fail(f"{path} loads from {address}")
    assert "&lt;script&gt;" in person.get(f"/streams/acme.tickets/question?id=late {EVIL}").text


def test_a_stream_cannot_have_markup_as_its_name(filled, visit):
    person = visit(filled, filled.token)
    page = person.get(f"/streams/{EVIL}")
    assert page.status_code == 404
    assert EVIL not in page.text


def test_files_are_those_that_pages_ask_for():
    for name, digest in UPLOT.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (STATIC / "uplot-LICENSE.txt").read_text()
    # The wheel takes what git does not ignore.
    files = [
        str(path) for path in STATIC.parent.rglob("*") if path.suffix in (".html", ".js", ".css")
    ]
    assert len(files) > 10
    ignored = subprocess.run(
        ["git", "check-ignore", *files], cwd=ROOT, capture_output=True, text=True
    )
    assert ignored.stdout == ""


def test_pages_say_the_hash_of_what_they_load(filled, visit):
    person = visit(filled, filled.token)
    page = person.get("/streams/acme.tickets").text
    loaded = re.findall(r'(?:src|href)="/static/([^"]+)" integrity="sha256-([^"]+)"', page)
    assert {name for name, _ in loaded} >= {*UPLOT, "charts.js", "live.js", "dashboard.css"}
    assert len(loaded) == page.count("/static/")
    for name, digest in loaded:
        content = person.get(f"/static/{name}").content
        assert base64.b64encode(hashlib.sha256(content).digest()).decode() == digest
    assert person.get("/static/..%2froutes.py").status_code == 404
    assert person.get("/static/nothing.js").status_code == 404


def test_a_stream_as_tables(filled, visit):
    """Without script, everything that a chart shows is in a table."""
    page = visit(filled, filled.token).get("/streams/acme.tickets").text
    for text in ("mixture", "kept (keep)", "reset", "sham", "PRIOR", "Reliability as a table"):
        assert text in page
    shown = json.loads(re.search(r'id="series" data-live>(.*?)</script>', page, re.DOTALL)[1])
    assert shown["labels"] == list(range(1, 13))
    status = filled.status("acme.tickets")
    for name, values in shown["losses"].items():
        told = status["losses"][name]
        assert sum(values) == pytest.approx(told["sum"], abs=1e-3)
        assert len(values) == told["count"]
    assert shown["bound"] == pytest.approx(status["bound"])
    assert max(value for value in shown["regret"]) <= shown["bound"]
    best = max(
        status["losses"]["mixture"]["sum"] - told["sum"]
        for name, told in status["losses"].items()
        if name != "mixture"
    )
    assert shown["regret"][-1] == pytest.approx(best, abs=1e-3)
    for weights in zip(*shown["weights"].values(), strict=True):
        assert sum(weights) == pytest.approx(1, abs=1e-3)


def test_losses_corrections_and_early_labels_are_shown_as_they_count(server, visit):
    server.make("a", mode="observe")
    server.ask("a", "costs")
    server.label("a", "costs", losses=[0.25, 0.75])
    server.label("a", "early", "up", wait=False)
    server.ask("a", "early")
    server.ask("a", "wrong")
    server.label("a", "wrong", "up")
    body = {"label": "down"}
    path = "/v1/streams/a/questions/wrong/correction?wait=applied"
    server.http.post(path, json=body).raise_for_status()
    person = visit(server, server.token)
    page = person.get("/streams/a").text
    shown = json.loads(re.search(r'id="series" data-live>(.*?)</script>', page, re.DOTALL)[1])
    status = server.status("a")
    # The early label's answer counts nowhere; the corrected one counts under the right label.
    assert shown["losses"]["mixture"] == pytest.approx(
        [status["risks"]["mixture"]["sum"], status["losses"]["mixture"]["sum"]], abs=1e-4
    )
    assert "trust judges by the lowest" in person.get("/streams/a/question?id=costs").text
    assert "The stream observed" in person.get("/streams/a/question?id=costs").text
    assert "counts nowhere" in person.get("/streams/a/question?id=early").text
    assert "corrected" in person.get("/streams/a/question?id=wrong").text


def test_many_streams_have_several_pages(sqlite_server, visit):
    for number in range(PAGE + 2):
        sqlite_server.make(f"s{number:03}")
    person = visit(sqlite_server, sqlite_server.token)
    first = person.get("/").text
    assert f">{PAGE + 2}<" in first
    assert first.count('<th><a href="/streams/') == PAGE
    second = person.get(re.search(r'href="(/\?after=[^"]+)"', first)[1]).text
    assert second.count('<th><a href="/streams/') == 2


def test_regret_begins_again_with_a_rollback(filled, visit):
    person = visit(filled, filled.token)
    person.send("/streams/acme.tickets/rollback", version="0", confirmed="yes")
    filled.ask("acme.tickets", "after", candidates=("up", "down", "none"))
    filled.label("acme.tickets", "after", 1)
    page = person.get("/streams/acme.tickets").text
    shown = json.loads(re.search(r'id="series" data-live>(.*?)</script>', page, re.DOTALL)[1])
    assert shown["regret"][:-1] == [None] * 12
    assert shown["regret"][-1] is not None
    assert shown["regret"][-1] < shown["bound"]


def test_a_question_says_who_answered_what(filled, visit):
    answer = filled.http.get("/v1/streams/acme.tickets/questions/t5").json()["answer"]
    page = visit(filled, filled.token).get("/streams/acme.tickets/question?id=t5").text
    for name, policy in answer["said"].items():
        assert name in page
        assert f"{100 * policy[0]:.1f}\u00a0%" in page
    assert "of the trust and gives it" in page
    assert visit(filled, filled.token).get("/streams/acme.tickets/question?id=x").status_code == 404


def test_mode_snapshot_rollback_and_export(filled, visit):
    person = visit(filled, filled.token)
    home = "/streams/acme.tickets"
    assert person.send(f"{home}/mode", mode="frozen").status_code == 200
    assert filled.status("acme.tickets")["mode"] == "frozen"
    assert person.send(f"{home}/mode", mode="fast").status_code == 422
    person.send(f"{home}/mode", mode="learn")
    page = person.send(f"{home}/snapshots", label=f"before {EVIL}")
    assert "before &lt;script&gt;" in page.text
    version = int(re.search(r"rollback\?version=(\d+)", page.text)[1])
    filled.ask("acme.tickets", "more")
    filled.label("acme.tickets", "more", "up")
    asked = person.get(f"{home}/rollback?version={version}")
    assert f"Roll back to version {version}?" in asked.text
    assert person.get(f"{home}/rollback?version=7777").status_code == 404
    before = filled.status("acme.tickets")
    # Nothing happens before it is confirmed.
    assert person.send(f"{home}/rollback", version=version).status_code == 422
    assert filled.status("acme.tickets") == before
    key = re.search(r'name="key" value="([^"]+)"', asked.text)[1]
    for _ in range(2):  # sent twice, it is one
        assert person.send(f"{home}/rollback", version=version, confirmed="yes", key=key).is_success
    events = filled.events("acme.tickets")
    assert [one["kind"] for one in events].count("rollback") == 1
    content = person.get(f"{home}/snapshots/{version}/file").content
    direct = filled.http.get(f"/v1{home}/snapshots/{version}/file").content
    assert content == direct
    lines = person.get(f"{home}/log.jsonl").text.splitlines()
    assert [json.loads(line) for line in lines] == events


def test_a_replay_shows_sham(filled, visit):
    person = visit(filled, filled.token)
    assert "Replay the log" in person.send("/streams/acme.tickets/evaluations").text

    def done():
        text = person.get("/streams/acme.tickets").text
        return text if "Gain over reset" in text else None

    text = until(done)
    assert re.search(r"<th>sham</th><td class=\"number\">0\.\d+", text)


def test_looking_asks_no_model(filled, visit, monkeypatch):
    """No page costs a forward pass: whether learning pays comes from what was stored."""
    person = visit(filled, filled.token)
    monkeypatch.setattr("larc.learner.Learner.read_many", None)
    monkeypatch.setattr("larc.learner.Learner.update_many", None)
    for _ in range(2):
        text = person.get("/").text
        assert "acme.tickets" in text
        assert "[" in text
    assert person.get("/streams/acme.tickets").status_code == 200


def test_a_listener_is_told_and_limited(start, visit):
    server = start(http=HttpSettings(listeners=1))
    server.make("a")
    person = visit(server, server.token)
    with person.http.stream("GET", "/streams/a/changes") as listening:
        lines = listening.iter_lines()
        assert [next(lines), next(lines)] == ["event: change", "data: 0"]
        assert person.get("/streams/a/changes").status_code == 429
        server.ask("a", "q")
        told = next(line for line in lines if line.startswith("data: "))
        assert told == "data: 1"
        # With the session, listening ends.
        person.send("/logout")
        assert not [line for line in lines if line.startswith("data: ") and line != told]


def test_the_address_is_printed_and_shows_the_dashboard(processes):
    process = processes()
    server = process.start()
    page = httpx.get(server.address + "/")
    assert page.status_code == 401
    assert "<h1>Log in</h1>" in page.text


def test_a_program_reads_one_line_and_may_stop_reading(processes):
    process = processes()
    server = process.start()
    process.signal(signal.SIGTERM)
    with process.process as ended:
        assert ended.stdout.read() == ""  # and the line that was read before
    server = process.start()
    process.process.stdout.close()
    assert server.http.get("/healthz").status_code == 200
    process.signal(signal.SIGTERM)
    assert process.process.wait(60) == 0


def test_api_refusals_stay_problems(server):
    for path in ("/v1/nothing", "/nothing"):
        assert server.http.get(path).headers["content-type"] == "application/problem+json"
    assert server.http.post("/v1/streams").status_code == 405
    paths = server.http.get("/v1/openapi.json").json()["paths"]
    assert not [path for path in paths if path.startswith(("/login", "/streams", "/playground"))]
