"""The controller study: which of a run's states to trust, decided by labels as they arrive."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.controller.settings import ControllerSettings
from larc.studies.study import Study, lazy

STUDY = Study(
    kind="controller",
    sentence="Let arriving labels decide which states of a finished run to trust.",
    settings=ControllerSettings,
    prepare=lazy("larc.studies.controller.sources", "prepared"),
    carry_out=lazy("larc.studies.controller.sources", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("replay read", "predictions", "predictions.parquet"),
            Step("predictions written", "predictions", "predictions.parquet", needed=True),
        ],
        "the run's predictions were on record before they were mixed",
    ),
    report=lazy("larc.studies.controller.sources", "report"),
    settle=lazy("larc.studies.controller.sources", "settled"),
)
