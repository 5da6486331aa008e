"""How near the model comes to the machine's matrix rate: what batches can gain, and what not.

In processor time, on one thread: other work on the machine takes little part in it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.serving.measures import CANDIDATES, SEED, Figure, Traffic
from benchmarks.speed.timing import Spread
from larc.questions import ask
from larc.substrate import load_substrate
from larc.substrate.frozen import Substrate, rows_together

#: How many new prompts are put through the model, one at a time and together.
PROMPTS = 32


def rates(name: str, boundary: int, repetitions: int, say: Callable[[str], None]) -> list[Figure]:
    """Compare the layers below the boundary with a product of matrices of the model's own sizes."""
    substrate = load_substrate(name)
    substrate.check_boundary(boundary)
    traffic = Traffic(SEED)
    weights = sum(
        parameter.numel()
        for part, parameter in substrate.model.named_parameters()
        if ".layers." in part and int(part.split(".layers.")[1].split(".")[0]) < boundary
    )
    alone, shared, gains = [], [], []
    for repetition in range(repetitions + 1):
        peak = _matrix_rate(substrate)
        one, positions = _below(substrate, boundary, traffic, together=False)
        many, others = _below(substrate, boundary, traffic, together=True)
        if repetition == 0:  # unmeasured: everything has been used once
            continue
        alone.append(2 * weights * positions / one / peak)
        shared.append(2 * weights * others / many / peak)
        gains.append(one / positions / (many / others))
        say(
            f"repetition {repetition}: matrices {peak / 1e9:.0f} GFLOP/s, a prompt a forward "
            f"{alone[-1] * peak / 1e9:.0f}, {PROMPTS} a forward {shared[-1] * peak / 1e9:.0f}"
        )
    return [
        Figure("a new prompt a forward: share of the machine's matrix rate", Spread.of(alone)),
        Figure(f"{PROMPTS} new prompts a forward: the same", Spread.of(shared)),
        Figure(f"{PROMPTS} new prompts together over one after the other", Spread.of(gains)),
    ]


def _matrix_rate(substrate: Substrate) -> float:
    """Return the floating-point operations a second of products of the model's sizes."""
    rows, width = 512, substrate.width
    left, right = torch.randn(rows, width), torch.randn(width, 4 * width)
    times = []
    for _ in range(9):
        began = time.process_time()
        for _ in range(8):
            left @ right
        times.append(time.process_time() - began)
    return 8 * 2 * rows * width * 4 * width / statistics.median(times)


def _below(
    substrate: Substrate, boundary: int, traffic: Traffic, *, together: bool
) -> tuple[float, int]:
    """Return the seconds and positions of new prompts through the layers below the boundary."""
    rows = [ask(substrate, traffic.ticket(), CANDIDATES).packed.rows[0] for _ in range(PROMPTS)]
    before = substrate.ledger.total("below").effective
    began = time.process_time()
    if together:
        with rows_together():
            substrate.activations(rows, boundary)
    else:
        for row in rows:
            substrate.activations([row], boundary)
    seconds = time.process_time() - began
    return seconds, substrate.ledger.total("below").effective - before
