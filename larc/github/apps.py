"""A GitHub App: it proves who it is by its key, and gets a token for an hour."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from larc.errors import LarcError, reason
from larc.github.client import checked_base

#: How long before its end a token is not used any more, in seconds.
_EARLY_S = 300.0


class AppTokens:
    """Tokens of one installation of an App, each used until shortly before it ends.

    Parameters
    ----------
    api
        The root of the REST API.
    app_id, installation_id
        The App's numbers.
    key_file
        The file of its private key, as GitHub gives it (PEM).
    clock
        What time it is in epoch seconds.
    """

    def __init__(
        self,
        api: str,
        app_id: str,
        installation_id: str,
        key_file: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.api = checked_base(api, app_id)
        self.app_id, self.installation_id, self.clock = app_id, installation_id, clock
        if not installation_id.isdecimal() or not app_id.isdecimal():
            raise LarcError("an App and its installation have numbers; look them up at GitHub.")
        try:
            self._key = Path(key_file).read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise LarcError(f"the App's key {key_file} cannot be read ({reason(error)}).") from None
        self._token, self._until = "", 0.0
        self._lock = threading.Lock()
        self._assertion()  # a key that cannot sign is refused at once

    def token(self) -> str:
        """Return a token that is good for some minutes at least."""
        import httpx

        with self._lock:
            if self._token and self.clock() < self._until - _EARLY_S:
                return self._token
            path = f"{self.api}/app/installations/{self.installation_id}/access_tokens"
            headers = {
                "Authorization": f"Bearer {self._assertion()}",
                "Accept": "application/vnd.github+json",
                "User-Agent": "larc",
            }
            try:
                answer = httpx.post(path, headers=headers, timeout=30.0)
            except httpx.HTTPError as error:
                raise LarcError(f"GitHub gave the App no token ({type(error).__name__}).") from None
            if answer.status_code != 201:
                raise LarcError(f"GitHub gave the App no token (HTTP {answer.status_code}).")
            try:
                document: Any = answer.json()
                token = str(document["token"])
                until = datetime.fromisoformat(document["expires_at"]).timestamp()
            except (ValueError, KeyError, TypeError):
                raise LarcError("GitHub's answer to the App holds no token.") from None
            self._token, self._until = token, until
            return self._token

    def _assertion(self) -> str:
        """Return who the App is, signed: good for nine minutes, from a minute ago."""
        try:
            import jwt
        except ImportError:
            raise LarcError("a GitHub App needs PyJWT; pip install 'larc-lm[serve]'.") from None
        now = int(self.clock())
        claims = {"iat": now - 60, "exp": now + 540, "iss": self.app_id}
        try:
            return str(jwt.encode(claims, self._key, algorithm="RS256"))
        except (ValueError, TypeError, jwt.PyJWTError):
            raise LarcError("the App's key is no private RSA key in PEM.") from None
