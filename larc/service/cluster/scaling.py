"""How many workers there should be. Ray's controller reads this: nothing heavy is imported here."""

from __future__ import annotations

import math
from typing import Any


def scaled(context: Any) -> tuple[int, dict[str, Any]]:
    """Return how many workers there should be: enough for the events that wait.

    Ray's policy of the workers: it keeps to the bounds and delays of the deployment.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(target_ongoing_requests=64)
    >>> def decide(*waiting):
    ...     metrics = {"waiting": dict(enumerate(waiting))}
    ...     return scaled(SimpleNamespace(aggregated_metrics=metrics, config=config))[0]
    >>> decide(0, 0), decide(64, 64), decide(300, 0)
    (1, 2, 5)
    """
    waiting = sum((context.aggregated_metrics or {}).get("waiting", {}).values())
    return max(1, math.ceil(waiting / context.config.target_ongoing_requests)), {}
