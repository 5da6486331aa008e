"""What studies of episodes share: train arms, predict closed tasks, and only then open them."""

from __future__ import annotations

from larc.runs.evidence import EvidencePlan, Step
from larc.runs.run import Run
from larc.studies.episodic.names import training_name
from larc.studies.study import States, lazy

EVIDENCE = EvidencePlan(
    [
        Step("starts read"),  # its hashes are of another run's files
        Step("training finished", "slow", "slow.safetensors"),
        Step("predictions written", "predictions", "predictions.parquet", needed=True),
        Step("queries opened", needed=True),
        Step("queries written", "queries", "queries.parquet", unit="queries"),
        Step("final evaluation begun"),
        Step("final predictions written", "predictions", "predictions.parquet"),
        Step("final-queries opened"),
        Step("final-queries written", "queries", "queries.parquet", unit="final-queries"),
    ],
    "predictions were on record before the queries were opened",
)


def _objectives(run: Run) -> tuple[str, ...]:
    return tuple(run.settings["objectives"])


STATES = States(
    training_name, _objectives, lazy("larc.studies.episodic.results", "chosen_objective")
)
REPORT = lazy("larc.studies.episodic.report", "report")
SWEEP_REPORT = lazy("larc.studies.episodic.sweep", "report")
CARRY_OUT = lazy("larc.studies.episodic.units", "carry_out")
