"""Whose predictions the controller study weighs: of a CI run, or of streams."""

from __future__ import annotations

from dataclasses import replace

from larc.reporting.report import Report
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.studies.audited_run import REPLAY, AuditedRun, audited, settled_on
from larc.studies.ci import STUDY as CI
from larc.studies.controller import report as ci_report
from larc.studies.controller import stream_report
from larc.studies.controller import units as ci_units
from larc.studies.controller.settings import ControllerSettings
from larc.studies.controller.stream_units import StreamsRun, answered_run, weigh
from larc.studies.stream import STUDY as STREAM
from larc.studies.streams import STUDY as STREAMS


def settled(settings: ControllerSettings) -> ControllerSettings:
    """Return the settings with the hash of the run they name; only a CI run is replayed live."""
    known = settled_on(settings, (CI, STREAM, STREAMS))
    return known if Run(known.run).kind == CI.kind else replace(known, live=False, texts=False)


def prepared(settings: ControllerSettings) -> AuditedRun | StreamsRun:
    """Open the run, and read again what it was asked."""
    return audited(settings) if Run(settings.run).kind == CI.kind else answered_run(settings)


def carry_out(
    run: Run,
    about: AuditedRun | StreamsRun,
    settings: ControllerSettings,
    execution: Execution,
) -> None:
    """Do whatever a run still lacks."""
    if isinstance(about, AuditedRun):
        ci_units.carry_out(run, about, settings, execution)
    else:
        weigh(run, about, settings, execution)


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    kind = run.unit_json(REPLAY, "run.json").get("kind", CI.kind)
    return ci_report.report(run) if kind == CI.kind else stream_report.report(run)
