"""A connection to a Ray cluster, or one on this machine that ends with this process."""

from __future__ import annotations

import logging
import os
from typing import Any

from larc.errors import LarcError, reason

NAMESPACE = "larc"


def connect(address: str) -> Any:
    """Connect this process to a cluster; returns Ray.

    Parameters
    ----------
    address
        As ``ray.init`` takes it; empty for a cluster of this process's own.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise LarcError(
            "--engine ray needs Ray Serve; install it with `pip install 'larc-lm[ray]'`."
        ) from error
    # Without "local" Ray takes the last cluster of this machine, or RAY_ADDRESS: somebody else's.
    own = {"address": "local", "include_dashboard": False}
    where: dict[str, Any] = {"address": address} if address else own
    try:
        ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, **where)
    except Exception as error:  # Ray raises many kinds for a cluster that is not there
        there = f"there is no Ray cluster at {address}" if address else "Ray does not start"
        raise LarcError(f"{there} ({reason(error)}).") from error
    return ray
