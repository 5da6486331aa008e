import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.stream.mixing.bounds import worst_case
from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from larc.stream.mixing.sleep import SleepSettings
from tests.stream.mixing.forecasts import (
    Question,
    half_brier,
    names_of,
    play,
    skilled,
    spite,
    worst_outcome,
)

# Sums of some thousand losses, each right to about 1e-16, through logarithms and exponentials.
ROUNDING = 1e-9
PLAIN = ForecasterSettings(rates=(2.0,), shares=(0.0,), contexts=0)

SETTINGS = [
    PLAIN,
    ForecasterSettings(),
    ForecasterSettings(rates=(1.0,), shares=(0.0, 0.1), contexts=2),
    ForecasterSettings(rates=(2.0, 0.05), shares=(0.3,), contexts=0),
]


@st.composite
def streams(draw):
    """Sharp and dull predictors, some asleep, labels by chance or by malice, any delays."""
    predictors, outcomes = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.02, 0.3, 3.0]))
    longest = draw(st.sampled_from([0, 3, 40]))
    sleepy = draw(st.sampled_from([0.0, 0.4]))
    pace = draw(st.sampled_from([1, 4]))
    rules = draw(
        st.lists(st.sampled_from(["chance", "spite", "worst", "first"]), min_size=1, max_size=2)
    )
    questions = []
    for number in range(draw(st.integers(1, 30))):
        answering = chance.random(predictors) >= sleepy
        answering[chance.integers(predictors)] = True
        rule = rules[number % len(rules)]
        label = {"chance": int(chance.integers(outcomes)), "first": 0}.get(
            rule, spite if rule == "spite" else worst_outcome
        )
        delay = int(chance.integers(longest + 1))
        questions.append(
            Question(
                f"{number:03d}",
                number // pace,
                None if chance.random() < 0.05 else number // pace + delay,
                {
                    f"p{index}": chance.dirichlet(np.full(outcomes, spread))
                    for index in np.flatnonzero(answering)
                },
                label,
                f"c{chance.integers(3)}",
                float(chance.choice([1.0, 1.0, 0.2])),
            )
        )
    return [f"p{index}" for index in range(predictors)], questions


@settings(deadline=None, max_examples=150)
@given(streams(), st.sampled_from(SETTINGS))
def test_no_regret_exceeds_its_bound(stream, chosen):
    names, questions = stream
    forecaster = Forecaster(names, chosen)
    played = play(forecaster, questions)
    if not played.forecaster_losses:
        return
    regrets = played.regrets()
    assert forecaster.regrets() == pytest.approx(regrets, abs=ROUNDING)
    limit = forecaster.bound()
    assert limit.total == min(limit.start + limit.late, limit.worst)
    for how in (limit.start + limit.late, limit.worst):
        assert max(regrets.values()) <= how + ROUNDING
    if any(chosen.shares):
        for switches in (1, 3):
            limit = forecaster.bound(switches=switches)
            assert played.against_switches(switches) <= limit.total + ROUNDING
    if chosen.contexts:
        assert played.against_contexts() <= forecaster.bound(each_context=True).total + ROUNDING


@settings(deadline=None, max_examples=50)
@given(streams(), st.sampled_from(SETTINGS))
def test_without_delay_nothing_is_paid_for_delay(stream, chosen):
    names, questions = stream
    for number, question in enumerate(questions):
        question.asked = question.arrives = number
    forecaster = Forecaster(names, chosen)
    play(forecaster, questions)
    assert len(forecaster.chains) == 1
    assert forecaster.components.late_belief == pytest.approx(0, abs=ROUNDING)
    assert (forecaster.components.late <= ROUNDING).all()


@pytest.mark.parametrize("delay", [0, 30, 200])
def test_a_lasting_best_predictor_is_found(delay):
    questions = skilled(seed=1, count=800, delay=delay)
    forecaster = Forecaster(names_of(questions))
    played = play(forecaster, questions)
    regrets, limit = played.regrets(), forecaster.bound()
    assert max(regrets.values()) <= limit.total + ROUNDING
    # The others are far behind; the bound would mean nothing if it were as large as that.
    others = sorted(-regret for regret in regrets.values())[1:]
    assert limit.total < min(others) / 3
    best = max(regrets, key=regrets.get)
    assert played.forecasts["000799"][0].weights[best] > 0.95


@pytest.mark.parametrize("delay", [0, 30])
def test_a_best_predictor_that_changes_is_followed(delay):
    questions = skilled(seed=2, count=1000, delay=delay, period=250)
    names = names_of(questions)
    drifting, static = Forecaster(names), Forecaster(names, PLAIN)
    played, fixed = play(drifting, questions), play(static, questions)
    limit = drifting.bound(switches=3)
    assert 0 < played.against_switches(3) <= limit.total + ROUNDING
    # Without shares the old best one keeps its weight long after it has become worse.
    assert sum(played.forecaster_losses) < sum(fixed.forecaster_losses) - 10
    assert max(played.regrets().values()) <= drifting.bound().total + ROUNDING


