"""The prefix intervention: update size crossed with parameter history, on early CI jobs."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.audited_run import settled
from larc.studies.prefix.settings import PrefixSettings
from larc.studies.study import Study, lazy

STUDY = Study(
    kind="prefix",
    sentence="Cross update size with parameter history on the first jobs of a finished CI run.",
    settings=PrefixSettings,
    prepare=lazy("larc.studies.prefix.queue", "prefix_of"),
    carry_out=lazy("larc.studies.prefix.units", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("replay read", "predictions", "predictions.parquet"),
            Step("replay repeated", "predictions", "predictions.parquet", needed=True),
            Step("predictions written", "predictions", "predictions.parquet", needed=True),
        ],
        "the run's own predictions were repeated before others were made",
    ),
    report=lazy("larc.studies.prefix.report", "report"),
    settle=settled,
)
