"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(seconds: int) -> str:
    """Return UTC epoch seconds as GitHub writes them.

    Examples
    --------
    >>> iso_time(1767312000)
    '2026-01-02T00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
