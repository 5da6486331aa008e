"""The open language, its problems, and searches without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc.domains.programs import FAMILIES, Group, render, run, split_groups
from larc.domains.programs.language import (
    count_programs,
    distance,
    graded_loss,
    in_order_of_length,
    operations,
    parse,
    wrong_fraction,
)
from larc.domains.programs.searches import Evolution, enumerate_programs, evolve
from larc.domains.programs.synthesis import build_problem, build_problems, synthesis_prompt
from larc.domains.programs.targets import (
    sequences,
)
from larc.errors import LarcError

PROBLEMS = build_problems("development", 8, 4, held_out=True)
NAMES = [problem.name for problem in PROBLEMS]


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_are_read_as_they_are_written(family):
    programs = list(in_order_of_length(family, longest=2))
    assert len(programs) == count_programs(family, longest=2)
    for program in programs:
        assert parse(render(program), family) == program
    lengths = [len(program) for program in programs]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    "text",
    ["", "mul", "mul 8", "mul  2", "mul 2|", "add 13", "__import__('os')", "mul 2\n", "sort"],
)
def test_what_is_no_program_is_refused(text):
    with pytest.raises(LarcError, match="no operation"):
        parse(text, "arithmetic")


def test_a_program_is_short():
    with pytest.raises(LarcError, match="4 operations at most"):
        parse("|".join(["add 1"] * 5), "arithmetic")


numbers = st.integers(-1000, 1000)
lists = st.lists(st.integers(-3, 3), max_size=6).map(tuple)


@given(st.one_of(st.tuples(numbers, numbers), st.tuples(lists, lists)))
def test_a_distance_is_zero_for_what_is_equal_alone(pair):
    one, other = pair
    assert distance(one, other) == distance(other, one)
    assert 0 <= distance(one, other) <= 1
    assert (distance(one, other) == 0) == (one == other)


def test_numbers_and_lists_are_not_compared():
    with pytest.raises(LarcError, match="both"):
        distance(1, (1,))


def test_problems_are_of_held_out_groups_and_sequences():
    assert len(set(NAMES)) == len(NAMES) == 2 * 8 * 8
    training = build_problems("training", 16, 4, held_out=False)
    assert not {problem.group for problem in training} & {problem.group for problem in PROBLEMS}
    assert not any(problem.held_out for problem in training)
    for problem in (*training, *PROBLEMS):
        known = sequences(problem.family)["held out" if problem.held_out else "seen"]
        assert problem.sequence in known
        assert not set(problem.support_inputs) & set(problem.query_inputs)
        assert (len(problem.support_inputs), len(problem.query_inputs)) == (8, 20)
        assert set(problem.target) <= set(operations(problem.family))
        assert problem.judge()([problem.answer]) == [0.0]
        assert problem.solved_by(problem.answer)
        assert f"\n{problem.answer}\n" not in problem.prompt


def test_more_examples_leave_the_query_as_it_is():
    group = split_groups("development")[0]
    few, many = (build_problem(group, "mul add", examples=count) for count in (2, 8))
    assert few.query_inputs == many.query_inputs
    assert few.support_inputs == many.support_inputs[:2]


def test_losses_are_those_of_running_the_program():
    problem = build_problem(Group("list", (0, 2)), "filter_min take", loss="errors")
    texts = ["min 0|take 2", "take 2", "sort"]
    programs = [parse(text, "list") for text in texts]
    expected = [
        sum(run(p, v) != run(problem.target, v) for v in problem.support_inputs) / 8
        for p in programs
    ]
    assert problem.judge()(texts) == expected
    graded = build_problem(Group("list", (0, 2)), "filter_min take")
    assert graded.judge()(texts) == [
        graded_loss(p, graded.target, graded.support_inputs) for p in programs
    ]
    assert wrong_fraction(programs[0], problem.target, problem.query_inputs) == 0


def test_losses_are_in_the_prompt_of_the_text_baseline_alone():
    problem = PROBLEMS[0]
    assert synthesis_prompt(problem) == problem.prompt
    assert "error" not in problem.prompt
    told = problem.prompt_with([("add 1", 0.5)])
    assert "add 1: 0.5\n" in told
    assert told.endswith("Program:\n")
    assert problem.prompt.endswith("Program:\n")


def test_there_are_no_other_problems():
    with pytest.raises(LarcError, match="no sequence"):
        build_problem(split_groups("development")[0], "sort mul")
    with pytest.raises(LarcError, match="reserved"):
        build_problems("reserved", 1, 1, held_out=False)
    with pytest.raises(LarcError, match="1 to 4 programs"):
        build_problems("development", 1, 5, held_out=False)


def test_searches_judge_each_program_once_and_stop_when_one_is_right():
    solved = {"evolution": 0, "enumeration": 0}
    for problem in PROBLEMS[::4]:
        for name, judged in (
            ("evolution", evolve(problem.family, problem.judge(), 64, seed=1)),
            ("enumeration", enumerate_programs(problem.family, problem.judge(), 64)),
        ):
            texts, losses = zip(*judged, strict=True)
            assert len(set(texts)) == len(texts) <= 64
            assert all(loss > 0 for loss in losses[:-1])
            assert list(losses) == problem.judge()(texts)
            assert losses[-1] == 0 or len(texts) == 64
            solved[name] += losses[-1] == 0
    assert min(solved.values()) >= len(PROBLEMS[::4]) // 8


def test_evolution_is_decided_by_its_seed():
    problem = PROBLEMS[1]
    one, again, other = (evolve(problem.family, problem.judge(), 40, seed) for seed in (1, 1, 2))
    assert one == again != other


def test_evolution_searches_as_was_best_on_training_problems():
    """Against how it searched before it was chosen; on problems of another split, with one seed."""
    shipped, earlier = Evolution(), Evolution(population=8, first=16, length=4)
    problems = build_problems("training", 16, 4, held_out=False)
    solved = [
        sum(
            evolve(problem.family, problem.judge(), 64, number, how)[-1][1] == 0
            for number, problem in enumerate(problems)
        )
        for how in (shipped, earlier)
    ]
    assert solved[0] > 1.2 * solved[1]


def test_evolution_finds_more_than_chance():
    """Its parents matter: against programs that are all drawn at random."""
    chance = Evolution(first=200, length=4)
    found = [0, 0]
    for number, problem in enumerate(PROBLEMS):
        for way, how in enumerate((Evolution(), chance)):
            judged = evolve(problem.family, problem.judge(), 200, number, how)
            found[way] += judged[-1][1] == 0
    assert found[0] > 1.2 * found[1]
