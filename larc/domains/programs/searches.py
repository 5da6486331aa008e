"""Searches that need no model: enumeration in order of length, and evolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from larc.domains.programs.language import LONGEST, in_order_of_length, operations
from larc.domains.programs.recipes import Family, Operation, Program, render
from larc.domains.programs.streams import EVOLUTION, integer, words

Judge = Callable[[list[str]], list[float]]


@dataclass(frozen=True)
class Evolution:
    """How evolution searches: by default as was best on the training problems of synthesis.

    Attributes
    ----------
    population
        How many of the best programs are parents.
    first, length
        How many programs are drawn at random before there are parents, and the most operations they
        have.
    crossing
        How many children in a hundred are crossed from two parents before they change.
    """

    population: int = 3
    first: int = 8
    length: int = 1
    crossing: int = 25


def enumerate_programs(family: Family, judge: Judge, calls: int) -> list[tuple[str, float]]:
    """Return programs in order of length with their losses, until one is right.

    Examples
    --------
    >>> judged = enumerate_programs("list", lambda texts: [float(t != "sort") for t in texts], 64)
    >>> len(judged), judged[-1]
    (14, ('sort', 0.0))
    """
    judged: list[tuple[str, float]] = []
    for program in in_order_of_length(family):
        if len(judged) == calls or (judged and judged[-1][1] == 0):
            break
        text = render(program)
        judged.append((text, judge([text])[0]))
    return judged


def evolve(
    family: Family, judge: Judge, calls: int, seed: int, how: Evolution | None = None
) -> list[tuple[str, float]]:
    """Return the programs that evolution judged, each once, with their losses, until one is right.

    The best programs so far are parents; a child is one of them, sometimes crossed with another,
    with an operation changed, added, taken away or exchanged. A parameter changes by little as
    often as to anything.

    Examples
    --------
    >>> judge = lambda texts: [abs(len(text) - 9) / 9 for text in texts]
    >>> judged = evolve("arithmetic", judge, calls=64, seed=1)
    >>> len({text for text, _ in judged}) == len(judged) <= 64
    True
    """
    how = how or Evolution()
    stream = words(EVOLUTION, seed)
    judged: dict[str, tuple[Program, float]] = {}
    while len(judged) < calls and not any(loss == 0 for _, loss in judged.values()):
        if len(judged) < how.first:
            length = integer(1, how.length, stream)
            child = tuple(_any(family, stream) for _ in range(length))
        else:
            best = sorted(judged.values(), key=lambda one: one[1])[: how.population]
            child = best[integer(0, len(best) - 1, stream)][0]
            if integer(1, 100, stream) <= how.crossing:
                child = _crossed(child, best[integer(0, len(best) - 1, stream)][0], stream)
            child = _changed(child, family, stream)
        text = render(child)
        if text not in judged:
            judged[text] = (child, judge([text])[0])
    return [(text, loss) for text, (_, loss) in judged.items()]


def _any(family: Family, stream: Iterator[int]) -> Operation:
    # Names first: an operation with many parameters is not more probable for that.
    names = list(dict.fromkeys(operation.name for operation in operations(family)))
    name = names[integer(0, len(names) - 1, stream)]
    known = [operation for operation in operations(family) if operation.name == name]
    return known[integer(0, len(known) - 1, stream)]


def _crossed(first: Program, second: Program, stream: Iterator[int]) -> Program:
    child = first[: integer(0, len(first), stream)] + second[integer(0, len(second), stream) :]
    return child[:LONGEST] or first


def _changed(program: Program, family: Family, stream: Iterator[int]) -> Program:
    at = integer(0, len(program) - 1, stream)
    way = integer(0, 4, stream)
    before, after = program[:at], program[at + 1 :]
    if way == 0 and len(program) < LONGEST:
        return (*before, _any(family, stream), program[at], *after)
    if way == 1 and len(program) > 1:
        return (*before, *after)
    if way == 2 and len(program) > 1:
        other = integer(0, len(program) - 1, stream)
        swapped = list(program)
        swapped[at], swapped[other] = swapped[other], swapped[at]
        return tuple(swapped)
    if way == 3:
        return (*before, _any(family, stream), *after)
    known = [operation for operation in operations(family) if operation.name == program[at].name]
    step = integer(1, 3, stream) * (1 if integer(0, 1, stream) else -1)
    index = min(max(known.index(program[at]) + step, 0), len(known) - 1)
    return (*before, known[index], *after)
