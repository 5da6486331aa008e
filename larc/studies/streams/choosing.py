"""What is chosen on validation streams, and on record before a test stream is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from larc.evaluation import half_brier
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet
from larc.io.states import whole
from larc.runs.run import Run
from larc.studies.streams.ways import Way, test_ways

CHOICE_FILE = "choice.json"


def choice_name(data: str) -> str:
    """Return the name of the unit that holds the choice for a data set."""
    return f"choice-{data}"


@dataclass(frozen=True)
class Choice:
    """What was chosen on validation streams, and everything that was tried for it.

    Attributes
    ----------
    way
        The best way.
    kept
        The best way that keeps, of each start and score.
    tried
        The half-Brier loss of everything that was tried.
    offset_size
        The best step of private offsets, whether they are in the best way or not.
    lora_rate
        The online rate of LoRA.
    rates
        Of words that stand on a state: what its log-probabilities are multiplied by, and the
        private steps of bias and words.
    trusted
        Whom the controller weighs.
    """

    way: Way
    kept: Mapping[str, Way]
    tried: Mapping[str, float]
    offset_size: float = 0.0
    lora_rate: float = 0.0
    rates: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    trusted: tuple[str, ...] = ()

    def ways(self) -> dict[str, Way]:
        """Return what is compared on test streams."""
        return test_ways(self.way, dict(self.kept), self.offset_size)

    def content(self) -> bytes:
        """Return it as JSON."""
        facts: dict[str, Any] = {
            "way": self.way.facts(),
            "kept": {name: way.facts() for name, way in self.kept.items()},
            "tried": dict(self.tried),
            "offset_size": self.offset_size,
            "lora_rate": self.lora_rate,
            "rates": {path: list(steps) for path, steps in self.rates.items()},
            "trusted": list(self.trusted),
            "chosen": sorted({self.way.name, *(way.name for way in self.kept.values())}),
        }
        return as_json(facts)


def parse_choice(facts: Any) -> Choice:
    """Return a choice that was saved.

    Examples
    --------
    >>> choice = Choice(Way("static", rule="sgd:0.1"), {}, {"static-mean-keep-sgd-0.1": 0.25})
    >>> import json
    >>> parse_choice(json.loads(choice.content())) == choice
    True
    """
    with whole(CHOICE_FILE, "larc choice"):
        return Choice(
            Way(**facts["way"]),
            {str(name): Way(**way) for name, way in facts["kept"].items()},
            {str(name): float(loss) for name, loss in facts["tried"].items()},
            float(facts["offset_size"]),
            float(facts["lora_rate"]),
            {
                str(path): (float(a), float(b), float(c))
                for path, (a, b, c) in facts["rates"].items()
            },
            tuple(map(str, facts["trusted"])),
        )


def read_rows(run: Run, unit: str) -> list[dict[str, Any]]:
    """Return what was said in a unit."""
    return from_parquet(run.unit_file(unit, "predictions.parquet"), unit)


def mean_loss(rows: Sequence[Mapping[str, Any]], path: str) -> float:
    """Return the half-Brier loss of a path, streams weighed equally; no label, no loss.

    Examples
    --------
    >>> row = {"stream": "s", "path": "KEEP", "policy": [1.0, 0.0], "label": 0}
    >>> mean_loss([row, {**row, "label": 1}], "KEEP")
    0.5
    """
    by_stream: dict[str, list[float]] = {}
    for row in rows:
        if row["path"] == path and row["label"] is not None:
            loss = float(half_brier([row["policy"]], [row["label"]])[0])
            by_stream.setdefault(row["stream"], []).append(loss)
    return float(np.mean([np.mean(losses) for losses in by_stream.values()]))
