"""Experts that need no model: how many questions a second one core answers and learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.speed.delayed import hedge_losses
from benchmarks.speed.setting import Setting
from benchmarks.speed.table import Measured, Row, Section
from benchmarks.speed.timing import Spread, Timed
from larc import experts
from larc.domains.ci.synthetic import synthetic_jobs
from larc.experts.base import TextExpert
from larc.stream.question import Labelled, Question, Recorded

SECTION = Section(
    "experts",
    "12. Without a model",
    "One stream after the other, one question at a time: asked, answered, its label learned before "
    "the next. Ten candidates, texts of twelve words, features of the model under test, which are "
    "known: what they cost is the model's. HEDGE4 replays made-up CI jobs with late labels.",
)
_OF = "thousand questions a second, on one core"
_KINDS = ("feature", "fix", "docs", "chore", "refactor", "test", "build", "ci", "perf", "style")


def stream(number: int, count: int) -> list[Recorded]:
    """Return made-up questions of one stream, each labelled before the next."""
    return [
        Recorded(
            Question(
                f"{number}-{n}",
                _KINDS,
                prompt=f"Change {n}: {' '.join(f'word{(n * k + number) % 97}' for k in range(11))}",
            ),
            asked=n,
            arrives=n + 0.5,
            label=(n * n + number) % len(_KINDS),
        )
        for n in range(count)
    ]


def replayed(expert: TextExpert, items: Sequence[Recorded]) -> None:
    """Ask an expert with nothing private about every question, and let it learn each label."""
    fresh = expert.begin()
    for item in items:
        fresh.ask([item.question])
        fresh.learn([Labelled(item.question, item.right)])


def rows(setting: Setting) -> list[Row]:
    """Measure every expert on the same questions."""
    count = 40 if setting.quick else 300
    training, items = [stream(number, 20) for number in range(4)], stream(9, count)
    pooled = experts.PooledFeatures(setting.substrate, setting.substrate.layers // 2)
    made: list[TextExpert] = [
        experts.LabelFrequencies(),
        experts.LastLabel(),
        experts.WordLogistic(),
        experts.FeatureReadout(pooled),
        experts.NearestCases(pooled),
    ]
    fitted = [expert.fit(training) for expert in made]
    jobs = synthetic_jobs(10 * count, seed=2)
    runs: dict[str, Callable[[], object]] = {
        expert.names[0]: lambda expert=expert: replayed(expert, items)  # type: ignore[misc]
        for expert in fitted
    }
    times = setting.alternate({**runs, "HEDGE4": lambda: hedge_losses(jobs)})
    return [
        _rate(name, times[name], len(jobs) if name == "HEDGE4" else count)
        for name in ("HEDGE4", *runs)
    ]


def _rate(name: str, timed: Timed, count: int) -> Row:
    spread = Spread.of([count / seconds / 1000 for seconds in timed.seconds])
    return Measured(name, spread, _OF, f"{count:,} questions", {"seconds": timed.seconds})
