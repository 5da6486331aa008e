"""The same protocol on anybody's own episodes, from a JSONL file."""

from larc.studies import episodic
from larc.studies.study import Study, lazy
from larc.studies.tasks.settings import PRESETS, TaskSettings

STUDY = Study(
    kind="tasks",
    sentence="Ask the same of your own episodes.",
    settings=TaskSettings,
    presets=PRESETS,
    prepare=lazy("larc.studies.tasks.reading", "own_tasks"),
    carry_out=episodic.CARRY_OUT,
    evidence=episodic.EVIDENCE,
    report=episodic.REPORT,
    sweep_report=episodic.SWEEP_REPORT,
    states=episodic.STATES,
)
