"""The gradient through the inner steps: what it costs over one that stops at the adapted state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.speed.higher_peer import higher_gradient
from benchmarks.speed.outer import TOLERANCE, Gradient, ours
from benchmarks.speed.peers import PeerMissing
from benchmarks.speed.setting import INNER_STEPS, STEP_SIZE, Keeping, Setting, check_same
from benchmarks.speed.table import Measured, Missing, Row, Section, timed_row
from benchmarks.speed.timing import Spread, peak_bytes
from larc.feedback import expected_risk
from larc.questions import EncodedQuestion
from larc.residual import Factors
from larc.scoring import energies
from larc.tasks import Task

SECTION = Section(
    "exact",
    "9. The exact gradient",
    "The outer update of section 1 with the gradient through its two inner steps: against ours "
    "that stops at the adapted state, and against other ways to the same gradient. Peak memory is "
    "what tensors occupied at most.",
)
NAMES = {
    "first": "first-order",
    "func": "torch.func, one episode after the other",
    "higher": "higher, one episode after the other",
}


def func_gradient(setting: Setting) -> Gradient:
    """Return the outer gradient of the setting's episodes, as `torch.func` writes it down."""
    questions = [setting.ask(task) for task in setting.pair]

    def one(question: EncodedQuestion, task: Task) -> Factors:
        def risk(A: Tensor, B: Tensor, losses: Sequence[float]) -> Tensor:
            return expected_risk(energies(setting.substrate, [question], Factors(A, B))[0], losses)

        def outer(A: Tensor, B: Tensor) -> Tensor:
            for _ in range(INNER_STEPS):
                slopes = torch.func.grad(risk, (0, 1))(A, B, task.losses("support"))
                A, B = A - STEP_SIZE * slopes[0], B - STEP_SIZE * slopes[1]
            return risk(A, B, task.losses("query"))

        start = setting.slow.factors
        return Factors(*torch.func.grad(outer, (0, 1))(start.A, start.B))

    def gradient() -> Factors:
        with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no second derivative
            gradients = [one(*each) for each in zip(questions, setting.pair, strict=True)]
        return Factors.stack(gradients).map(lambda tensor: tensor.mean(0))

    return gradient


def ways(setting: Setting) -> dict[str, Gradient | PeerMissing]:
    """Return other ways to the exact gradient, or why one is not there."""
    others: dict[str, Gradient | PeerMissing] = {"func": func_gradient(setting)}
    try:
        others["higher"] = higher_gradient(setting, exact=True)
    except PeerMissing as missing:
        others["higher"] = missing
    return others


def rows(setting: Setting) -> list[Row]:
    """Measure time and memory of each."""
    others = ways(setting)
    runs: dict[str, Callable[[], Factors]] = {"ours": ours(setting, "exact")}
    runs["first"] = ours(setting, "adapted")
    runs |= {name: way for name, way in others.items() if not isinstance(way, PeerMissing)}
    keeping = {name: Keeping(run) for name, run in runs.items()}
    times = setting.alternate(keeping, long=True)
    reference = keeping["ours"].result
    peaks = {name: peak_bytes(run) for name, run in runs.items()}
    table_rows: list[Row] = []
    for name, case in NAMES.items():
        way = others.get(name)
        if isinstance(way, PeerMissing):
            table_rows.append(Missing(case, str(way)))
            continue
        note = "another gradient"
        if name != "first":
            gradient = keeping[name].result
            difference = max(
                check_same(case, gradient.A, reference.A, TOLERANCE),
                check_same(case, gradient.B, reference.B, TOLERANCE),
            )
            note = f"gradients differ by {difference:.0e}"
        share = peaks[name] / peaks["ours"]
        table_rows.append(timed_row(case, times, name, "ours", "its time over the exact", note))
        table_rows.append(
            Measured(
                case,
                Spread(share, share, share),
                "its peak memory over the exact",
                f"{peaks['ours'] / 2**20:.0f} MB for the exact",
                {"bytes": {"theirs": peaks[name], "ours": peaks["ours"]}},
            )
        )
    return table_rows
