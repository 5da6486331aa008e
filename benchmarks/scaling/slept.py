"""``larc serve`` with a model that sleeps: ``python -m benchmarks.scaling.slept COSTS serve ...``.

Everything else is as it is: requests, database, leases, and states, which an update moves at random
and which are as large as those of the ``--substrate`` that is given.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

from benchmarks.scaling.costs import Costs
from larc.cli import main
from larc.learner import Learner
from larc.residual import Factors
from larc.updates import Update


def sleep_instead(costs: Costs) -> None:
    """Let every learner of this process sleep instead of computing."""

    def read_many(self: Learner, requests: Any, **_: Any) -> list[Any]:
        prompts = {text for _, text, _ in requests}
        if requests:
            time.sleep(costs.read + costs.read_each * len(prompts))
        return [torch.full((len(one[2]),), 1 / len(one[2])) for one in requests]

    def update_many(self: Learner, updates: Any, **_: Any) -> list[Any]:
        if updates:
            time.sleep(costs.update + costs.update_each * len(updates))
        for episode, _given in updates:
            moved = [part + 0.01 * torch.randn_like(part) for part in _parts(episode.factors)]
            episode.factors = Factors(*moved)
            episode.step += 1
        return [Update(0.0, 0.0) for _ in updates]

    Learner.read_many = read_many  # type: ignore[method-assign]  # its time is all that is wanted
    Learner.update_many = update_many  # type: ignore[method-assign]  # likewise


def _parts(factors: Factors) -> tuple[Any, Any]:
    return factors.A, factors.B


if __name__ == "__main__":
    sleep_instead(Costs.parse(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
