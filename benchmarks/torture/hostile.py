"""Requests that nobody should send: almost all of them reach a route's own code.

Each takes a route of the service's own description, and is right but for something: a field, an
id, a header, a token that is another's. What they are answered may be anything but status 500, and
may show nothing of another tenant.
"""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from larc.service import Client

TENANTS = ("mine", "other")
#: What only each tenant knows: in prompts, labels, notes of snapshots and candidates.
SECRETS = {"mine": "a-secret-of-mine", "other": "what-only-the-other-tenant-knows"}
STREAMS = ("a", "b", "c")
CANDIDATES = ["up", "down"]

_PIECES: list[Any] = [
    None, True, -1, 0, 1, 1e400, 2**70, 0.5, "", "up", "\u0000", "\ud800", "x" * 5000, "../../etc",
    "' OR 1=1 --", "{{7*7}}", [], [[]], ["up", "up"], ["up"] * 100, [float("nan")] * 2, {},
    {"$ne": 1}, "os:system", {"version": 2**70}, "theirs", "other.a", "larc:other.a", "*",
]  # fmt: skip
_ODD = ["..", "%00", "%ff", "a" * 300, "%2e%2e%2f", "ü", " ", "*", "a/b", "-", "0", "%0d%0ax:y"]
_FIELDS = [
    "id", "prompt", "candidates", "label", "losses", "template", "mode", "expiry", "experts",
    "context", "occurred_at", "version", "replay", "model", "messages", "max_tokens", "questions",
    "scopes", "streams", "strategies", "rule", "given", "draws", "relearn", "larc", "echo",
]  # fmt: skip
_RAW = [
    b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00" * 20,
    b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/streams/other.a HTTP/1.1\r\n\r\n",
    b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
]  # fmt: skip


@dataclass
class Hostility:
    """What came of it: how many there were of each status, and by whom something was seen."""

    requests: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def count(self, status: int) -> None:
        """Count an answer."""
        self.requests += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1


def hostile(
    address: str, operator: str, count: int, seed: int, say: Callable[[str], None]
) -> Hostility:
    """Send requests that nobody should send; none may break anything or show another's data.

    Parameters
    ----------
    address, operator
        A server, and the token of its administrator.
    count, seed
        How many requests, and which.
    say
        Told now and then how far it is.
    """
    result = Hostility()
    with Client(address, operator, attempts=8) as admin:
        for tenant in TENANTS:
            _furnish(admin, tenant)
    with httpx.Client(base_url=address, timeout=60) as http:
        enemy = Enemy(http, operator, random.Random(seed))
        while result.requests < count:
            if enemy.chance.random() < 0.02:
                result.count(_raw(address, enemy.chance.choice(_RAW)))
                continue
            who, request, what = enemy.request()
            try:
                reply = http.send(request, stream=what.endswith("/events/stream"))
                text = "" if what.endswith("/events/stream") else reply.text
                reply.close()
            except httpx.TransportError as error:
                result.problems.append(f"{what}: {type(error).__name__}")
                break
            result.count(reply.status_code)
            if reply.status_code == 500:
                body = b"" if request.stream is None else request.read()[:200]
                result.problems.append(f"{what} {body!r}: 500")
            for tenant, secret in SECRETS.items():
                if who not in (tenant, "operator") and secret in text:
                    result.problems.append(f"{what} showed {who or 'a stranger'} another's data")
            if result.requests % 2000 == 0:
                say(f"{result.requests} hostile requests: {dict(sorted(result.statuses.items()))}")
    with Client(address, operator, attempts=8) as admin:
        for name in STREAMS:
            if admin.status(f"other.{name}").last_seq != 3:
                result.problems.append(f"other.{name} was changed by somebody else")
    return result


def _furnish(admin: Client, tenant: str) -> None:
    """Give a tenant streams with something in them."""
    for name in STREAMS:
        stream = f"{tenant}.{name}"
        admin.stream(stream)
        admin.ask(stream, SECRETS[tenant], CANDIDATES, id="q0")
        admin.label(stream, "q0", 0, wait=True)
        admin.snapshot(stream, SECRETS[tenant])


