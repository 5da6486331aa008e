import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.evaluation.selection import (
    Evidence,
    is_eligible,
    is_material,
    select_objective,
    worst_seed_gain,
)

# The paper's G and D per seed and the lower bounds of their intervals. It prints no cost per
# objective; none is needed here, since nothing ties.
STATIC = Evidence(
    "static", [0.3143, 0.2016, 0.2235], [0.3776, 0.2678, 0.2055], 0.1939, 0.2185, cost=1
)
ADAPTED = Evidence(
    "adapted", [0.4052, 0.1864, 0.5078], [0.4021, 0.1997, 0.4713], 0.3165, 0.3033, cost=1
)


def test_paper_selection():
    assert is_eligible(STATIC)
    assert is_eligible(ADAPTED)
    assert worst_seed_gain(STATIC) == 0.2016
    assert worst_seed_gain(ADAPTED) == 0.1864
    assert select_objective([ADAPTED, STATIC]).chosen == "static"
    assert select_objective([STATIC, ADAPTED]).reason == (
        "static has the best worst seed: 0.2016 against 0.1864 for adapted."
    )


def test_paper_objective_contrast_is_material():
    assert is_material(0.0469, 0.0119)


def test_the_bounds_of_materiality():
    assert is_material(0.03, 1e-9)
    assert not is_material(math.nextafter(0.03, 0), 0.02)
    assert not is_material(0.5, 0.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"retention": [0.01, 0.02, 0.03]}, "for static, G is 0.0200 with lower bound 0.1939"),
        ({"retention_lower": 0.0}, "for static, G is 0.2465 with lower bound 0.0000"),
        ({"retention": [0.5, 0.5, 0.0]}, "for static, G is 0.0000 for one seed"),
        ({"binding": [0.01, 0.02, 0.03]}, "for static, D is 0.0200 with lower bound 0.2185"),
        ({"binding_lower": -0.1}, "for static, D is 0.2836 with lower bound -0.1000"),
        ({"binding": [0.5, 0.5, -0.1]}, "for static, D is -0.1000 for one seed"),
    ],
)
def test_each_condition_of_eligibility(change, says):
    evidence = replace(STATIC, **change)
    assert not is_eligible(evidence)
    nothing = select_objective([evidence])
    assert nothing.chosen is None
    assert nothing.reason.startswith("no objective is eligible: ")
    assert says in nothing.reason
    # An ineligible objective leaves the other to be chosen, whatever its worst seed.
    chosen = select_objective([evidence, ADAPTED])
    assert chosen.chosen == "adapted"
    assert chosen.reason == "adapted is the only eligible objective, with worst seed 0.1864."


def _flat(name, gain, cost):
    return Evidence(name, [gain] * 3, [gain] * 3, 0.01, 0.01, cost)


def test_cost_breaks_a_tie():
    result = select_objective([_flat("static", 0.2, cost=9), _flat("adapted", 0.2 - 5e-7, cost=8)])
    assert result.chosen == "adapted"
    assert result.reason == "static and adapted tie at worst seed 0.2000; adapted costs least."


def test_cost_does_not_matter_past_the_tie():
    result = select_objective([_flat("static", 0.2, cost=9), _flat("adapted", 0.2 - 5e-6, cost=8)])
    assert result.chosen == "static"


def test_static_comes_first_at_equal_cost():
    result = select_objective([_flat("adapted", 0.2, cost=9), _flat("static", 0.2, cost=9)])
    assert result.chosen == "static"
    assert result.reason.endswith("tie at worst seed 0.2000 and in cost; static is the simplest.")


def test_without_static_the_first_given_wins():
    result = select_objective([_flat("exact", 0.2, cost=9), _flat("adapted", 0.2, cost=9)])
    assert result.chosen == "exact"
    assert result.reason.endswith("exact was given first.")


def test_ties_are_counted_from_the_best():
    # Each is within a tie of the next, but the last is not within a tie of the first.
    chain = [_flat(name, 0.2 - step * 7e-7, cost=9 - step) for step, name in enumerate("abc")]
    assert select_objective(chain).chosen == "b"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"retention": []}, "one of each per training seed"),
        ({"retention": [0.1]}, "one of each per training seed"),
        ({"binding": [0.1, 0.1, math.nan]}, "not finite"),
        ({"cost": math.inf}, "not finite"),
    ],
)
def test_refused_evidence(change, says):
    with pytest.raises(LarcError, match=says):
        replace(STATIC, **change)


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        ([], "at least one"),
        ([STATIC, STATIC], "each of them once"),
        ([STATIC, replace(ADAPTED, retention=[0.1], binding=[0.1])], "numbers of seeds"),
    ],
)
def test_refused_selections(evidence, says):
    with pytest.raises(LarcError, match=says):
        select_objective(evidence)


def test_refused_gain():
    with pytest.raises(LarcError, match="not finite"):
        is_material(math.nan, 0.1)


GAINS = st.lists(st.floats(-0.1, 0.5), min_size=2, max_size=2)


@given(st.lists(st.tuples(GAINS, GAINS, st.floats(-0.1, 0.1)), min_size=1, max_size=4))
@settings(deadline=None)
def test_the_choice_is_eligible_and_no_worse_than_any_eligible(rows):
    evidence = [
        Evidence(str(index), retention, binding, lower, lower, cost=index)
        for index, (retention, binding, lower) in enumerate(rows)
    ]
    eligible = {item.objective: worst_seed_gain(item) for item in evidence if is_eligible(item)}
    chosen = select_objective(evidence).chosen
    if chosen is None:
        assert not eligible
    else:
        assert eligible[chosen] >= max(eligible.values()) - 1e-6
        # Costs differ, so the order of the objectives does not matter.
        assert select_objective(evidence[::-1]).chosen == chosen
