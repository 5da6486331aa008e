"""The stream study: anybody's own questions, asked in order, whose labels arrive late.

Units of work: for each seed a task-matched training (``fit``), and for each seed and stream an
audit. A training sees only labels that arrive before the first question of any audit is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from larc.errors import LarcError
from larc.learner import Learner
from larc.progress import Display
from larc.rules import parse_rule
from larc.scoring import Label, ask
from larc.state import SlowState
from larc.stream.items import Item, PlainRoom
from larc.stream.paths import PathSpec
from larc.stream.queue import split_streams
from larc.stream.session import Session
from larc.studies.engines import Files
from larc.studies.options import Execution
from larc.studies.replaying import fit_labels, item_weights, replay, session_limits
from larc.studies.runs import Run
from larc.studies.stream_queue import Questions, StreamSettings
from larc.studies.units import accounted, do_all, hashes
from larc.substrate import Substrate

PATHS = (
    PathSpec("RESET", retention="reset"),
    PathSpec("CARRY"),
    PathSpec("LATEST", retention="latest"),
    PathSpec("PERM", permuted=True),
    PathSpec("UNTRAINED", start="untrained"),
)
PRIOR = "PRIOR"
_SHOWN = 3


@dataclass(frozen=True)
class Work:
    """One unit of work, with everything it depends on."""

    name: str
    settings: StreamSettings
    seed: int
    training: Sequence[Item]
    late: Sequence[Item] = ()
    audit: Sequence[Item] = ()
    fitted: bytes = b""
    scratch: str = ""


class Prior:
    """How often each candidate was right so far, by its text, with one added to every count.

    Examples
    --------
    >>> prior = Prior()
    >>> item = Item("a", 0, 1, ("up", "down"), 0)
    >>> prior.ask([item])
    {'PRIOR': [[0.5, 0.5]]}
    >>> prior.arrive([item, item])
    >>> prior.ask([item])
    {'PRIOR': [[0.75, 0.25]]}
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def ask(self, items: Sequence[Item]) -> dict[str, list[list[float]]]:
        """Return the frequencies of each item's candidates among the labels that have arrived."""
        policies = []
        for item in items:
            counts = [1 + self.counts.get(text, 0) for text in item.candidates]
            policies.append([count / sum(counts) for count in counts])
        return {PRIOR: policies}

    def arrive(self, items: Sequence[Item]) -> None:
        """Count labels."""
        for item in items:
            right = item.candidates[item.label]
            self.counts[right] = self.counts.get(right, 0) + 1

    def state(self) -> Any:
        """Return the counts."""
        return self.counts

    def restore(self, state: Any) -> None:
        """Go back to saved counts."""
        self.counts = dict(state)


def carry_out(
    run: Run, questions: Questions, settings: StreamSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks."""
    display = Display()
    run.record("questions read", {"counts": questions.counts})
    fits = [
        Work(f"fit-{seed}", settings, seed, questions.training, questions.late, questions.audit)
        for seed in settings.seeds
    ]
    do_all(run, fits, perform, execution, display)
    run.record("training finished", {"slow": hashes(run, fits, "slow.safetensors")})
    streams = split_streams(questions.audit, stream=lambda item: item.stream)
    audits = [
        Work(
            # By number: a stream's own name may be no name of a directory.
            f"audit-{seed}-{number:04}",
            settings,
            seed,
            [item for item in questions.training if item.stream == stream],
            [item for item in questions.late if item.stream == stream],
            audit,
            run.unit_file(f"fit-{seed}", "slow.safetensors"),
        )
        for seed in settings.seeds
        for number, (stream, audit) in enumerate(streams.items())
    ]
    do_all(run, audits, perform, execution, display)
    written = hashes(run, audits, "predictions.parquet")
    run.record("predictions written", {"predictions": written})


def perform(work: Work, display: Display | None = None) -> Files:
    """Do one unit of work and return its files."""
    return accounted(work, _fit if work.name.startswith("fit-") else _audit, display)


def _untrained(work: Work, substrate: Substrate) -> SlowState:
    settings = work.settings
    return SlowState.initial(
        substrate, rank=settings.rank, seed=work.seed, boundary=settings.boundary
    )


def _fit(work: Work, substrate: Substrate, display: Display) -> Files:
    """Train one epoch on the labels that arrive in time, weighted by the stream's levels."""
    # Everything that will be asked, so that what cannot be scored is refused before any training.
    _check(substrate, [*work.training, *work.late, *work.audit], work.settings)
    return fit_labels(
        work,
        substrate,
        display,
        _untrained(work, substrate),
        [Label(item.prompt, item.candidates, item.label) for item in work.training],
        item_weights(work.training).tolist(),
    )


def _check(substrate: Substrate, items: Sequence[Item], settings: StreamSettings) -> None:
    problems = []
    for item in items:
        try:
            ask(substrate, item.prompt, item.candidates, settings.limits)
        except LarcError as error:
            problems.append(f"{item.name!r} of {item.stream!r}: {error}")
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise LarcError(
            f"{len(problems)} questions cannot be asked; change them, or --prompt-limit and "
            f"--candidate-limit. {' '.join(problems[:_SHOWN])}{more}"
        )


def _audit(work: Work, substrate: Substrate, display: Display) -> Files:
    """Replay the audit of one stream: every path and the prior, in causal order."""
    settings = work.settings
    trained = SlowState.from_bytes(work.fitted, work.name).to(substrate.device)
    learner = Learner(substrate, trained, parse_rule(settings.rule), limits=settings.limits)
    session = Session(
        learner,
        PATHS,
        PlainRoom(),
        seed=work.seed,
        starts={"untrained": _untrained(work, substrate)},
        limits=session_limits(settings),
    )
    prior = Prior()
    prior.arrive(work.training)
    return replay(work, session, work.audit, prior, display, history=work.late)
