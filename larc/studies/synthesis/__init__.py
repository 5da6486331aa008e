"""The synthesis study: find a program by writing programs, with a bounded number of judge calls."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.settings import fit_name
from larc.studies.study import States, Study, lazy
from larc.studies.synthesis.settings import PRESETS, SynthesisSettings

STUDY = Study(
    kind="synthesis",
    sentence="Find programs from feedback on what the model itself writes.",
    settings=SynthesisSettings,
    presets=PRESETS,
    prepare=lazy("larc.studies.synthesis.problems", "prepare"),
    carry_out=lazy("larc.studies.synthesis.units", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("training finished", "slow", "slow.safetensors"),
            Step("searches written", "searches", "searches.parquet", needed=True),
            Step("queries opened", needed=True),
            Step("queries written", "queries", "queries.parquet", unit="queries"),
        ],
        "searches were on record before the queries were opened",
    ),
    report=lazy("larc.studies.synthesis.report", "report"),
    states=States(fit_name),
)
