"""Programs: the four ordered recipes of each family, their text, and their executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from larc.errors import LarcError

Family = Literal["arithmetic", "list"]
Value = int | tuple[int, ...]

FAMILIES: tuple[Family, ...] = ("arithmetic", "list")
CLIP_BOUNDS = (-16, 16)

# The word an operation is written with, where it is not its own name. The longest program is then
# 29 characters, so an answer fits 32 tokens with its end mark even when each byte is a token.
_WORDS = {"filter_min": "min"}


@dataclass(frozen=True)
class Operation:
    """One step of a program.

    Parameters
    ----------
    name
        For numbers ``mul``, ``add`` or ``clip``; for lists ``filter_min``, ``sort``, ``take`` or
        ``append``.
    arguments
        The parameters the step is given, in the order they are written.

    Examples
    --------
    >>> Operation("clip", (-16, 16))
    Operation(name='clip', arguments=(-16, 16))
    """

    name: str
    arguments: tuple[int, ...] = ()


Program = tuple[Operation, ...]


def arithmetic_programs(scale: int, offset: int) -> tuple[Program, ...]:
    """Return the four arithmetic candidates in their fixed order.

    Examples
    --------
    >>> for program in arithmetic_programs(scale=2, offset=3):
    ...     print(render(program))
    mul 2|add 3
    add 3|mul 2
    clip -16 16|mul 2|add 3
    mul 2|clip -16 16|add 3
    """
    mul = Operation("mul", (scale,))
    add = Operation("add", (offset,))
    clip = Operation("clip", CLIP_BOUNDS)
    return (mul, add), (add, mul), (clip, mul, add), (mul, clip, add)


def list_programs(minimum: int, limit: int, suffix: int) -> tuple[Program, ...]:
    """Return the four list candidates in their fixed order.

    Examples
    --------
    >>> for program in list_programs(minimum=-2, limit=5, suffix=7):
    ...     print(render(program))
    min -2|take 5
    take 5|min -2
    min -2|sort|take 5|append 7
    append 7|min -2|sort|take 5
    """
    keep = Operation("filter_min", (minimum,))
    sort = Operation("sort")
    take = Operation("take", (limit,))
    append = Operation("append", (suffix,))
    return (keep, take), (take, keep), (keep, sort, take, append), (append, keep, sort, take)


def render(program: Program) -> str:
    """Return the text of a program: its operations from first to last, with their arguments.

    Examples
    --------
    >>> render((Operation("filter_min", (-6,)), Operation("sort")))
    'min -6|sort'
    """
    return "|".join(
        " ".join([_WORDS.get(step.name, step.name), *map(str, step.arguments)]) for step in program
    )


def run(program: Program, value: Value) -> Value:
    """Apply the operations of a program to a value, from first to last.

    Examples
    --------
    >>> run((Operation("mul", (2,)), Operation("add", (3,))), 24)
    51
    >>> run((Operation("filter_min", (0,)), Operation("take", (2,))), (4, -1, 3, 5))
    (4, 3)
    >>> run((Operation("sort"),), 24)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: Operation(name='sort', arguments=()) does not apply to 24; give numbers
    (int) to arithmetic programs and tuples of numbers to list programs.
    """
    for step in program:
        value = _apply(step, value)
    return value


def losses(programs: Sequence[Program], target: int, inputs: Sequence[Value]) -> tuple[float, ...]:
    """Return, for each program, the fraction of inputs where it disagrees with the target program.

    Parameters
    ----------
    programs
        The candidates.
    target
        The index of the candidate whose outputs are right.
    inputs
        What the programs are run on.

    Examples
    --------
    >>> losses(arithmetic_programs(2, 3), target=0, inputs=[2, 24, -20, 5])
    (0.0, 1.0, 0.5, 0.5)
    """
    checked_target(target, len(programs))
    if not inputs:
        raise LarcError("an error fraction needs at least one input; give some inputs.")
    expected = [run(programs[target], value) for value in inputs]
    return tuple(
        sum(run(program, value) != right for value, right in zip(inputs, expected, strict=True))
        / len(inputs)
        for program in programs
    )


def checked_target(target: int, candidates: int) -> int:
    """Return the target index, refusing one that names no candidate.

    Examples
    --------
    >>> checked_target(4, candidates=4)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: target 4 names none of 4 candidates; give an index from 0 to 3.
    """
    # Python would read -1 as the last candidate, and a wrong target would go unnoticed.
    if not 0 <= target < candidates:
        raise LarcError(
            f"target {target} names none of {candidates} candidates; "
            f"give an index from 0 to {candidates - 1}."
        )
    return target


def _apply(step: Operation, value: Value) -> Value:
    match step.name, step.arguments, value:
        case "mul", (scale,), int(number):
            return number * scale
        case "add", (offset,), int(number):
            return number + offset
        case "clip", (lower, upper), int(number):
            return min(max(number, lower), upper)
        case "filter_min", (minimum,), tuple(entries):
            return tuple(entry for entry in entries if entry >= minimum)
        case "sort", (), tuple(entries):
            return tuple(sorted(entries))
        case "take", (limit,), tuple(entries):
            return entries[:limit]
        case "append", (suffix,), tuple(entries):
            return (*entries, suffix)
    raise LarcError(
        f"{step} does not apply to {value}; give numbers (int) to arithmetic programs "
        "and tuples of numbers to list programs."
    )
