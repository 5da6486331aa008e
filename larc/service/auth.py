"""Tokens: who may do what, with which streams."""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Row

from larc.errors import LarcError
from larc.service.problems import Problem
from larc.service.store.admin import find_token
from larc.service.store.database import Database

SCOPES = ("ask", "label", "read", "admin")
_TOKEN = re.compile(r"larc_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
#: How long a token is believed before it is looked up again, in seconds.
_BELIEVED = 1.0
_MOST = 10_000


@dataclass(frozen=True)
class Principal:
    """Who asks: a token's public part, what it may do, and with which streams."""

    id: str
    scopes: frozenset[str]
    streams: tuple[str, ...]

    def sees(self, stream: str) -> bool:
        """Whether a stream is this token's.

        Examples
        --------
        >>> Principal("a", frozenset({"ask"}), ("acme.*",)).sees("acme.tickets")
        True
        """
        return any(fnmatch.fnmatchcase(stream, glob) for glob in self.streams)

    def check(self, scope: str, stream: str | None = None) -> None:
        """Refuse what the token may not do; a stream of somebody else does not exist."""
        if stream is not None and not self.sees(stream):
            raise Problem("not-found", f"there is no stream {stream!r}.")
        if scope not in self.scopes:
            raise Problem("forbidden", f"the token has no scope {scope!r}.")

    def check_operator(self) -> None:
        """Refuse whoever is not an administrator of every stream."""
        if "admin" not in self.scopes or "*" not in self.streams:
            raise Problem("forbidden", "only an administrator of all streams may do this.")


def new_token(
    scopes: Collection[str],
    streams: Collection[str],
    *,
    note: str = "",
    expires_in_s: float | None = None,
    token: str = "",
) -> tuple[dict[str, Any], str]:
    """Return a token's row, which holds no secret, and the token itself.

    A new one, unless one is given.

    Examples
    --------
    >>> row, text = new_token(["ask"], ["acme.*"])
    >>> text.startswith("larc_" + row["id"]), text.split("_", 2)[2] in str(row)
    (True, False)
    """
    text = token or f"larc_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        raise LarcError("this is no token of larc; give one that `larc serve` made.")
    name, secret = parts[1], parts[2]
    time_now = time.time()
    row = {
        "id": name,
        "hash": _hash(secret),
        "scopes": json.dumps(sorted(set(scopes))),
        "streams": json.dumps(sorted(set(streams))),
        "note": note,
        "created_at": time_now,
        "expires_at": None if expires_in_s is None else time_now + expires_in_s,
        "revoked_at": None,
    }
    return row, text


def _hash(secret: str) -> str:
    # 32 random bytes need no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode()).hexdigest()


class Doorkeeper:
    """Knows tokens; one that was looked up a moment ago is believed for a second."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Row[Any]]] = OrderedDict()

    def known(self, text: str) -> Principal | None:
        """Return who a token is of, if that can be told without the database."""
        parts = _TOKEN.fullmatch(text)
        with self._lock:
            entry = self._known.get(parts[1]) if parts else None
        if parts is None or entry is None or entry[0] < time.monotonic():
            return None
        return _admitted(entry[1], parts[2])

    def admit(self, text: str) -> Principal:
        """Return who a token is of, or refuse it."""
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            raise Problem("unauthorized", "give the header `Authorization: Bearer TOKEN`.")
        with self.database.reading() as connection:
            row = find_token(connection, parts[1])
        if row is None:
            raise Problem("unauthorized", "there is no such token.")
        principal = _admitted(row, parts[2])
        with self._lock:
            self._known[parts[1]] = (time.monotonic() + _BELIEVED, row)
            self._known.move_to_end(parts[1])
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return principal

    def forget(self, name: str) -> None:
        """Look a token up again before it is believed."""
        with self._lock:
            self._known.pop(name, None)


def _admitted(row: Row[Any], secret: str) -> Principal:
    same = hmac.compare_digest(_hash(secret).encode(), row.hash.encode())
    over = row.revoked_at is not None or (
        row.expires_at is not None and row.expires_at < time.time()
    )
    if not same or over:
        raise Problem("unauthorized", "there is no such token.")
    return Principal(row.id, frozenset(json.loads(row.scopes)), tuple(json.loads(row.streams)))


class Buckets:
    """At most so many requests a second for each token, with bursts of two seconds' worth.

    Examples
    --------
    >>> buckets = Buckets(1.0)
    >>> [buckets.wait("a", at=0.0), buckets.wait("a", at=0.0), buckets.wait("a", at=0.0)]
    [0.0, 0.0, 1.0]
    >>> buckets.wait("a", at=1.0)
    0.0
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str, at: float | None = None) -> float:
        """Take one, or return how many seconds until there is one."""
        if self.rate <= 0:
            return 0.0
        at = time.monotonic() if at is None else at
        left, since = self._left.pop(name, (2 * self.rate, at))
        left = min(left + (at - since) * self.rate, 2 * self.rate)
        self._left[name] = (left - 1 if left >= 1 else left, at)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self.rate
