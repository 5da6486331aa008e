"""Identifiers whose order is the order in which they were made (UUID, version 7)."""

from __future__ import annotations

import secrets
import time
import uuid


def new_id() -> str:
    """Return a UUID of version 7: milliseconds first, then random bits.

    Examples
    --------
    >>> uuid.UUID(new_id()).version
    7
    """
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 7 << 76
    number = number & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=number))
