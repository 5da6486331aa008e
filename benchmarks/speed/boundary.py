"""What a read and an update cost as the residual moves up, the activations below it reused."""

from __future__ import annotations

from benchmarks.speed.setting import SEED, Setting
from benchmarks.speed.table import Row, Section, timed_row
from larc.feedback import CandidateLosses
from larc.learner import Learner
from larc.state import SlowState

SECTION = Section(
    "boundary",
    "3. Boundary",
    "Two episodes read and updated with the residual before layer k, what is below it computed "
    "once: the layers above are what is left to pay for.",
)


def boundaries(layers: int) -> list[int]:
    """Return the input and three layers further up.

    Examples
    --------
    >>> boundaries(30)
    [0, 10, 20, 25]
    """
    return sorted({0, layers // 3, 2 * layers // 3, 5 * layers // 6})


def rows(setting: Setting) -> list[Row]:
    """Measure reads and updates at four boundaries."""
    runs = {}
    chosen = boundaries(setting.substrate.layers)
    for boundary in chosen:
        slow = SlowState.initial(setting.substrate, seed=SEED, boundary=boundary)
        learner = Learner(setting.substrate, slow, limits=setting.limits)
        episodes = [learner.begin(), learner.begin()]
        both = list(zip(episodes, setting.pair, strict=True))
        reads = [(episode, task.prompt, task.candidates) for episode, task in both]
        feedback = [
            (episode, CandidateLosses(task.prompt, task.candidates, task.losses("support")))
            for episode, task in both
        ]
        runs[f"read {boundary}"] = lambda learner=learner, reads=reads: learner.read_many(reads)
        runs[f"update {boundary}"] = lambda learner=learner, feedback=feedback: learner.update_many(
            feedback
        )
    times = setting.alternate(runs)
    layers = setting.substrate.layers
    return [
        timed_row(
            f"{kind} before layer {boundary}",
            times,
            f"{kind} {boundary}",
            f"{kind} 0",
            "its time over the input's",
            f"{layers - boundary} of {layers} layers above",
        )
        for kind in ("read", "update")
        for boundary in chosen[1:]
    ]
