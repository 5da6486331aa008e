"""What the continuous-integration study decides."""

from __future__ import annotations

from dataclasses import dataclass

from larc.errors import LarcError
from larc.settings import setting
from larc.studies.settings import ReplaySettings

#: The settings that a run has beyond those of one with the paper's strategies alone.
THROUGH_SETTINGS = (
    "through",
    "through_rule",
    "through_rate",
    "through_share",
    "window",
    "windows",
    "step_rate",
    "taken_from",
)


@dataclass(frozen=True)
class CISettings(ReplaySettings):
    """What decides the results of the continuous-integration study."""

    jobs: tuple[str, ...] = setting((), "Job histories: JSONL, Parquet or API answers.")
    queue: str = setting("standard", "Windows by repository: standard, larger, or a YAML file.")
    train: str = setting("", "One training window for all: A..B, a number of jobs, or both.")
    audit: str = setting("", "One audit window for all: A..B, a number of jobs, or both.")
    synthetic: int = setting(0, "Make up this many jobs instead of reading any.", least=0)
    start: str = setting("", "A finished programs run whose static states training starts from.")
    further: bool = setting(
        False, "Whether latest-only, shrunk and descending states are replayed as well."
    )
    through: str = setting(
        "",
        "Replay states trained through the training window as well: first-order or exact.",
        later=True,
    )
    through_rule: str = setting(
        "", "The update rule of those states; --rule by default.", later=True
    )
    window: int = setting(
        32, "Jobs that a state trained through the window lives for.", least=2, later=True
    )
    windows: int = setting(2, "Windows in an outer update of such a training.", least=1, later=True)
    step_rate: float = setting(
        0.0, "Learn the steps of such a training with its start, at this rate.", later=True
    )
    through_rate: float = setting(
        0.0, "Of the outer AdamW of such a training; --learning-rate by default.", later=True
    )
    through_share: float = setting(
        1.0,
        "The share of its updates that go through the window; those before are the paper's, on "
        "labels alone.",
        later=True,
    )
    taken_from: str = setting(
        "",
        "A finished run of the same jobs and settings but for those of --through: what it did is "
        "taken as it is, and not done again.",
        later=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.through not in ("", "first-order", "exact"):
            raise LarcError(f"--through {self.through} is unknown; give first-order or exact.")
        if not 0 < self.through_share <= 1:
            raise LarcError(
                f"--through-share {self.through_share} was given; give a number above 0, up to 1."
            )


PRESETS = {
    # The declared queue, whole.
    "paper": CISettings(),
    # One seed, the residual before layer 20 of 30, the first jobs of each repository's windows.
    "quick": CISettings(boundary=20, seeds=(2026092811,), train="40", audit="60"),
    # Made-up jobs on a random model: every step in seconds, and nothing to be learned from it.
    "smoke": CISettings(
        synthetic=60,
        substrate="tiny",
        threads=1,
        rule="sgd:1.0",
        seeds=(2026092811, 2026092812),
        train="12",
        audit="16",
        prompt_limit=1024,
    ),
}
