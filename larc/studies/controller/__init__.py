"""The controller study: which of a CI run's states to trust, decided by labels as they arrive."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.audited_run import settled
from larc.studies.controller.settings import ControllerSettings
from larc.studies.study import Study, lazy

STUDY = Study(
    kind="controller",
    sentence="Let arriving labels decide which states of a finished CI run to trust.",
    settings=ControllerSettings,
    prepare=lazy("larc.studies.audited_run", "audited"),
    carry_out=lazy("larc.studies.controller.units", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("replay read", "predictions", "predictions.parquet"),
            Step("predictions written", "predictions", "predictions.parquet", needed=True),
        ],
        "the run's predictions were on record before they were mixed",
    ),
    report=lazy("larc.studies.controller.report", "report"),
    settle=settled,
)