def test_contexts_with_different_best_predictors_are_told_apart():
    questions = skilled(seed=3, count=900, delay=20, contexts=3)
    names = names_of(questions)
    apart, together = Forecaster(names), Forecaster(names, ForecasterSettings(contexts=0))
    played, common = play(apart, questions), play(together, questions)
    assert 0 < played.against_contexts() <= apart.bound(each_context=True).total + ROUNDING
    assert sum(played.forecaster_losses) < sum(common.forecaster_losses) - 10
    # And where the contexts do not differ they cost no more than is stated.
    same = skilled(seed=1, count=500, delay=20)
    for number, question in enumerate(same):
        question.context = f"c{number % 7}"
    forecaster = Forecaster(names)
    assert max(play(forecaster, same).regrets().values()) <= forecaster.bound().total + ROUNDING


@pytest.mark.parametrize(("block", "factor"), [(1, 2.0), (4, 3.0), (16, 4.0)])
def test_the_worst_case_is_not_far_from_what_can_happen(block, factor):
    """Half of those never wrong so far err in each block, whose labels arrive together."""
    bits = 8
    sure = np.eye(2).tolist()
    # One predictor for every sequence of outcomes, sure of each.
    names = [f"p{number:03d}" for number in range(2**bits)]
    questions = [
        Question(
            f"{bit}-{number:02d}",
            bit,
            bit,
            {name: sure[int(name[1:]) >> bit & 1] for name in names},
            1,
        )
        for bit in range(bits)
        for number in range(block)
    ]
    forecaster = Forecaster(names, PLAIN)
    regret = max(play(forecaster, questions).regrets().values())
    limit = forecaster.bound()
    assert limit.worst == worst_case(len(names), block)
    assert limit.worst / factor < regret <= min(limit.worst, limit.total) + ROUNDING


def test_late_labels_ruin_plain_weights_but_not_the_net():
    """Blocks of labels that arrive together speak for each of two predictors in turn."""
    block, blocks = 8, 100
    questions = [
        Question(
            f"{number:04d}",
            number // block,
            number // block,
            {"zero": [1.0, 0.0], "one": [0.0, 1.0]},
            number // block % 2,
        )
        for number in range(block * blocks)
    ]
    sums, plain = np.zeros(2), 0.0
    for number in range(blocks):
        weights = np.exp(sums.min() - sums)
        plain += block * half_brier(weights / weights.sum(), number % 2)
        sums[1 - number % 2] += block
    assert plain - sums.min() > 90  # and it grows by as much with every further hundred blocks
    forecaster = Forecaster(["zero", "one"], PLAIN)
    played = play(forecaster, questions)
    limit = forecaster.bound()
    assert max(played.regrets().values()) <= worst_case(2, block) + ROUNDING
    assert limit.worst == worst_case(2, block) == limit.total < 20
    # The account of what it went like knows that late labels misled the weights.
    assert limit.late > 50


@settings(deadline=None, max_examples=40)
@given(streams(), st.sampled_from(SETTINGS))
def test_predictors_put_to_sleep_leave_the_bound_as_it_is(stream, chosen):
    names, questions = stream
    for question in questions:
        outcomes = len(next(iter(question.predictions.values())))
        for name in names:
            question.predictions.setdefault(name, [1 / outcomes] * outcomes)
    sleepy = ForecasterSettings(
        chosen.rates,
        chosen.shares,
        chosen.contexts,
        SleepSettings(floor=0.15, term=2, first=2, longest=8),
    )
    forecaster = Forecaster(names, sleepy)
    played = play(forecaster, questions, obey=True)
    if played.forecaster_losses:
        assert max(played.regrets().values()) <= forecaster.bound().total + ROUNDING


def test_bounds_that_were_not_prepared_for_are_refused():
    forecaster = Forecaster(["a", "b"], PLAIN)
    with pytest.raises(LarcError, match="needs one above 0"):
        forecaster.bound(switches=1)
    with pytest.raises(LarcError, match="same in all contexts"):
        forecaster.bound(each_context=True)
    with pytest.raises(LarcError, match="0 or more"):
        forecaster.bound(switches=-1)
    assert forecaster.bound().total == 0
    forecaster.predict("q", {"a": [1, 0], "b": [0, 1]})
    # Of the net and of the predictors, a bit each.
    assert forecaster.bound().total == pytest.approx(math.log(2))
