"""The settings of the studies: kept apart from what they set, so that asking for help is quick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from larc.errors import LarcError
from larc.settings import setting
from larc.tasks import Task

if TYPE_CHECKING:
    from larc.scoring import Limits

UNTRAINED = "untrained"


@dataclass(frozen=True)
class ModelSettings:
    """What every study that runs a model decides: the frozen model, the residual, how it learns."""

    substrate: str = setting("smollm2-135m", "The frozen model: a preset, directory, file or id.")
    adapter: str = setting("", "A PEFT LoRA directory that becomes part of the frozen model.")
    device: str = setting("cpu", "Where the model runs.")
    dtype: str = setting("float32", "Its precision: float32 or bfloat16.")
    threads: int = setting(2, "Threads a unit of work computes with; part of the numbers.", least=1)
    boundary: int = setting(0, "Where the residual is: 0 the input, k before layer k.", least=0)
    acts_on: str = setting(
        "", "A square weight of that layer to act on instead: self_attn.o_proj.", later=True
    )
    rank: int = setting(4, "The rank of the residual.", least=1)
    rule: str = setting("sgd:0.1", "The update rule of a fast state.")
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
        from larc.scoring import Limits

        return Limits(self.prompt_limit, self.candidate_limit)


@dataclass(frozen=True)
class EpisodicSettings(ModelSettings):
    """What decides the results of an episodic study."""

    inner_steps: int = setting(2, "Updates an episode makes on its support.", least=0)
    step_rate: float = setting(
        0.0, "Learn SGD's step size with the adapted start, at this rate.", later=True
    )
    objectives: tuple[str, ...] = setting(("static", "adapted"), "Slow objectives, an arm each.")
    untrained: bool = setting(True, "Whether the untrained start is a further arm.")
    updates: int = setting(256, "Outer updates of each training.", least=0)
    start: str = setting(
        "",
        "A finished run whose states training starts from; --updates 0 takes them as they are.",
        later=True,
    )
    batch: int = setting(2, "Episodes in an outer update.", least=1)
    resamples: int = setting(10_000, "Bootstrap resamples of groups.", least=1)

    @property
    def arms(self) -> tuple[str, ...]:
        """Every kind of slow state that is evaluated."""
        return (*self.objectives, *((UNTRAINED,) if self.untrained else ()))


@dataclass(frozen=True)
class TaskSet:
    """What a study is about: tasks to train on, closed tasks to predict, and how to open them."""

    training: Sequence[Task]
    development: Sequence[Task]
    names: Sequence[str]
    texts: Sequence[str] = ()
    open_queries: Callable[[], Sequence[Sequence[float]]] = field(default=lambda: ())

    def __post_init__(self) -> None:
        if any(task.query is not None for task in self.development):
            raise LarcError("a development task came with its query; predictions need it closed.")


@dataclass(frozen=True)
class Execution:
    """Where a study is carried out. None of it changes a result."""

    workers: int = setting(1, "Units of work done side by side, each in a process.", least=1)
    engine: Literal["local", "ray"] = setting("local", "local, or ray for a Ray cluster.")
    address: str = setting("", "The Ray cluster's address; a local one by default.")


@dataclass(frozen=True)
class AdapterSettings:
    """How a semantic adapter is trained."""

    substrate: str = setting("smollm2-135m", "The frozen model the adapter is for.")
    out: str = setting("adapter", "The directory to write.")
    updates: int = setting(300, "Optimiser updates.", least=1)
    batch: int = setting(16, "Examples in each update.", least=1)
    learning_rate: float = setting(1e-3, "AdamW's learning rate.")
    seed: int = setting(2026092800, "Draws the examples and the first weights.", least=0)


@dataclass(frozen=True)
class ReplaySettings(ModelSettings):
    """What every study of late labels decides besides: training on labels, and a session's size."""

    batch: int = setting(
        8, "Labelled prompts in an outer update of the task-matched training.", least=1
    )
    pending_limit: int = setting(
        2 * 2**20, "Bytes of awaited feedback a session may hold.", free=True
    )
    total_limit: int = setting(4 * 2**20, "Bytes of live state a session may hold.", free=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1:
            raise LarcError(f"--batch {self.batch} holds no prompt; give 1 or more.")


@dataclass(frozen=True)
class CISettings(ReplaySettings):
    """What decides the results of the continuous-integration study."""

    jobs: tuple[str, ...] = setting((), "Job histories: JSONL, Parquet or API answers.")
    queue: str = setting("standard", "Windows by repository: standard, or a YAML file.")
    train: str = setting("", "One training window for all: A..B, a number of jobs, or both.")
    audit: str = setting("", "One audit window for all: A..B, a number of jobs, or both.")
    synthetic: int = setting(0, "Make up this many jobs instead of reading any.", least=0)
    start: str = setting("", "A finished programs run whose static states training starts from.")
    further: bool = setting(
        False, "Whether latest-only, shrunk and descending states are replayed as well."
    )
