import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc.domains.programs import (
    CLIP_BOUNDS,
    Operation,
    arithmetic_programs,
    list_programs,
    losses,
    render,
    run,
)
from larc.errors import LarcError

numbers = st.integers(-48, 48)
lists = st.lists(st.integers(-12, 12), min_size=6, max_size=6).map(tuple)
arithmetic = st.builds(arithmetic_programs, st.integers(-7, 7), st.integers(-12, 12))
listing = st.builds(
    list_programs, st.integers(-6, 6), st.integers(1, 6), suffix=st.integers(-12, 12)
)
recipe = st.integers(0, 3)


def test_the_worked_example_of_the_paper():
    programs = arithmetic_programs(scale=2, offset=3)
    inputs = [2, 24, -20, 5]
    assert [run(programs[0], value) for value in inputs] == [7, 51, -37, 13]
    assert losses(programs, target=0, inputs=inputs) == (0, 1, 1 / 2, 1 / 2)
    assert run(programs[0], 3) == 9


def test_recipes_apply_their_operations_in_the_papers_order():
    names = [[step.name for step in program] for program in arithmetic_programs(2, 3)]
    assert names == [["mul", "add"], ["add", "mul"], ["clip", "mul", "add"], ["mul", "clip", "add"]]
    names = [[step.name for step in program] for program in list_programs(0, 2, 5)]
    assert names == [
        ["filter_min", "take"],
        ["take", "filter_min"],
        ["filter_min", "sort", "take", "append"],
        ["append", "filter_min", "sort", "take"],
    ]


@given(st.integers(-7, 7), st.integers(-12, 12), numbers)
def test_arithmetic_recipes_are_these_formulas(scale, offset, x):
    def clip(value):
        return min(max(value, -16), 16)

    assert [run(program, x) for program in arithmetic_programs(scale, offset)] == [
        scale * x + offset,
        scale * (x + offset),
        scale * clip(x) + offset,
        clip(scale * x) + offset,
    ]


def test_list_recipes_on_one_list():
    outputs = [
        run(program, (5, -3, 0, 9, -1, 2))
        for program in list_programs(minimum=-1, limit=3, suffix=1)
    ]
    assert outputs == [(5, 0, 9), (5, 0), (-1, 0, 2, 1), (-1, 0, 1)]


def test_filter_keeps_entries_equal_to_the_minimum():
    assert run((Operation("filter_min", (0,)),), (0, -1, 1, 0)) == (0, 1, 0)


def test_an_appended_entry_below_the_minimum_is_dropped_by_a_later_filter():
    assert run(list_programs(minimum=0, limit=6, suffix=-5)[3], (3, 1)) == (1, 3)


@given(numbers.map(lambda value: value * 7))
def test_clip_stays_within_its_bounds_and_leaves_what_is_inside(value):
    clipped = run((Operation("clip", CLIP_BOUNDS),), value)
    assert -16 <= clipped <= 16
    assert (clipped == value) == (-16 <= value <= 16)


@given(lists, st.integers(-6, 6), st.integers(1, 6))
def test_take_after_filter_is_a_beginning_of_the_filtered_list(entries, minimum, limit):
    keep, take = Operation("filter_min", (minimum,)), Operation("take", (limit,))
    kept = run((keep,), entries)
    taken = run((keep, take), entries)
    assert all(entry >= minimum for entry in taken)
    assert len(taken) == min(limit, len(kept))
    assert kept[: len(taken)] == taken


@given(lists, st.integers(-6, 6), st.integers(1, 6))
def test_take_before_filter_gives_a_beginning_of_take_after_filter(entries, minimum, limit):
    after, before, *_ = (run(program, entries) for program in list_programs(minimum, limit, 0))
    assert after[: len(before)] == before


@given(lists, st.integers(-6, 6))
def test_a_limit_of_the_whole_list_makes_the_first_two_list_recipes_agree(entries, minimum):
    one, other, *_ = list_programs(minimum, 6, 0)
    assert run(one, entries) == run(other, entries)


@given(st.one_of(arithmetic.map(lambda p: (p, 5)), st.tuples(listing, lists)), recipe)
def test_running_is_the_composition_of_its_steps(case, index):
    programs, value = case
    expected = value
    for step in programs[index]:
        expected = run((step,), expected)
    assert run(programs[index], value) == expected


@given(lists, listing, recipe)
def test_list_operations_leave_their_input_as_it_was(entries, programs, index):
    before = list(entries)
    run(programs[index], entries)
    assert list(entries) == before


@given(
    st.one_of(
        st.tuples(arithmetic, st.lists(numbers, min_size=1)),
        st.tuples(listing, st.lists(lists, min_size=1, max_size=8)),
    ),
    recipe,
)
def test_losses_are_fractions_and_the_target_has_none(case, target):
    programs, inputs = case
    observed = losses(programs, target, inputs)
    assert observed[target] == 0
    for loss in observed:
        assert 0 <= loss <= 1
        assert loss * len(inputs) == pytest.approx(round(loss * len(inputs)))


@given(listing, st.lists(lists, min_size=1, max_size=8), recipe, recipe)
def test_disagreement_is_symmetric(programs, inputs, one, other):
    assert losses(programs, one, inputs)[other] == losses(programs, other, inputs)[one]


def test_programs_render_as_short_text():
    assert [render(program) for program in list_programs(-6, 6, -12)] == [
        "min -6|take 6",
        "take 6|min -6",
        "min -6|sort|take 6|append -12",
        "append -12|min -6|sort|take 6",
    ]


@pytest.mark.parametrize("target", [-1, 4])
def test_a_target_that_is_no_candidate_is_refused(target):
    with pytest.raises(LarcError, match="give an index from 0 to 3"):
        losses(arithmetic_programs(2, 3), target, [1])


def test_losses_without_inputs_are_refused():
    with pytest.raises(LarcError, match="at least one input"):
        losses(arithmetic_programs(2, 3), 0, [])


@pytest.mark.parametrize(
    ("step", "value"),
    [
        (Operation("mul", (2,)), (1, 2)),
        (Operation("sort"), 3),
        (Operation("sort"), [2, 1]),
        (Operation("halve"), 3),
        (Operation("clip", (3,)), 3),
    ],
)
def test_an_operation_that_does_not_fit_its_value_is_refused(step, value):
    with pytest.raises(LarcError, match="does not apply"):
        run((step,), value)
