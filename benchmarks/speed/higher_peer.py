"""`higher` around the same residual: fast parameters of a module, one episode after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.speed.peers import need
from benchmarks.speed.setting import INNER_STEPS, STEP_SIZE, Setting
from larc.feedback import expected_risk
from larc.residual import Factors
from larc.scoring import energies
from larc.tasks import Task


def higher_gradient(setting: Setting, *, exact: bool = False) -> Callable[[], Factors]:
    """Return the outer gradient of the setting's episodes, computed with `higher`.

    It scores with our packed rows, so that what is compared is the way of taking the steps. With
    ``exact`` the gradient goes through the inner steps; else it stops at the adapted factors.
    """
    higher = need("higher")
    questions = [setting.ask(task) for task in setting.pair]
    start = setting.slow.factors

    class Residual(nn.Module):
        def __init__(self, number: int, task: Task) -> None:
            super().__init__()
            self.A, self.B = nn.Parameter(start.A.clone()), nn.Parameter(start.B.clone())
            self.number, self.task = number, task

        def forward(self, losses: Sequence[float]) -> Tensor:
            scores = energies(setting.substrate, [questions[self.number]], Factors(self.A, self.B))
            return expected_risk(scores[0], losses)

    def one(number: int, task: Task) -> Factors:
        module = Residual(number, task)
        inner = torch.optim.SGD(module.parameters(), lr=STEP_SIZE)
        with higher.innerloop_ctx(
            module, inner, copy_initial_weights=False, track_higher_grads=exact
        ) as (fast, steps):
            for _ in range(INNER_STEPS):
                steps.step(fast(task.support))
            wanted = list(module.parameters()) if exact else list(fast.parameters())
            slopes = torch.autograd.grad(fast(task.query or ()), wanted)
        return Factors(*(slope.detach() for slope in slopes))

    def gradient() -> Factors:
        # The fused attention kernels have no second derivative.
        with sdpa_kernel(SDPBackend.MATH) if exact else nullcontext(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old package on a new torch
            gradients = [one(number, task) for number, task in enumerate(setting.pair)]
        return Factors.stack(gradients).map(lambda tensor: tensor.mean(0))

    return gradient
