"""The program-selection study: choose among four programs from execution feedback."""

from larc.studies import episodic
from larc.studies.programs.settings import PRESETS, ProgramSettings
from larc.studies.study import Study, lazy

STUDY = Study(
    kind="programs",
    sentence="Select programs from execution feedback.",
    settings=ProgramSettings,
    presets=PRESETS,
    prepare=lazy("larc.studies.programs.tasks", "program_tasks"),
    carry_out=episodic.CARRY_OUT,
    evidence=episodic.EVIDENCE,
    report=episodic.REPORT,
    sweep_report=episodic.SWEEP_REPORT,
    reserved=lazy("larc.studies.programs.tasks", "reserved_tasks"),
    states=episodic.STATES,
)
