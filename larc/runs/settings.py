"""What runs decide: the frozen model that units compute with, and where they are carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from larc.errors import LarcError
from larc.settings import setting

if TYPE_CHECKING:  # asking for help loads no model
    from larc.questions import Limits


@dataclass(frozen=True)
class ModelSettings:
    """What every study that runs a model decides: the frozen model, the residual, how it learns."""

    substrate: str = setting("smollm2-135m", "The frozen model: a preset, directory, file or id.")
    adapter: str = setting("", "A PEFT LoRA directory that becomes part of the frozen model.")
    device: str = setting("cpu", "Where the model runs.")
    dtype: str = setting("float32", "Its precision: float32 or bfloat16.")
    threads: int = setting(
        2, "Threads a unit of work computes with; part of the numbers.", least=1, most=256
    )
    boundary: int = setting(0, "Where the residual is: 0 the input, k before layer k.", least=0)
    acts_on: str = setting(
        "", "A square weight of that layer to act on instead: self_attn.o_proj.", later=True
    )
    texts: Literal["plain", "control"] = setting(
        "plain", "control: read control tokens in texts, as 0.1 did.", earlier="control"
    )
    chat: bool = setting(
        False, "Put prompts into the model's chat template, as a user's messages.", later=True
    )
    rank: int = setting(4, "The rank of the residual.", least=1)
    rule: str = setting(
        "sgd:0.1", "The update rule of a fast state: sgd:STEP, descent:LENGTH, or module:Class."
    )
    seeds: tuple[int, ...] = setting(
        (2026092811, 2026092812, 2026092813), "Training seeds.", least=0
    )
    learning_rate: float = setting(1e-3, "Of the outer AdamW.")
    prompt_limit: int = setting(384, "The most tokens of a prompt.", least=1)
    candidate_limit: int = setting(32, "The most tokens of a candidate with its end.", least=1)

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise LarcError(f"seeds {list(self.seeds)} were given; give one or more, each once.")

    @property
    def limits(self) -> Limits:
        """The token limits."""
        from larc.questions import Limits

        return Limits(self.prompt_limit, self.candidate_limit)


@dataclass(frozen=True)
class Execution:
    """Where a study is carried out. None of it changes a result."""

    workers: int = setting(1, "Units of work done side by side, each in a process.", least=1)
    engine: Literal["local", "ray"] = setting("local", "local, or ray for a Ray cluster.")
    address: str = setting("", "The Ray cluster's address; a local one by default.")

    def __post_init__(self) -> None:
        if self.address and self.engine != "ray":
            raise LarcError("--address is a Ray cluster's; give --engine ray with it.")
        if self.workers > 1 and self.engine == "ray":
            raise LarcError("a Ray cluster has workers of its own; leave --workers out.")
