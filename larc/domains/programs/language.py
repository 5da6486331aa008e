"""The open set of programs: any few operations in a row, read from text and never evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from larc.domains.programs.groups import ENTRY_RANGE
from larc.domains.programs.recipes import (
    CLIP_BOUNDS,
    FAMILIES,
    Family,
    Operation,
    Program,
    Value,
    render,
    run,
)
from larc.errors import LarcError

#: The most operations of a program.
LONGEST = 4

_ENTRIES = range(ENTRY_RANGE[0], ENTRY_RANGE[1] + 1)
# The parameters of an operation come from the ranges that groups take theirs from.
_OPERATIONS: Mapping[Family, tuple[Operation, ...]] = {
    "arithmetic": (
        *(Operation("mul", (scale,)) for scale in (*range(-7, 0), *range(1, 8))),
        *(Operation("add", (offset,)) for offset in range(-12, 13)),
        Operation("clip", CLIP_BOUNDS),
    ),
    "list": (
        *(Operation("filter_min", (minimum,)) for minimum in range(-6, 7)),
        Operation("sort"),
        *(Operation("take", (limit,)) for limit in range(1, 7)),
        *(Operation("append", (entry,)) for entry in _ENTRIES),
    ),
}
_BY_TEXT = {
    family: {render((operation,)): operation for operation in operations}
    for family, operations in _OPERATIONS.items()
}
# How far off a number is half wrong.
_HALF = 8


def operations(family: Family) -> tuple[Operation, ...]:
    """Return every operation of a family, with each of its parameters.

    Examples
    --------
    >>> len(operations("arithmetic")), len(operations("list"))
    (40, 45)
    """
    if family not in _OPERATIONS:
        raise LarcError(f"there is no family {family!r}; give one of {', '.join(FAMILIES)}.")
    return _OPERATIONS[family]


def count_programs(family: Family, longest: int = LONGEST) -> int:
    """Return how many programs of up to so many operations there are.

    Examples
    --------
    >>> count_programs("arithmetic"), count_programs("list")
    (2625640, 4193820)
    """
    return sum(len(operations(family)) ** length for length in range(1, longest + 1))


def rules(family: Family, longest: int = LONGEST) -> str:
    """Return the rules of a grammar of all programs of a family, for `larc.Grammar`.

    Examples
    --------
    >>> print(rules("list"))
    program ::= step ("|" step){0,3}
    step ::= "min " ("-"? [1-6] | "0") | "sort" | "take " [1-6] | "append " entry
    entry ::= "-"? ([1-9] | "1" [0-2]) | "0"
    """
    operations(family)
    step = {
        "arithmetic": '"mul " "-"? [1-7] | "add " entry | "clip {} {}"'.format(*CLIP_BOUNDS),
        "list": '"min " ("-"? [1-6] | "0") | "sort" | "take " [1-6] | "append " entry',
    }[family]
    more = f'("|" step){{0,{longest - 1}}}' if longest > 1 else ""
    entry = 'entry ::= "-"? ([1-9] | "1" [0-2]) | "0"'
    return f"program ::= step {more}\nstep ::= {step}\n{entry}"


def parse(text: str, family: Family, longest: int = LONGEST) -> Program:
    """Return the program that a text writes, refusing what is none of the family.

    Examples
    --------
    >>> parse("mul 2|add -3", "arithmetic")
    (Operation(name='mul', arguments=(2,)), Operation(name='add', arguments=(-3,)))
    >>> parse("mul 2|sort", "arithmetic")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 'sort' is no operation of the arithmetic family.
    """
    operations(family)
    parts = text.split("|")
    if len(parts) > longest:
        raise LarcError(f"a program has {longest} operations at most, and {text!r} {len(parts)}.")
    for part in parts:
        if part not in _BY_TEXT[family]:
            raise LarcError(f"{part!r} is no operation of the {family} family.")
    return tuple(_BY_TEXT[family][part] for part in parts)


def in_order_of_length(family: Family, longest: int = LONGEST) -> Iterator[Program]:
    """Yield every program, shorter ones first, each length in the order of the operations.

    Examples
    --------
    >>> from itertools import islice
    >>> [render(program) for program in islice(in_order_of_length("arithmetic"), 39, 42)]
    ['clip -16 16', 'mul -7|mul -7', 'mul -7|mul -6']
    """
    for length in range(1, longest + 1):
        yield from product(operations(family), repeat=length)


def distance(output: Value, wanted: Value) -> float:
    """Return how far an output is from the right one: 0 where it is equal, and below 1.

    Numbers are half wrong when they are 8 off. Lists are as wrong as the share of their entries
    outside the longest sequence that both have in this order.

    Examples
    --------
    >>> distance(5, 5), distance(13, 5), distance((1, 2, 3), (1, 3))
    (0.0, 0.5, 0.2)
    """
    if isinstance(output, int) and isinstance(wanted, int):
        apart = abs(output - wanted)
        return apart / (apart + _HALF)
    if isinstance(output, tuple) and isinstance(wanted, tuple):
        entries = len(output) + len(wanted)
        return (entries - 2 * _common(output, wanted)) / entries if entries else 0.0
    raise LarcError(f"{output} and {wanted} are not both numbers or both lists.")


def graded_loss(program: Program, target: Program, inputs: Sequence[Value]) -> float:
    """Return a program's mean distance from the target's outputs; 0 where all are equal.

    Examples
    --------
    >>> graded_loss(parse("add 8", "arithmetic"), parse("add 0", "arithmetic"), [1, 2])
    0.5
    """
    apart = [distance(run(program, value), run(target, value)) for value in inputs]
    return sum(apart) / len(apart)


def wrong_fraction(program: Program, target: Program, inputs: Sequence[Value]) -> float:
    """Return the fraction of inputs where a program's output is not the target's: the paper's loss.

    Examples
    --------
    >>> wrong_fraction(parse("mul 2", "arithmetic"), parse("add 2", "arithmetic"), [1, 2])
    0.5
    """
    return sum(run(program, value) != run(target, value) for value in inputs) / len(inputs)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for entry in first:
        previous = 0
        for index, other in enumerate(second, start=1):
            previous, row[index] = (
                row[index],
                previous + 1 if entry == other else max(row[index], row[index - 1]),
            )
    return row[-1]
