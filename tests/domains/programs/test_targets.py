"""Hidden programs: drawn alike every time, none longer than it has to be, and splits apart."""

import random
from collections import Counter

import pytest

from larc.domains.programs import FAMILIES, run, split_groups
from larc.domains.programs.language import in_order_of_length, parse
from larc.domains.programs.synthesis import build_problems
from larc.domains.programs.targets import (
    KINDS,
    function_of,
    hidden_program,
    is_shortest,
    sequences,
)

PROBLEMS = build_problems("development", 8, 4, held_out=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_half_of_the_sequences_of_each_length_are_held_out(family):
    known = sequences(family)
    assert not set(known["seen"]) & set(known["held out"])
    for length in range(1, 5):
        counts = [sum(len(s.split()) == length for s in known[kind]) for kind in KINDS]
        assert 0 <= counts[0] - counts[1] <= 1


def test_no_program_of_one_split_is_the_function_of_one_of_another():
    """On many inputs that were not looked at when they were drawn."""
    functions = {}
    splits = ("development", "preflight", "training")
    for split in splits:
        for problem in build_problems(split, 16, 4, held_out=True):
            inputs = many_inputs(problem.family)
            function = (problem.family, tuple(run(problem.target, one) for one in inputs))
            assert functions.setdefault(function, problem.name) == problem.name
    assert len(functions) == (32 + 8 + 64) * 4


def test_what_is_trained_on_would_otherwise_be_searched_for():
    """Some of what a training group can draw is a hidden program of development."""
    taken = {function_of(one.target, one.family) for one in PROBLEMS}
    drawn = [
        function_of(hidden_program(group, sequence), group.family)
        for group in split_groups("training")
        for sequence in sequences(group.family)["seen"]
    ]
    assert taken & set(drawn)
    trained = build_problems("training", 16, 4, held_out=True)
    assert not taken & {function_of(problem.target, problem.family) for problem in trained}


def test_no_shorter_program_is_right():
    """By trying the programs of up to two operations on all inputs of the problem and others."""
    for problem in PROBLEMS:
        inputs = [*problem.support_inputs, *problem.query_inputs, *many_inputs(problem.family)]
        wanted = [run(problem.target, one) for one in inputs]
        for program in in_order_of_length(problem.family, longest=min(problem.length - 1, 2)):
            assert any(run(program, i) != w for i, w in zip(inputs, wanted, strict=True))
        assert any(wanted[n] != inputs[n] for n in range(len(inputs)))


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("take 6", "list"),
        ("min -3|take 6", "list"),
        ("min 5|take 6", "list"),
        ("add 3|add 3", "arithmetic"),
        ("mul 2|mul -3", "arithmetic"),
        ("clip -16 16|clip -16 16", "arithmetic"),
        ("sort|min 2|sort|append 1", "list"),
        ("mul 1|mul 2|add 3|mul 1", "arithmetic"),
    ],
)
def test_a_program_that_is_longer_than_it_has_to_be_is_known(text, family):
    assert not is_shortest(parse(text, family), family)


def test_lengths_are_mixed_within_groups_and_kinds():
    for groups, programs in ((8, 1), (8, 2), (4, 1)):
        chosen = build_problems("development", groups, programs, held_out=True)
        for group in {problem.group for problem in chosen}:
            assert len({p.length for p in chosen if p.group == group}) >= 2
        for held_out in (False, True):
            counts = Counter(p.length for p in chosen if p.held_out == held_out)
            assert len(counts) == 4
            assert max(counts.values()) - min(counts.values()) <= 2


def many_inputs(family):
    if family == "arithmetic":
        return range(-60, 61)
    stream = random.Random(5)
    return [tuple(stream.randint(-12, 12) for _ in range(6)) for _ in range(60)]
