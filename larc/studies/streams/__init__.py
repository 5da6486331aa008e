"""The study of private conventions: many streams, each of which decides in its own way."""

from larc.runs.evidence import EvidencePlan, Step
from larc.studies.streams.settings import PRESETS, StreamsSettings
from larc.studies.study import States, Study, lazy

STUDY = Study(
    kind="streams",
    sentence="Decide in many private streams, each with a convention of its own.",
    settings=StreamsSettings,
    presets=PRESETS,
    prepare=lazy("larc.studies.streams.split", "data_sets"),
    carry_out=lazy("larc.studies.streams.carrying", "carry_out"),
    evidence=EvidencePlan(
        [
            Step("data read"),
            Step("trials trained", "slow", "slow.safetensors"),
            Step("trials written", "predictions", "predictions.parquet"),
            Step("choice made", "choice", "choice.json"),
            Step("training finished", "slow", "slow.safetensors"),
            Step(
                *("predictions written", "predictions", "predictions.parquet"),
                prefix="test-",
                needed=True,
            ),
        ],
        "choices were on record before any test stream was opened",
    ),
    report=lazy("larc.studies.streams.report", "report"),
    settle=lazy("larc.studies.streams.starting", "settled"),
    states=States(
        lambda objective, seed: f"train-{objective}-{seed}",
        lazy("larc.studies.streams.starting", "objectives"),
        lazy("larc.studies.streams.starting", "chosen"),
        lazy("larc.studies.streams.starting", "package_files"),
        lazy("larc.studies.streams.starting", "rule_of"),
    ),
)
