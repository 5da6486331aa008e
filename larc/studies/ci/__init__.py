"""The continuous-integration study: predict jobs whose labels arrive late."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.ci.settings import PRESETS, CISettings
from larc.studies.settings import fit_name
from larc.studies.study import States, Study, lazy

STUDY = Study(
    kind="ci",
    sentence="Predict CI jobs whose labels arrive late.",
    settings=CISettings,
    presets=PRESETS,
    prepare=lazy("larc.studies.ci.queue", "audit_queue"),
    carry_out=lazy("larc.studies.ci.carrying", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("questions read"),
            Step("units taken"),
            Step("training finished", "slow", "slow.safetensors"),
            Step("predictions written", "predictions", "predictions.parquet", needed=True),
        ],
        "trainings were on record before the audit's predictions",
    ),
    report=lazy("larc.studies.ci.report", "report"),
    states=States(fit_name),
)
