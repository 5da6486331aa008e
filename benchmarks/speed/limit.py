"""How near reads and updates come to the machine's own matrix multiplication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from benchmarks.speed.setting import Setting
from benchmarks.speed.table import Measured, Row, Section
from benchmarks.speed.timing import Spread, alternate
from larc.feedback import CandidateLosses
from larc.learner import Learner
from larc.log_probabilities import log_probabilities
from larc.substrate.views import layer_list

ROUNDS = 4  # for each repetition of other sections
SECTION = Section(
    "limit",
    "5. The machine's limit",
    "Floating-point operations that the needed positions require (no padding, attention between "
    "what may see each other, the head where an answer is predicted) over the time taken, against "
    "the matrix multiplications of the same shapes alone, in the same run. Before a later layer "
    "what is below it is known. The head by itself is its multiplication, the log-probabilities, "
    "and for an update the gradient that enters the last layer.",
)


@dataclass(frozen=True)
class Work:
    """The matrix multiplications of one forward: weights, and how many rows go through each."""

    weights: tuple[tuple[torch.Tensor, int], ...]
    attention: int

    @property
    def multiplications(self) -> int:
        """Operations in the weights' multiplications."""
        return sum(2 * rows * weight.numel() for weight, rows in self.weights)

    @property
    def total(self) -> int:
        """Operations that are needed in all."""
        return self.multiplications + self.attention

    @cached_property
    def _given(self) -> dict[tuple[int, int], torch.Tensor]:
        """Something of every shape that is multiplied; made once, so that it costs no time."""
        shapes = {(rows, width) for weight, rows in self.weights for width in weight.shape}
        return {shape: torch.rand(shape) for shape in sorted(shapes)}

    def forward(self) -> None:
        """Multiply as the forward does, and nothing else."""
        for weight, rows in self.weights:
            nn.functional.linear(self._given[rows, weight.shape[1]], weight)

    def backward(self) -> None:
        """Multiply as the backward to the activations does, and nothing else."""
        for weight, rows in self.weights:
            torch.mm(self._given[rows, weight.shape[0]], weight)


def places_of(setting: Setting) -> int:
    """Return at how many places of the two episodes an answer is predicted."""
    return sum(
        len({column for answer in setting.ask(task).packed.answers for column in answer.columns})
        for task in setting.pair
    )


def head_of(setting: Setting) -> Work:
    """Return the head's part of one forward."""
    head = setting.substrate.model.get_output_embeddings().weight.detach()
    return Work(((head, places_of(setting)),), 0)


def work_of(setting: Setting, boundary: int = 0) -> Work:
    """Return what one forward of the two episodes needs from a boundary on."""
    model = setting.substrate.model
    rows = [setting.ask(task).packed.rows[0] for task in setting.pair]
    positions = sum(len(row.tokens) for row in rows)
    layers = layer_list(model)[1][boundary:]
    linear = [module for layer in layers for module in layer.modules() if type(module) is nn.Linear]
    weights = [(module.weight.detach(), positions) for module in linear]
    text = model.config.get_text_config()
    width = text.num_attention_heads * (
        getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    )
    seen = sum(int(row.visible.sum()) for row in rows)
    # Queries with keys, and what comes of it with values.
    return Work((*weights, *head_of(setting).weights), 2 * 2 * seen * width * len(layers))


def rows(setting: Setting) -> list[Row]:
    """Measure reads, updates and the head against their own multiplications."""
    late = setting.substrate.layers * 26 // 30
    return [
        *_against(setting, work_of(setting), _steps(setting, 0), "of two episodes"),
        *_against(setting, work_of(setting, late), _steps(setting, late), f"before layer {late}"),
        *_against(setting, head_of(setting), _head(setting), "of the head by itself"),
    ]


def _steps(setting: Setting, boundary: int) -> dict[str, Callable[[], object]]:
    """Return a read and an update of two episodes with the residual at a boundary."""
    slow = replace(setting.slow, boundary=boundary)
    learner = Learner(setting.substrate, slow, limits=setting.limits)
    pairs = list(zip([learner.begin(), learner.begin()], setting.pair, strict=True))
    reads = [(episode, task.prompt, task.candidates) for episode, task in pairs]
    feedback = [
        (episode, CandidateLosses(task.prompt, task.candidates, task.losses("support")))
        for episode, task in pairs
    ]
    return {
        "read": lambda: learner.read_many(reads),
        "update": lambda: learner.update_many(feedback),
    }


def _head(setting: Setting) -> dict[str, Callable[[], object]]:
    """Return the head at the places of two episodes, without and with its gradient."""
    head = setting.substrate.model.get_output_embeddings()
    places = places_of(setting)
    hidden = torch.rand(places, head.weight.shape[1])
    tokens = torch.arange(places)[:, None]

    def update() -> Tensor:
        entering = hidden.clone().requires_grad_()
        (slope,) = torch.autograd.grad(log_probabilities(head(entering), tokens).sum(), entering)
        return slope

    @torch.no_grad()
    def read() -> Tensor:
        return log_probabilities(head(hidden), tokens)

    return {"read": read, "update": update}


def _against(
    setting: Setting, work: Work, steps: dict[str, Callable[[], object]], where: str
) -> list[Row]:
    runs = {**steps, "forward": work.forward, "backward": work.backward}
    # Short, and compared with the best the machine can do: many rounds cost little.
    times = alternate(runs, ROUNDS * setting.repetitions, setting.clock)
    table_rows: list[Row] = []
    for kind, case, parts in (
        ("read", f"a read {where}", ["forward"]),
        ("update", f"an update {where}", ["forward", "backward"]),
    ):
        needed, multiplied = (len(parts) * count for count in (work.total, work.multiplications))
        rounds = zip(*(times[part].seconds for part in parts), strict=True)
        rates = [multiplied / sum(seconds) for seconds in rounds]
        # Within a round, as everywhere: a busy neighbour slows both. And the best of each, which
        # is what the machine can do when it is left alone.
        reached = [needed / seconds for seconds in times[kind].seconds]
        paired = [speed / rate for speed, rate in zip(reached, rates, strict=True)]
        best = multiplied / sum(min(times[part].seconds) for part in parts)
        share = head_of(setting).multiplications / work.total
        note = f"best round over best multiplications: {max(reached) / best:.2f}"
        if share < 1:
            note += f"; the head is {share:.0%} of the operations"
        numbers = {
            "seconds": times[kind].seconds,
            "needed_operations": needed,
            "multiplications_per_second": rates,
        }
        table_rows.append(Measured(case, Spread.of(paired), _OF, note, numbers))
    return table_rows


_OF = "needed operations a second over the machine's"
