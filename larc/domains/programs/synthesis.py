"""Problems of synthesis: a hidden program, examples to find it from, and others to judge it on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from larc.domains.programs.episodes import QUERY_INPUTS, distinct_inputs
from larc.domains.programs.groups import Group, Split
from larc.domains.programs.language import graded_loss, parse, rules, wrong_fraction
from larc.domains.programs.recipes import FAMILIES, Family, Program, Value, render, run
from larc.domains.programs.streams import SYNTHESIS, words
from larc.domains.programs.targets import KINDS, MOST, hidden_program, hidden_programs, sequences
from larc.errors import LarcError

EXAMPLES = 8
Loss = Literal["graded", "errors"]


@dataclass(frozen=True)
class Problem:
    """A hidden program and the inputs it is found from and judged on.

    Attributes
    ----------
    group
        Whose parameters the program has.
    sequence
        The names of its operations, from first to last.
    held_out
        Whether no start is trained on this sequence.
    support_inputs, query_inputs
        What a search may run programs on, and what the answer is judged on.
    loss
        What a search is told: the graded distance of outputs, or the paper's fraction of errors.
    """

    group: Group
    sequence: str
    held_out: bool
    support_inputs: tuple[Value, ...]
    query_inputs: tuple[Value, ...]
    loss: Loss = "graded"

    @property
    def name(self) -> str:
        """A stable name: the group's, and the sequence."""
        return f"{self.group.name}/{self.sequence.replace(' ', '-')}"

    @property
    def family(self) -> Family:
        """The family of its programs."""
        return self.group.family

    @property
    def target(self) -> Program:
        """The hidden program."""
        return hidden_program(self.group, self.sequence)

    @property
    def length(self) -> int:
        """How many operations the hidden program has; no shorter one is the same function."""
        return len(self.target)

    @property
    def answer(self) -> str:
        """The text of the hidden program."""
        return render(self.target)

    @property
    def rules(self) -> str:
        """The rules of the grammar of its programs, for `larc.Grammar`."""
        return rules(self.family)

    @property
    def prompt(self) -> str:
        """The public question: the language and a few examples, without any feedback."""
        return synthesis_prompt(self)

    def prompt_with(self, tried: Sequence[tuple[str, float]]) -> str:
        """Return the question with programs that were tried and their losses."""
        return synthesis_prompt(self, tried)

    def judge(self) -> Callable[[Sequence[str]], list[float]]:
        """Return what gives every program text its loss on the examples, by interpreting it."""
        measure = graded_loss if self.loss == "graded" else wrong_fraction

        def judged(texts: Sequence[str]) -> list[float]:
            programs = [parse(text, self.family) for text in texts]
            return [measure(program, self.target, self.support_inputs) for program in programs]

        return judged

    def solved_by(self, text: str) -> bool:
        """Whether a program is right on every input that is kept back."""
        return wrong_fraction(parse(text, self.family), self.target, self.query_inputs) == 0


def build_problem(
    group: Group, sequence: str, *, examples: int = EXAMPLES, loss: Loss = "graded"
) -> Problem:
    """Return the problem of a group and a sequence, the same one every time.

    Examples
    --------
    >>> from larc.domains.programs import Group, render
    >>> problem = build_problem(Group("arithmetic", (2, 3)), "mul add")
    >>> problem.name, render(problem.target), len(problem.query_inputs)
    ('arithmetic/2,3/mul-add', 'mul 2|add 3', 20)
    >>> problem.judge()(["mul 2|add 3", "mul 2"])
    [0.0, 0.2727...]
    >>> problem.solved_by("mul 2|add 2|add 1")
    True
    """
    hidden_program(group, sequence)  # refuses what is no sequence
    known = sequences(group.family)
    number = [one for part in known.values() for one in part].index(sequence)
    stream = words(SYNTHESIS, FAMILIES.index(group.family), *group.pair, number)
    inputs = distinct_inputs(group.family, stream)
    query = tuple(islice(inputs, QUERY_INPUTS))
    support = tuple(islice(inputs, examples))
    return Problem(group, sequence, sequence in known["held out"], support, query, loss)


def build_problems(
    split: Split,
    groups: int,
    programs: int,
    *,
    held_out: bool,
    examples: int = EXAMPLES,
    loss: Loss = "graded",
) -> tuple[Problem, ...]:
    """Return problems of the first groups of each family of a split.

    No program of a split is the function of one of another split: see `hidden_programs`.

    Parameters
    ----------
    split, groups
        The groups' split, and how many of each family.
    programs
        How many hidden programs of each kind a group has.
    held_out
        Whether also of orders of operations that no start is trained on.
    examples, loss
        How many examples a search has, and what it is told of them.

    Examples
    --------
    >>> problems = build_problems("development", 2, 1, held_out=True)
    >>> [problem.answer for problem in problems[:3]]
    ['add -9', 'add -9|mul -6|clip -16 16', 'clip -16 16|add -5']
    """
    if not 1 <= programs <= MOST:
        raise LarcError(f"a group has 1 to {MOST} programs of a kind, not {programs}.")
    problems: list[Problem] = []
    counts: Counter[str] = Counter()
    for group, drawn in hidden_programs(split).items():
        counts[group.family] += 1
        if counts[group.family] <= groups:
            problems += [
                build_problem(group, sequence, examples=examples, loss=loss)
                for kind in KINDS[: 1 + held_out]
                for sequence in drawn[kind][:programs]
            ]
    return tuple(problems)


def synthesis_prompt(
    problem: Problem, tried: Sequence[tuple[str, float]] = (), shown: int = 3
) -> str:
    """Return the question; with ``tried`` programs and their losses it is the text baseline.

    Examples
    --------
    >>> from larc.domains.programs import Group
    >>> problem = build_problem(Group("arithmetic", (2, 3)), "mul add")
    >>> print(synthesis_prompt(problem, [("mul 2", 0.25)]), end="")
    Write a program of one to four operations that makes the outputs.
    Operations: mul -7..7, add -12..12, clip -16 16
    -30 -> -57
    28 -> 59
    -34 -> -65
    Programs tried, each with its error, 0 is right:
    mul 2: 0.25
    Program:
    """
    language = {
        "arithmetic": "mul -7..7, add -12..12, clip -16 16",
        "list": "min -6..6, sort, take 1..6, append -12..12",
    }[problem.family]
    lines = [
        "Write a program of one to four operations that makes the outputs.",
        f"Operations: {language}",
    ]
    for value in problem.support_inputs[:shown]:
        lines.append(f"{_text(value)} -> {_text(run(problem.target, value))}")
    if tried:
        lines.append("Programs tried, each with its error, 0 is right:")
        lines += [f"{text}: {loss:.3g}" for text, loss in tried]
    return "\n".join([*lines, "Program:\n"])


def _text(value: Value) -> str:
    return str(value) if isinstance(value, int) else " ".join(map(str, value)) or "nothing"
