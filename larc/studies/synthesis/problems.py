"""What the synthesis study is about: problems to train starts on, and closed ones to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from larc.domains.functions import FunctionProblem, function_problems
from larc.domains.programs.synthesis import Problem, build_problems
from larc.domains.programs.targets import MOST, function_of
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
    searched: tuple[Puzzle, ...]


def prepare(settings: SynthesisSettings) -> Puzzles:
    """Return the problems, refusing settings that could not be carried out."""
    from larc.proposals.improving import ImproveSettings  # loads torch
    from larc.rules import parse_rule

    parse_rule(settings.rule)
    for temperature in (settings.temperature, settings.hot):
        ImproveSettings(n=settings.n, calls=settings.calls, temperature=temperature)
    puzzles = _functions(settings) if settings.domain == "functions" else _programs(settings)
    check_apart(puzzles)
    return puzzles


def check_apart(puzzles: Puzzles) -> None:
    """Refuse problems to search for that have a right text which a start would be trained on."""
    functions = {
        (p.family, function_of(p.target, p.family)) for p in _of_programs(puzzles.training)
    }
    known = {problem.name for problem in puzzles.training}
    for problem in puzzles.searched:
        same = isinstance(problem, Problem) and (
            (problem.family, function_of(problem.target, problem.family)) in functions
        )
        if same or problem.name in known:
            raise LarcError(
                f"a start would be trained on the answer of {problem.name}; search for other "
                "problems, or give --updates 0."
            )


def _programs(settings: SynthesisSettings) -> Puzzles:
    if settings.groups > 8 and settings.problems == "development":
        raise LarcError("there are 8 held-out groups of each family; give --groups 8 or fewer.")
    build = partial(build_problems, examples=settings.examples, loss=settings.loss)
    training: tuple[Puzzle, ...] = ()
    if settings.updates:
        training = build("training", settings.training_groups, MOST, held_out=False)
    held_out = settings.problems != "training"
    searched = build(settings.problems, settings.groups, settings.sequences, held_out=held_out)
    return Puzzles(training, searched)


def _functions(settings: SynthesisSettings) -> Puzzles:
    """Return every second function to train on, and the others; all, where nothing is trained."""
    everything = function_problems()
    training = everything[::2] if settings.updates else ()
    possible = {
        "development": everything[1::2] if settings.updates else everything,
        "training": everything[::2],
        "preflight": (),
    }[settings.problems]
    if not possible:
        raise LarcError("the functions have no preflight; give --problems training --updates 0.")
    families = dict.fromkeys(problem.family for problem in everything)
    searched = [
        problem
        for family in families
        for problem in [p for p in possible if p.family == family][: settings.groups]
    ]
    return Puzzles(training, tuple(searched))


def _of_programs(problems: Sequence[Puzzle]) -> list[Problem]:
    return [problem for problem in problems if isinstance(problem, Problem)]


def group_of(problem: Puzzle) -> str:
    """Return the group that a problem is resampled with."""
    return problem.group.name if isinstance(problem, Problem) else problem.name


def length_of(problem: Puzzle) -> int:
    """Return how many operations the shortest right program has; 0 for functions.

    Examples
    --------
    >>> length_of(function_problems()[0])
    0
    """
    return problem.length if isinstance(problem, Problem) else 0


def kind_of(problem: Puzzle) -> str:
    """Return whether starts are trained on the problem's order of operations.

    Examples
    --------
    >>> kind_of(function_problems()[0])
    'functions'
    """
    if isinstance(problem, FunctionProblem):
        return "functions"
    return "held out" if isinstance(problem, Problem) and problem.held_out else "seen"
