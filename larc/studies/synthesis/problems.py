"""What the synthesis study is about: problems to train starts on, and closed ones to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from larc.domains.functions import FunctionProblem, function_problems
from larc.domains.programs.synthesis import Problem, build_problems
from larc.errors import LarcError
from larc.studies.synthesis.settings import SynthesisSettings


class Puzzle(Protocol):
    """A problem of either domain."""

    @property
    def name(self) -> str:
        """Its name, unique in a study."""

    @property
    def family(self) -> str:
        """Its family; families weigh equally."""

    @property
    def prompt(self) -> str:
        """The public question."""

    @property
    def rules(self) -> str:
        """The grammar of what may be written."""

    @property
    def answer(self) -> str:
        """A text that is right."""

    def prompt_with(self, tried: Sequence[tuple[str, float]]) -> str:
        """Return the question with what was tried written out."""

    def judge(self) -> Callable[[Sequence[str]], list[float]]:
        """Return what gives texts their losses."""

    def solved_by(self, text: str) -> bool:
        """Whether a text is right on all that was kept back."""


@dataclass(frozen=True)
class Puzzles:
    """Problems to train on, and others to search for."""

    training: tuple[Puzzle, ...]
    development: tuple[Puzzle, ...]


def prepare(settings: SynthesisSettings) -> Puzzles:
    """Return the problems, refusing settings that could not be carried out."""
    from larc.proposals.improving import ImproveSettings  # loads torch
    from larc.rules import parse_rule

    parse_rule(settings.rule)
    for temperature in (settings.temperature, settings.hot):
        ImproveSettings(n=settings.n, calls=settings.calls, temperature=temperature)
    if settings.domain == "functions":
        everything = function_problems()
        training, development = everything[::2], everything[1::2]
        families = dict.fromkeys(problem.family for problem in everything)
        chosen = [
            problem
            for family in families
            for problem in [p for p in development if p.family == family][: settings.groups]
        ]
        return Puzzles(tuple(training), tuple(chosen))
    if settings.groups > 8 or settings.training_groups > 16:
        raise LarcError("there are 8 held-out groups of each family and 16 to train on.")
    told = {"examples": settings.examples, "loss": settings.loss}
    return Puzzles(
        build_problems("training", settings.training_groups, 4, held_out=False, **told),  # type: ignore[arg-type]  # checked by settings
        build_problems("development", settings.groups, settings.sequences, held_out=True, **told),  # type: ignore[arg-type]  # as well
    )


def group_of(problem: Puzzle) -> str:
    """Return the group that a problem is resampled with."""
    return problem.group.name if isinstance(problem, Problem) else problem.name


def kind_of(problem: Puzzle) -> str:
    """Return whether the problem's order of operations was trained on.

    Examples
    --------
    >>> kind_of(function_problems()[0])
    'functions'
    """
    if isinstance(problem, FunctionProblem):
        return "functions"
    return "held out" if isinstance(problem, Problem) and problem.held_out else "seen"
