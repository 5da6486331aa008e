"""Refusals of the service: a status, a code that programs read, a sentence that people read."""

from __future__ import annotations

from typing import Any

from larc.errors import LarcError

#: What may go wrong, by code: its status and title.
CODES: dict[str, tuple[int, str]] = {
    "bad-json": (400, "The body is no JSON"),
    "unauthorized": (401, "A token is needed"),
    "unsigned": (401, "The signature is wrong"),
    "forbidden": (403, "The token may not do this"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "This cannot be done here"),
    "too-slow": (408, "The body took too long"),
    "other-template": (409, "The stream has another template"),
    "other-body": (409, "The id was used with another body"),
    "other-label": (409, "The question has another label"),
    "too-late": (409, "The stream has questions already"),
    "not-labelled": (409, "There is no label to correct"),
    "expired": (410, "The question has expired"),
    "dropped": (410, "The question was dropped"),
    "too-large": (413, "The body is too large"),
    "long-headers": (431, "The headers are too long"),
    "invalid": (422, "The request was refused"),
    "refused": (422, "The model refused this"),
    "too-many": (429, "Too many requests"),
    "busy": (503, "The service is busy"),
    "database": (503, "The database is not available"),
    "damaged": (503, "The stream cannot go on"),
    "stopping": (503, "The service is stopping"),
    "late": (503, "The answer takes longer than the request waits"),
    "stream-full": (507, "The stream holds as much as it may"),
}


class Problem(LarcError):
    """A refusal with a code; it becomes an ``application/problem+json`` answer.

    Examples
    --------
    >>> Problem("expired", "its label came too late.").status
    410
    """

    def __init__(self, code: str, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.code, self.detail, self.retry_after = code, detail, retry_after

    @property
    def status(self) -> int:
        """The status of the answer."""
        return CODES[self.code][0]

    def body(self) -> dict[str, Any]:
        """Return the answer's body (RFC 9457)."""
        status, title = CODES[self.code]
        return {
            "type": f"urn:larc:{self.code}",
            "title": title,
            "status": status,
            "code": self.code,
            "detail": self.detail,
        }
