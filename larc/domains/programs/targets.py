"""Hidden programs of synthesis: drawn at random, and none longer than it has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice, product
from typing import Literal, get_args

from larc.domains.programs.episodes import NUMBERS, distinct_inputs
from larc.domains.programs.groups import Group, Split, split_groups
from larc.domains.programs.language import LONGEST, operations
from larc.domains.programs.recipes import FAMILIES, Family, Operation, Program, Value, run
from larc.domains.programs.streams import PROBES, SEQUENCES, TARGETS, integer, shuffled, words
from larc.errors import LarcError

#: Whether starts are trained on an order of operations.
Kind = Literal["seen", "held out"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: A family, and what a program of it makes of a few fixed inputs.
Function = tuple[Family, tuple[Value, ...]]
#: The most hidden programs of a kind that a group has.
MOST = 4
# Two programs are one function if these many inputs do not tell them apart.
_PROBES = 16
# A split draws after those that what it draws must differ from.
_ORDER: tuple[Split, ...] = ("development", "preflight", "training")


@cache
def sequences(family: Family) -> Mapping[Kind, tuple[str, ...]]:
    """Return the orders of operations by kind: of each length, half are held out.

    Each has an operation that takes its parameter from a group.

    Examples
    --------
    >>> {kind: len(known) for kind, known in sequences("arithmetic").items()}
    {'seen': 58, 'held out': 58}
    >>> sequences("arithmetic")["seen"][:3]
    ('add', 'mul mul', 'clip add')
    """
    names = list(dict.fromkeys(operation.name for operation in operations(family)))
    dealt: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
    for length in range(1, LONGEST + 1):
        known = [
            " ".join(chosen)
            for chosen in product(names, repeat=length)
            if not {"clip", "sort"}.issuperset(chosen)
        ]
        known = shuffled(known, words(SEQUENCES, FAMILIES.index(family), length))
        half = (len(known) + 1) // 2
        dealt["seen"] += known[:half]
        dealt["held out"] += known[half:]
    return {kind: tuple(known) for kind, known in dealt.items()}


@cache
def hidden_program(group: Group, sequence: str) -> Program:
    """Return the program of a group and an order of operations, the same one every time.

    The first operation of a name has the group's parameter, further ones have any.

    Examples
    --------
    >>> from larc.domains.programs import render
    >>> render(hidden_program(Group("arithmetic", (2, 3)), "mul add"))
    'mul 2|add 3'
    """
    known = [one for part in sequences(group.family).values() for one in part]
    if sequence not in known:
        raise LarcError(
            f"there is no sequence {sequence!r}; give one of sequences({group.family!r})."
        )
    stream = words(TARGETS, FAMILIES.index(group.family), *group.pair, known.index(sequence))
    program: list[Operation] = []
    for name in sequence.split():
        possible = [one for one in operations(group.family) if one.name == name]
        drawn = possible[integer(0, len(possible) - 1, stream)]
        first = all(one.name != name for one in program)
        program.append(_of_group(drawn, group) if first else drawn)
    return tuple(program)


def function_of(program: Program, family: Family) -> tuple[Value, ...]:
    """Return what a program makes of a few fixed inputs, by which functions are told apart.

    Examples
    --------
    >>> from larc.domains.programs.language import parse
    >>> one, same = (parse(text, "arithmetic") for text in ("add 2|add 3", "add 5"))
    >>> function_of(one, "arithmetic") == function_of(same, "arithmetic")
    True
    """
    return tuple(run(program, value) for value in _probes(family))


def is_shortest(program: Program, family: Family) -> bool:
    """Whether no shorter program is the same function.

    Examples
    --------
    >>> from larc.domains.programs.language import parse
    >>> is_shortest(parse("sort|take 6", "list"), "list")
    False
    >>> is_shortest(parse("sort|take 5", "list"), "list")
    True
    """
    shorter = _functions(family)[: len(program)]
    return not any(function_of(program, family) in known for known in shorter)


@cache
def hidden_programs(split: Split) -> Mapping[Group, Mapping[Kind, tuple[str, ...]]]:
    """Return the orders of operations of the hidden programs of each group of a split, by kind.

    They are drawn at random, lengths in turn, so that each kind of each group has different
    lengths. No hidden program is the function of a shorter one, or of another hidden one of its
    split; and none of the groups that starts are trained on is the function of one that is
    searched for.

    Examples
    --------
    >>> kinds = hidden_programs("development")[split_groups("development")[0]]
    >>> kinds["held out"][:2]
    ('add mul clip', 'add mul add clip')
    """
    if split not in _ORDER:
        raise LarcError(f"the {split} groups have no hidden programs; use {', '.join(_ORDER)}.")
    taken: set[Function] = {
        (group.family, function_of(hidden_program(group, sequence), group.family))
        for earlier in _ORDER[: _ORDER.index(split)]
        for group, kinds in hidden_programs(earlier).items()
        for chosen in kinds.values()
        for sequence in chosen
    }
    drawn: dict[Group, dict[Kind, tuple[str, ...]]] = {}
    for group in split_groups(split):
        number = sum(other.family == group.family for other in drawn)
        drawn[group] = {}
        for kind in KINDS:
            stream = words(
                TARGETS, FAMILIES.index(group.family), *group.pair, -1, KINDS.index(kind)
            )
            order = shuffled(sequences(group.family)[kind], stream)
            chosen: list[str] = []
            for turn in range(MOST):
                wanted = (number + turn + 2 * KINDS.index(kind)) % LONGEST
                chosen.append(
                    _draw(group, wanted + 1, [s for s in order if s not in chosen], taken)
                )
            drawn[group][kind] = tuple(chosen)
    return drawn


def _draw(group: Group, length: int, order: Sequence[str], taken: set[Function]) -> str:
    """Return the first sequence that is new and shortest: of a length, or else of the next."""
    for sequence in sorted(order, key=lambda one: (len(one.split()) - length) % LONGEST):
        program = hidden_program(group, sequence)
        function = (group.family, function_of(program, group.family))
        if function not in taken and is_shortest(program, group.family):
            taken.add(function)
            return sequence
    raise LarcError(f"{group.name} has no hidden program left; use another group.")


def _of_group(operation: Operation, group: Group) -> Operation:
    first, second = group.pair
    parameter = {"mul": first, "filter_min": first, "add": second, "take": second}
    parameter |= {} if group.suffix is None else {"append": group.suffix}
    if operation.name not in parameter:
        return operation
    return Operation(operation.name, (parameter[operation.name],))


@cache
def _probes(family: Family) -> tuple[Value, ...]:
    if family == "arithmetic":
        return tuple(NUMBERS)[:: len(NUMBERS) // _PROBES]
    return tuple(islice(distinct_inputs(family, words(PROBES)), _PROBES))


@cache
def _functions(family: Family) -> tuple[frozenset[tuple[Value, ...]], ...]:
    """Return the functions of programs of each length below the longest."""
    reached: list[frozenset[tuple[Value, ...]]] = [frozenset([_probes(family)])]
    for _ in range(1, LONGEST):
        reached.append(
            frozenset(
                tuple(run((operation,), value) for value in values)
                for values in reached[-1]
                for operation in operations(family)
            )
        )
    return tuple(reached)
