"""What bfloat16 takes beside float32, with the candidates sharing a row and with a row each."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.speed.setting import Keeping, Setting
from benchmarks.speed.table import Row, Section, timed_row
from larc.feedback import expected_risk
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import Layout, energies, policy
from larc.substrate import load_substrate
from larc.substrate.frozen import Substrate
from larc.tasks import Task

SECTION = Section(
    "precision",
    "8. Precision",
    "Reads and updates of two episodes with the residual at the input, in bfloat16 and in float32 "
    "on the same machine. It is faster only where the processor has instructions for it.",
)
_LAYOUTS: dict[Layout, str] = {"packed": "one row shared", "plain": "one row per candidate"}


def instructions() -> str:
    """Return the instruction sets of this processor that multiply bfloat16, as torch sees them."""
    known: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return ", ".join(name for name in ("avx512_bf16", "amx_bf16") if known.get(name)) or "none"


def rows(setting: Setting) -> list[Row]:
    """Measure both layouts in bfloat16 against float32 with its row shared."""
    wide = setting.substrate
    narrow = load_substrate(wide.name, dtype="bfloat16")
    factors = setting.slow.factors
    runs = {}
    for kind, run in (("read", _read), ("update", _update)):
        runs[kind, "float32"] = Keeping(partial(run, setting, wide, factors, "packed"))
        for layout in _LAYOUTS:
            runs[kind, layout] = Keeping(partial(run, setting, narrow, factors, layout))
    times = setting.alternate({" ".join(key): run for key, run in runs.items()})
    return [
        timed_row(
            f"{kind}, {told}",
            times,
            f"{kind} float32",
            f"{kind} {layout}",
            "float32's time over its",
            _distance(kind, runs[kind, layout].result, runs[kind, "float32"].result),
            instructions=instructions(),
        )
        for kind in ("read", "update")
        for layout, told in _LAYOUTS.items()
    ]


def _scores(
    setting: Setting, substrate: Substrate, task: Task, factors: Factors, layout: Layout
) -> Tensor:
    question = ask(substrate, task.prompt, task.candidates, setting.limits)
    return energies(substrate, [question], factors, layout=layout)[0]


def _read(setting: Setting, substrate: Substrate, factors: Factors, layout: Layout) -> Tensor:
    with torch.no_grad():
        return torch.cat(
            [policy(_scores(setting, substrate, t, factors, layout)) for t in setting.pair]
        )


def _update(setting: Setting, substrate: Substrate, factors: Factors, layout: Layout) -> Tensor:
    slopes = []
    for task in setting.pair:
        leaf = factors.leaf()
        risk = expected_risk(
            _scores(setting, substrate, task, leaf, layout), task.losses("support")
        )
        slopes += [slope.flatten() for slope in torch.autograd.grad(risk, (leaf.A, leaf.B))]
    return torch.cat(slopes)


def _distance(kind: str, narrow: Tensor, wide: Tensor) -> str:
    if kind == "read":
        told = f"probabilities differ by {float((narrow - wide).abs().max()):.3f}"
    else:
        cosine = torch.cosine_similarity(narrow, wide, 0)
        told = f"gradients with a cosine of {float(cosine):.3f}"
    return f"{told}; instructions for it: {instructions()}"
