"""The stream study: anybody's own questions, asked in order, whose labels arrive late."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.settings import fit_name
from larc.studies.stream.settings import PRESETS, StreamSettings
from larc.studies.study import States, Study, lazy

STUDY = Study(
    kind="stream",
    sentence="Replay your own questions whose labels arrive late.",
    settings=StreamSettings,
    presets=PRESETS,
    prepare=lazy("larc.studies.stream.questions", "stream_questions"),
    carry_out=lazy("larc.studies.stream.units", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("questions read"),
            Step("training finished", "slow", "slow.safetensors"),
            Step("predictions written", "predictions", "predictions.parquet", needed=True),
        ],
        "trainings were on record before the audit's predictions",
    ),
    report=lazy("larc.studies.stream.report", "report"),
    states=States(fit_name),
)
