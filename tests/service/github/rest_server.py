"""A small GitHub on 127.0.0.1: runs, jobs, check runs, statuses and tokens of an App."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Rest:
    """What it knows, what it was asked, and what it was told; until its ``with`` block ends."""

    def __init__(self):
        self.runs, self.jobs, self.checks = {}, {}, {}
        self.asked, self.statuses, self.tokens, self.authorized = [], [], [], []
        self.failing = {}

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def paths(self, method="GET"):
        return [path for verb, path in self.asked if verb == method]

    def answer(self, method, path, query, body):
        if path.startswith("/app/installations/"):
            token = f"ghs_{len(self.tokens)}"
            self.tokens.append(token)
            return 201, {"token": token, "expires_at": "2999-01-01T00:00:00Z"}
        below = path.removeprefix("/repos/o/r/")
        if match := re.fullmatch(r"actions/runs/(\d+)(/attempts/\d+)?", below):
            found = self.runs.get(int(match[1]))
        elif match := re.fullmatch(r"actions/runs/(\d+)/jobs", below):
            jobs = [one for one in self.jobs.values() if one["run_id"] == int(match[1])]
            found = {"total_count": len(jobs), "jobs": jobs}
        elif match := re.fullmatch(r"actions/jobs/(\d+)", below):
            found = self.jobs.get(int(match[1]))
        elif below == "actions/runs":
            runs = list(self.runs.values())
            found = {"total_count": len(runs), "workflow_runs": runs}
        elif match := re.fullmatch(r"commits/(\w+)/check-runs", below):
            checks = [one for one in self.checks.values() if one["head_sha"] == match[1]]
            found = {"total_count": len(checks), "check_runs": checks}
        elif (method, below) == ("POST", "check-runs"):
            number = 900 + len(self.checks)
            self.checks[number] = found = {"id": number, "updates": 0, **body}
        elif match := re.fullmatch(r"check-runs/(\d+)", below):
            found = self.checks.get(int(match[1]))
            found.update(body, updates=found["updates"] + 1)
        elif match := re.fullmatch(r"statuses/(\w+)", below):
            found = {"id": len(self.statuses), "sha": match[1], **body}
            self.statuses.append(found)
        else:
            found = None
        if found is None:
            return 404, {"message": "Not Found"}
        return 201 if method == "POST" else 200, found


def _handler(rest):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def serve(self):
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            rest.asked.append((self.command, parts.path))
            rest.authorized.append(self.headers.get("authorization"))
            status = rest.failing.pop((self.command, parts.path), None)
            document = {"message": "broken"}
            if status is None or status < 0:
                query = parse_qs(parts.query)
                answer = rest.answer(self.command, parts.path, query, body)
                status, document = answer if status is None else (-status, document)
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = serve

    return Handler
