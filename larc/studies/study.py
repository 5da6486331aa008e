"""What a study is: one object that says everything the rest of the house needs to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from larc.runs.evidence import EvidencePlan
from larc.runs.run import Run
from larc.runs.settings import Execution

if TYPE_CHECKING:  # asking for help loads no table
    from larc.reporting.report import Report
    from larc.state import SlowState


def lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is loaded when it is called: help needs no model.

    Examples
    --------
    >>> lazy("math", "hypot")(3, 4)
    5.0
    """

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **named)

    return call


def rule_of_settings(run: Run, objective: str, slow: SlowState) -> str:
    """Return the update rule of a run's settings; nothing where the state has learned its own."""
    learned = (slow.step_size or slow.rule) and run.settings.get("step_rate")
    return "" if learned else str(run.settings["rule"])


@dataclass(frozen=True)
class States:
    """The slow states that a study trains, for packages and later studies.

    Attributes
    ----------
    unit
        Gives the name of the unit that has the state of an objective and a seed.
    objectives
        Gives the objectives of a run; a run with none fits one state to each seed.
    choose
        Gives the objective that a run selected, or none, and why.
    files
        Gives further files that a package of an objective holds.
    rule
        Gives the update rule that a state of an objective is used by; empty where it brings its
        own along.
    """

    unit: Callable[[str, int], str]
    objectives: Callable[[Run], tuple[str, ...]] = lambda run: ()
    choose: Callable[[Run], tuple[str | None, str]] = lambda run: (None, "")
    files: Callable[[Run, str], Mapping[str, bytes]] = lambda run, objective: {}
    rule: Callable[[Run, str, SlowState], str] = rule_of_settings


@dataclass(frozen=True)
class Study:
    """A study: its settings, what it is about, how it is carried out, reported and verified.

    Attributes
    ----------
    kind, sentence
        Its name, and one sentence on what it asks.
    settings, presets
        The dataclass of its settings, and named instances; a study without presets has one way to
        be done.
    prepare
        Reads what a study of some settings is about, refusing what cannot be done, before a
        directory is made.
    carry_out
        Does whatever a run still lacks.
    evidence
        The order of evidence, which `larc verify` holds a run to.
    report
        Makes the report of a finished run: a pure function of it.
    sweep_report
        Makes the report of a sweep; the answers of its runs, by default.
    reserved
        Gives the tasks of the one final evaluation, where there is one.
    settle
        Finds out what settings leave open, such as the identity of a run they name.
    states
        The slow states it trains.
    extras
        Packages that its runs need beyond the core, by name.
    """

    kind: str
    sentence: str
    settings: type[Any]
    prepare: Callable[[Any], Any]
    carry_out: Callable[[Run, Any, Any, Execution], None]
    evidence: EvidencePlan
    report: Callable[[Run], Report]
    presets: Mapping[str, Any] = field(default_factory=dict)
    sweep_report: Callable[[Run], Report] | None = None
    reserved: Callable[[Any], Any] | None = None
    settle: Callable[[Any], Any] = lambda settings: settings
    states: States | None = None
    extras: tuple[str, ...] = ("pyarrow",)