class Enemy:
    """Makes requests.

    Parameters
    ----------
    http
        Where they go.
    operator
        The token of an administrator, with which tokens of tenants are made.
    chance
        Draws everything.
    """

    def __init__(self, http: httpx.Client, operator: str, chance: random.Random) -> None:
        self.http, self.chance = http, chance
        bearer = {"Authorization": f"Bearer {operator}"}
        described = http.get("/v1/openapi.json", headers=bearer).raise_for_status().json()
        self.routes = [
            (method.upper(), path)
            for path, methods in described["paths"].items()
            for method in methods
        ]

        def token(scopes: list[str], tenant: str) -> str:
            body = {"scopes": scopes, "streams": [f"{tenant}.*"]}
            reply = http.post("/v1/tokens", headers=bearer, json=body).raise_for_status()
            return str(reply.json()["token"])

        every = ["ask", "label", "read", "admin"]
        mine = token(every, "mine")
        revoked = token(every, "other")
        http.delete(f"/v1/tokens/{revoked.split('_')[1]}", headers=bearer).raise_for_status()
        forged = f"{token(every, 'other')[:-4]}AAAA"
        # Who it is of, the header, and how often.
        self.tokens: list[tuple[str, str, int]] = [
            ("mine", f"Bearer {mine}", 60),
            ("mine", f"Bearer {token(['read'], 'mine')}", 5),
            ("mine", f"Bearer {token(['ask', 'label'], 'mine')}", 5),
            ("other", f"Bearer {token(every, 'other')}", 10),
            ("operator", f"Bearer {operator}", 10),
            ("", f"Bearer {revoked}", 3),
            ("", f"Bearer {forged}", 3),
            ("", "", 1),
            ("", "Bearer x", 1),
            ("", f"Basic {mine}", 1),
            ("", f"bearer {mine[:-1]}", 1),
        ]

    def request(self) -> tuple[str, httpx.Request, str]:
        """Return who sends it, a request, and the route it is for."""
        chance = self.chance
        method, route = chance.choice(self.routes)
        if chance.random() < 0.02:
            method = chance.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE"])
        who, header, _ = chance.choices(self.tokens, [one[2] for one in self.tokens])[0]
        # Nobody who may change the streams of the other tenant tries to.
        safe = who in ("operator", "other") or chance.random() < 0.8
        whose = "mine" if safe else "other"
        if (method, route) == ("DELETE", "/v1/streams/{stream}") and safe:
            route = "/v1/streams/mine.new"  # the others are there for the next requests
        path = re.sub(r"\{(\w+)\}", lambda match: self._part(match[1], whose, who), route)
        query = self._query() if chance.random() < 0.4 else ""
        headers = {"Authorization": header} if header else {}
        if chance.random() < 0.2:
            odd = ["", "k", "é", "x" * 300, "q0", "-1", "9" * 18]
            headers["Idempotency-Key"] = chance.choice(odd).encode("utf-8")  # type: ignore[assignment]  # as bytes
            headers["Last-Event-ID"] = chance.choice(odd[:2] + odd[3:])
        content: dict[str, Any] = {}
        if method in ("POST", "PUT", "PATCH") or chance.random() < 0.05:
            content = self._content(route, whose)
            headers |= content.pop("headers", {})
        request = self.http.build_request(method, path + query, headers=headers, **content)
        return who, request, f"{method} {path}"

    def _part(self, name: str, whose: str, who: str) -> str:
        chance = self.chance
        if chance.random() < 0.1 and who != "operator":
            return chance.choice(_ODD)
        if name == "stream":
            return f"{whose}.{chance.choice((*STREAMS, 'new'))}"
        if name == "question":
            return chance.choice(["q0", "q1", "q2", "q3", "missing"])
        if name == "version":
            return chance.choice(["0", "1", "2", "99", "-1", str(2**63), "x"])
        if name == "template":
            return chance.choice(["default", "plain", "solo", "t1", "t2", "t3"])
        if name == "evaluation":
            return chance.choice(["0" * 36, "01890000-0000-7000-8000-000000000000", "x"])
        return chance.choice(["0" * 16, "f" * 16, "x"])

    def _query(self) -> str:
        name = self.chance.choice(["wait", "after", "limit", "x"])
        value = self.chance.choice(
            ["applied", "0", "-1", "1", "9" * 30, "", "a b", "\u00fc", "true"]
        )
        return f"?{name}={quote(value)}"

    def _content(self, route: str, whose: str) -> dict[str, Any]:
        """Return a body: right, almost right, or none at all."""
        chance, kind = self.chance, self.chance.random()
        if kind < 0.03:
            return {}
        if kind < 0.06:
            return {"content": chance.randbytes(chance.randrange(200))}
        if kind < 0.07:
            return {"content": b"[" * 50_000, "headers": {"Content-Type": "application/json"}}
        if kind < 0.08:
            return {"content": b" " * (2**20 + 10)}
        body = self._right(route, whose)
        if kind < 0.5 and body:
            changed = chance.choice(list(body))
            body[changed] = chance.choice(_PIECES)
        if kind < 0.2:
            body[chance.choice(_FIELDS)] = chance.choice(_PIECES)
        content = json.dumps(body).encode()
        if kind > 0.98:
            content = content[: chance.randrange(len(content))]
        return {"content": content, "headers": {"Content-Type": "application/json"}}

    def _right(self, route: str, whose: str) -> dict[str, Any]:
        """Return a body that the route takes."""
        chance = self.chance
        number = chance.randrange(4)
        question = {"id": f"q{number}", "prompt": f"Item {number}: ", "candidates": CANDIDATES}
        model = f"larc:{whose}.{chance.choice(STREAMS)}"
        named = {"question_id": "q9", "candidates": CANDIDATES}
        every: dict[str, dict[str, Any]] = {
            "/questions": question,
            "/label": chance.choice([{"label": 0}, {"label": "down"}, {"losses": [0.0, 1.0]}]),
            "/correction": {"label": 1, "relearn": chance.random() < 0.5},
            "/rollback": {"version": chance.choice([0, 2]), "replay": chance.random() < 0.5},
            "/snapshots": {"label": "x"},
            "/evaluations": {"draws": 100, "seed": 1},
            "/questions:batch": {
                "questions": [{"stream": f"{one}.a", **question} for one in (whose, "mine")]
            },
            "/tokens": {"scopes": ["read"], "streams": ["mine.*"], "expires_in_s": 0.001},
            "/completions": chance.choice(
                [
                    {"model": model, "prompt": "x", "max_tokens": 2, "stop": ["y"]},
                    {"model": model, "prompt": "x", "echo": True, "max_tokens": 0, "logprobs": 2},
                    {"model": f"{model}@2", "prompt": "x", "max_tokens": 1},
                    {"model": model, "prompt": "x", "stream": True, "larc": named},
                ]
            ),
            "/chat/completions": {
                "model": model,
                "messages": [{"role": "user", "content": "x"}],
                "max_tokens": 2,
                "stream": chance.random() < 0.5,
            },
            "/streams/{stream}": chance.choice(
                [{"template": "default", "mode": "learn"}, {"mode": "observe"}, {"mode": "frozen"}]
            ),
            "/templates/{template}": {
                "strategies": [{"name": "keep"}],
                "experts": ["prior"],
                "rule": "sgd:0.1",
                "model": "tiny",
                "slow_state": "untrained",
                "seed": number,
            },
        }
        for end in sorted(every, key=len, reverse=True):
            if route.endswith(end):
                return dict(every[end])
        return {}


def _raw(address: str, content: bytes) -> int:
    """Send bytes that are no request, or two; returns the status of what comes back, 0 for none."""
    where = urlsplit(address)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=30) as opened:
        opened.sendall(content)
        opened.shutdown(socket.SHUT_WR)
        reply = b""
        try:
            while part := opened.recv(4096):
                reply += part
        except ConnectionResetError:
            return 0
    for secret in SECRETS.values():
        if secret.encode() in reply:
            return 500
    status = re.match(rb"HTTP/1\.[01] (\d{3})", reply)
    return int(status[1]) if status else 0
