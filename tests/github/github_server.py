"""A small GitHub on 127.0.0.1: runs and jobs in GitHub's form, and misbehaviour on schedule."""

import hashlib
import json
import re
import socket
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

CONCLUSIONS = ("success", "success", "success", "failure", "cancelled", "skipped", "timed_out")
START = datetime(2026, 1, 5, tzinfo=UTC)


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def make_run(number, created=None, **changes):
    created = created or START + timedelta(minutes=7 * number)
    run = {
        "id": 1000 + number,
        "name": "CI",
        "node_id": f"WFR_{number}",
        "head_branch": "main",
        "head_sha": f"{number:040x}",
        "path": ".github/workflows/ci.yml",
        "run_number": number,
        "event": "push" if number % 2 else "pull_request",
        "status": "completed",
        "conclusion": "success",
        "workflow_id": 55,
        "url": f"https://api.github.com/repos/o/r/actions/runs/{1000 + number}",
        "pull_requests": [],
        "created_at": stamp(created),
        "updated_at": stamp(created + timedelta(minutes=20)),
        "run_attempt": 1,
        "jobs_url": f"https://api.github.com/repos/o/r/actions/runs/{1000 + number}/jobs",
        "repository": {"id": 1, "full_name": "o/r", "private": False},
    }
    return run | changes


def make_jobs(run, count):
    created = datetime.fromisoformat(run["created_at"])
    return [
        {
            "id": run["id"] * 1000 + number,
            "run_id": run["id"],
            "workflow_name": run["name"],
            "head_branch": run["head_branch"],
            "run_url": run["url"],
            "run_attempt": 1,
            "head_sha": run["head_sha"],
            "status": "completed",
            "conclusion": CONCLUSIONS[(run["id"] + number) % len(CONCLUSIONS)],
            # Many jobs start in one second: their order needs their ids.
            "created_at": stamp(created),
            "started_at": stamp(created + timedelta(seconds=number // 3)),
            "completed_at": stamp(created + timedelta(seconds=60 + number)),
            "name": f"build ({number})",
            "steps": [{"name": "Set up job", "status": "completed", "number": 1}],
            "labels": ["ubuntu-latest"],
        }
        for number in range(count)
    ]


@dataclass
class Asked:
    """One request as it came in, and the status it was answered with."""

    path: str
    query: dict
    headers: dict
    status: int | None = None


@dataclass
class Planned:
    """Something to happen at the requests that match, after some that are let through."""

    match: re.Pattern
    act: object
    after: int
    times: int


@dataclass
class GitHubServer:
    """Serves runs and jobs until it leaves its ``with`` block."""

    runs: list = field(default_factory=list)
    jobs: dict = field(default_factory=dict)
    repository: str = "o/r"
    prefix: str = ""
    most: int = 1000
    page_size: int = 100
    knows_created: bool = True
    asked: list = field(default_factory=list)
    plans: list = field(default_factory=list)

    def __enter__(self):
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}{self.prefix}"

    def plan(self, act, match="", after=0, times=1):
        """Let ``act(handler)`` answer, or do something beforehand and return ``False``."""
        self.plans.append(Planned(re.compile(match), act, after, times))

    def paths(self, start=0):
        return [one.path for one in self.asked[start:]]

    def planned(self, address):
        with self._lock:
            for plan in self.plans:
                if plan.times and plan.match.search(address):
                    if plan.after:
                        plan.after -= 1
                        continue
                    plan.times -= 1
                    return plan.act
        return None

    def answer(self, path, query):
        base = f"{self.prefix}/repos/{self.repository}/actions/runs"
        if path == base:
            runs = sorted(self.runs, key=lambda run: (run["created_at"], run["id"]), reverse=True)
            if self.knows_created and "created" in query:
                first, last = query["created"].split("..")
                runs = [run for run in runs if first <= run["created_at"] <= last]
            return self._page(runs, "workflow_runs", query, self.most)
        match = re.fullmatch(rf"{re.escape(base)}/(\d+)/jobs", path)
        if match and int(match[1]) in self.jobs:
            assert query["filter"] == "all"
            return self._page(self.jobs[int(match[1])], "jobs", query, None)
        return None

    def _page(self, items, name, query, most):
        size = min(int(query.get("per_page", 30)), self.page_size)
        number = int(query.get("page", 1))
        body = {"total_count": len(items), name: items[:most][(number - 1) * size : number * size]}
        return body, number * size < len(items[:most])


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def do_GET(self):
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.asked = Asked(parts.path, query, headers)
            server.asked.append(self.asked)
            act = server.planned(self.path)
            if act is not None and act(self) is not False:
                return
            answer = server.answer(parts.path, query)
            if answer is None:
                self.send(404, {"message": "Not Found"})
                return
            body, more = answer
            text = json.dumps(body).encode()
            tag = f'W/"{hashlib.sha256(text).hexdigest()}"'
            if headers.get("if-none-match") == tag:
                self.send(304, None, {"etag": tag})
                return
            links = {"link": f'<{server.url}{self.path}&page=2>; rel="next"'} if more else {}
            self.send(200, body, {"etag": tag, **links})

        def send(self, status, body, headers=None):
            text = b"" if body is None else json.dumps(body).encode()
            self.send_bytes(status, text, {"content-length": str(len(text)), **(headers or {})})

        def send_bytes(self, status, text, headers):
            self.asked.status = status
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

    return Handler


# Misbehaviour ----------------------------------------------------------------------------------


def refuse(status, message="", **headers):
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return lambda handler: handler.send(status, {"message": message}, named)


def cut_json(handler):
    """Answer with half a document, and be done with it: the length is right."""
    text = b'{"total_count": 3, "workflow_runs": [{"id": 1'
    handler.send_bytes(200, text, {"content-length": str(len(text))})


def cut_body(handler):
    """Promise more than is sent."""
    handler.send_bytes(200, b'{"total_count": 3, ', {"content-length": "5000"})
    drop(handler)


def drop(handler):
    """Hang up."""
    handler.close_connection = True
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def web_page(handler):
    text = b"<html>Unicorn!</html>"
    headers = {"content-length": str(len(text)), "content-type": "text/html"}
    handler.send_bytes(200, text, headers)


def nothing_new(handler):
    """Say that nothing has changed to somebody who knows nothing yet."""
    handler.send(304, None)


def redirect(url, status=301):
    return lambda handler: handler.send(status, {"message": "Moved"}, {"location": url})


def first(change):
    """Change something, then answer as always."""

    def act(handler):
        change()
        return False

    return act


class Hold:
    """Holds a request until it is let go, so that its client can be killed meanwhile."""

    def __init__(self):
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, handler):
        self.reached.set()
        self.go_on.wait(30)
        handler.close_connection = True
