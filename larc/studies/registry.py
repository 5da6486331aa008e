"""The studies by name. A new study is a folder, and one line here."""

from __future__ import annotations

from typing import Any

from larc.errors import LarcError
from larc.runs.evidence import EvidencePlan
from larc.runs.run import Run
from larc.settings import restored
from larc.studies.ci import STUDY as CI
from larc.studies.controller import STUDY as CONTROLLER
from larc.studies.prefix import STUDY as PREFIX
from larc.studies.programs import STUDY as PROGRAMS
from larc.studies.stream import STUDY as STREAM
from larc.studies.streams import STUDY as STREAMS
from larc.studies.study import Study
from larc.studies.synthesis import STUDY as SYNTHESIS
from larc.studies.tasks import STUDY as TASKS

STUDIES: dict[str, Study] = {}


def register(study: Study) -> Study:
    """Add a study; whoever imports the module that does so can run, report and verify it."""
    STUDIES[study.kind] = study
    return study


register(PROGRAMS)
register(TASKS)
register(CI)
register(STREAM)
register(STREAMS)
register(PREFIX)
register(CONTROLLER)
register(SYNTHESIS)


def plans() -> dict[str, EvidencePlan]:
    """Return the order of evidence of every study, by kind."""
    return {kind: study.evidence for kind, study in STUDIES.items()}


def study_of(run: Run) -> Study:
    """Return the study that a run is one of."""
    if run.kind not in STUDIES:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which is no study that is known.")
    return STUDIES[run.kind]


def settings_of(run: Run) -> Any:
    """Return a run's settings as the dataclass they were made from."""
    return restored(study_of(run).settings, run.settings)
