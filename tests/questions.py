"""Questions and states that several test modules use."""

import dataclasses

import numpy as np
import torch

import larc
from larc import Factors

PROMPTS = (
    "Family: arithmetic. Which program made the outputs?\n",
    "Pick one:\n",
    "A rather longer prompt, so that rows of one batch differ in length and are padded. Pick:\n",
)
CANDIDATES = ("mul 2|add 3", "add 3|mul 2", "clip|mul 2|add 3", "mul 2|clip|add 3")
LOSSES = (0.0, 1.0, 0.5, 0.5)


def random_factors(substrate, seed, rank=4, scale=0.1):
    stream = np.random.default_rng(seed)

    def draw(*shape):
        return scale * torch.from_numpy(stream.standard_normal(shape, dtype=np.float32))

    return Factors(draw(rank, substrate.width), draw(substrate.width, rank))


def start(substrate, *, boundary=0, seed=3):
    slow = larc.SlowState.initial(substrate, seed=seed, boundary=boundary)
    # A trained state has both factors: start from one, so that both get gradients.
    return dataclasses.replace(slow, factors=random_factors(substrate, seed))


def learner_on(substrate, *, boundary=0, rank=4, rule=None, seed=2026092811):
    slow = larc.SlowState.initial(substrate, rank=rank, seed=seed, boundary=boundary)
    return larc.Learner(substrate, slow, rule=rule)


def feedback(number=0):
    return larc.CandidateLosses(PROMPTS[number], CANDIDATES, LOSSES)


def small_tasks(count=6):
    return [
        larc.Task(
            f"question {number}: ",
            CANDIDATES[:3],
            support=[(number + c) % 3 / 2 for c in range(3)],
            query=[(number + 2 * c) % 3 / 2 for c in range(3)],
            group=str(number),
        )
        for number in range(count)
    ]
