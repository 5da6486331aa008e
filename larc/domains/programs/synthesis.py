"""Problems of synthesis: a hidden program, examples to find it from, and others to judge it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from larc.domains.programs.episodes import QUERY_INPUTS, distinct_inputs
from larc.domains.programs.groups import Group, Split, split_groups
from larc.domains.programs.language import graded_loss, parse, rules, wrong_fraction
from larc.domains.programs.recipes import FAMILIES, Family, Operation, Program, Value, render, run
from larc.domains.programs.streams import SYNTHESIS, words
from larc.errors import LarcError

EXAMPLES = 8
Loss = Literal["graded", "errors"]

#: The order of operations of hidden programs: those that starts are trained on, and those that no
#: training sees.
SEQUENCES: Mapping[Family, Mapping[str, tuple[str, ...]]] = {
    "arithmetic": {
        "seen": ("add", "mul add", "clip mul", "mul clip add"),
        "held out": ("mul", "add mul", "add clip", "clip mul add mul"),
    },
    "list": {
        "seen": ("take", "filter_min take", "sort take", "filter_min sort take append"),
        "held out": ("filter_min", "take append", "append sort", "take filter_min append"),
    },
}


@dataclass(frozen=True)
class Problem:
    """A hidden program and the inputs it is found from and judged on.

    Attributes
    ----------
    group
        Whose parameters the program has.
    sequence
        The names of its operations.
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
        return tuple(_operation(name, self.group) for name in self.sequence.split())

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
    known = SEQUENCES[group.family]
    everything = [one for part in known.values() for one in part]
    if sequence not in everything:
        raise LarcError(f"there is no sequence {sequence!r}; give one of {', '.join(everything)}.")
    stream = words(SYNTHESIS, FAMILIES.index(group.family), *group.pair, everything.index(sequence))
    inputs = distinct_inputs(group.family, stream)
    query = tuple(islice(inputs, QUERY_INPUTS))
    support = tuple(islice(inputs, examples))
    return Problem(group, sequence, sequence in known["held out"], support, query, loss)


def build_problems(
    split: Split,
    groups: int,
    sequences: int,
    *,
    held_out: bool,
    examples: int = EXAMPLES,
    loss: Loss = "graded",
) -> tuple[Problem, ...]:
    """Return problems of the first groups of each family of a split.

    Parameters
    ----------
    split, groups
        The groups' split, and how many of each family.
    sequences
        How many sequences of each kind a group has; groups take turns with them.
    held_out
        Whether also sequences that no start is trained on.
    examples, loss
        How many examples a search has, and what it is told of them.

    Examples
    --------
    >>> problems = build_problems("development", 2, 1, held_out=True)
    >>> [problem.sequence for problem in problems[:4]]
    ['add', 'mul', 'mul add', 'add mul']
    """
    if split == "reserved":
        raise LarcError("reserved groups are for the final evaluation of the program study.")
    problems = []
    for family in FAMILIES:
        chosen = [group for group in split_groups(split) if group.family == family][:groups]
        for number, group in enumerate(chosen):
            for kind in ("seen", "held out") if held_out else ("seen",):
                known = SEQUENCES[family][kind]
                for turn in range(min(sequences, len(known))):
                    sequence = known[(number * sequences + turn) % len(known)]
                    problems.append(build_problem(group, sequence, examples=examples, loss=loss))
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
    Operations: mul 1..7, add 0..12, clip -16 16
    24 -> 51
    -45 -> -87
    -8 -> -13
    Programs tried, each with its error, 0 is right:
    mul 2: 0.25
    Program:
    """
    language = {
        "arithmetic": "mul 1..7, add 0..12, clip -16 16",
        "list": "min 0..6, sort, take 1..6, append 0..12",
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


def _operation(name: str, group: Group) -> Operation:
    first, second = group.pair
    if name == "clip":
        return Operation("clip", (-16, 16))
    if name == "sort":
        return Operation("sort")
    if name == "append":
        assert group.suffix is not None
        return Operation("append", (group.suffix,))
    return Operation(name, (first if name in ("mul", "filter_min") else second,))
