"""The outer update of two episodes against other layouts, PEFT and `higher`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.speed.higher_peer import higher_gradient
from benchmarks.speed.peers import PeerMissing, Rows, risks, rows_of
from benchmarks.speed.peft_peer import peft_gradient
from benchmarks.speed.setting import INNER_STEPS, STEP_SIZE, Keeping, Setting, check_same
from benchmarks.speed.table import Missing, Row, Section, timed_row
from larc.questions import EncodedQuestion
from larc.residual import Factors, apply_residual
from larc.scoring import energies
from larc.substrate import views
from larc.tasks import Task
from larc.training.tasks import OuterObjective, Trainer, TrainingSettings

SECTION = Section(
    "outer",
    "1. Episodic outer update",
    "Two episodes of four candidates, two inner steps and a query, residual at the input; every "
    "gradient equal to ours within 1e-4 of its largest entry.",
)
PAPER_LENGTH, TOLERANCE = 512, 1e-4
NAMES = {
    "plain": "one row per candidate",
    "peft": "PEFT LoRA on the embedding, one adapter per episode in turn",
    "higher": "higher around the same residual, one episode after the other",
    "paper": "the paper's layout, 8 x 512",
    "exact": "higher, gradient through the inner steps, against ours through them",
}

Gradient = Callable[[], Factors]
Scorer = Callable[[Factors], list[Tensor]]


def ours(setting: Setting, objective: OuterObjective = "adapted") -> Gradient:
    """Return our own outer gradient."""
    settings = TrainingSettings(objective, batch=2, inner_steps=INNER_STEPS)
    trainer = Trainer(setting.substrate, setting.slow, setting.pair, settings, setting.limits)
    return lambda: trainer.batch_gradient()[1]


def adapted(score: Scorer, start: Factors, tasks: Sequence[Task]) -> Factors:
    """Return the outer gradient with any scorer: the loop anybody would write."""
    fast = Factors.stack([start] * len(tasks))
    for losses in [[task.losses("support") for task in tasks]] * INNER_STEPS:
        slopes = _slopes(score, fast, losses)
        fast = fast.combine(slopes, lambda value, slope: value - STEP_SIZE * slope)
    return _slopes(score, fast, [task.losses("query") for task in tasks]).map(lambda t: t.mean(0))


def _slopes(score: Scorer, factors: Factors, losses: Sequence[Sequence[float]]) -> Factors:
    leaf = factors.leaf()
    return Factors(*torch.autograd.grad(risks(score(leaf), losses), (leaf.A, leaf.B)))


def plain_scorer(setting: Setting, questions: Sequence[EncodedQuestion]) -> Scorer:
    """Return our scorer with one row per candidate."""
    return lambda factors: energies(setting.substrate, questions, factors, layout="plain")


def paper_scorer(setting: Setting, questions: Sequence[EncodedQuestion]) -> Scorer:
    """Return a scorer with every row padded to 512; the head only where answers are predicted."""
    model = setting.substrate.model
    rows: Rows = rows_of(questions, PAPER_LENGTH)
    owners = torch.tensor(rows.owners)
    embedded: Tensor = model.get_input_embeddings()(rows.tokens)
    run = views.above(model, 0)
    columns = rows.places % rows.tail + PAPER_LENGTH - rows.tail
    places = rows.places // rows.tail * PAPER_LENGTH + columns

    def score(factors: Factors) -> list[Tensor]:
        hidden = apply_residual(embedded, factors.at(owners))
        logits = run(hidden, places, **rows.attention)
        return rows.energies_at(logits)

    return score


def alternatives(setting: Setting) -> dict[str, Gradient | PeerMissing]:
    """Return every other way to the same gradient, or why it is not there."""
    questions = [setting.ask(task) for task in setting.pair]
    start, tasks = setting.slow.factors, setting.pair
    scorers = {
        "paper": paper_scorer(setting, questions),
        "plain": plain_scorer(setting, questions),
    }
    others: dict[str, Gradient | PeerMissing] = {
        name: partial(adapted, score, start, tasks) for name, score in scorers.items()
    }
    for name, make in (("peft", peft_gradient), ("higher", higher_gradient)):
        try:
            others[name] = make(setting)
        except PeerMissing as missing:
            others[name] = missing
    return others


def rows(setting: Setting) -> list[Row]:
    """Measure the outer update against everything else."""
    our_gradient, ways = ours(setting), alternatives(setting)
    paper = {"paper": ways.pop("paper")}
    try:
        exact: Gradient | PeerMissing = higher_gradient(setting, exact=True)
    except PeerMissing as missing:
        exact = missing
    return [
        *_compared(setting, our_gradient, ways),
        *_compared(setting, our_gradient, paper, long=True),
        *_compared(setting, ours(setting, "exact"), {"exact": exact}, long=True),
    ]


def _compared(
    setting: Setting,
    our_gradient: Gradient,
    ways: Mapping[str, Gradient | PeerMissing],
    *,
    long: bool = False,
) -> list[Row]:
    runs = {"ours": Keeping(our_gradient)}
    runs |= {name: Keeping(way) for name, way in ways.items() if not isinstance(way, PeerMissing)}
    times = setting.alternate(runs, long=long)
    reference = runs["ours"].result
    table_rows: list[Row] = []
    for name, way in ways.items():
        if isinstance(way, PeerMissing):
            table_rows.append(Missing(NAMES[name], str(way)))
            continue
        gradient = runs[name].result
        difference = max(
            check_same(NAMES[name], gradient.A, reference.A, TOLERANCE),
            check_same(NAMES[name], gradient.B, reference.B, TOLERANCE),
        )
        note = f"gradients differ by {difference:.0e}"
        table_rows.append(timed_row(NAMES[name], times, name, "ours", "its time over ours", note))
    return table_rows
