import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.stream.mixing.brier_game import RATE, outcome_losses, substitute
from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from larc.stream.mixing.sleep import SleepSettings
from tests.stream.mixing.forecasts import events, half_brier, names_of, play, skilled

EVERYTHING = ForecasterSettings(
    contexts=3, sleep=SleepSettings(floor=0.05, term=8, first=8, longest=64)
)
A, B = [0.9, 0.1], [0.2, 0.8]


def asked_now(forecaster, name="now", context=""):
    """Return what a copy of the forecaster would say, so that nothing is left behind."""
    copy = Forecaster.from_state(forecaster.state())
    return copy.predict(name, {"a": A, "b": B}, context)


def test_one_label_moves_weights_by_bayes_rule():
    forecaster = Forecaster(["a", "b"], ForecasterSettings(rates=(2.0,), shares=(0.0,), contexts=0))
    first = forecaster.predict("q", {"a": A, "b": B})
    assert first.weights == {"a": 0.5, "b": 0.5}
    allowed = -np.log(np.mean(np.exp(-RATE * outcome_losses(np.array([A, B]))), axis=0)) / RATE
    assert list(first.probabilities) == pytest.approx(substitute(allowed.tolist()), abs=1e-15)
    forecaster.learn([("q", 1)])
    odds = np.exp(-RATE * (half_brier(A, 1) - half_brier(B, 1)))
    # The net of the chain gives three quarters to the mixture and shares the rest: all agree here.
    weights = asked_now(forecaster).weights
    assert weights["a"] / weights["b"] == pytest.approx(odds, rel=1e-12)


def test_a_share_flows_back():
    forecaster = Forecaster(
        ["a", "b"], ForecasterSettings(rates=(2.0,), shares=(0.25,), contexts=0)
    )
    for number in range(50):
        forecaster.predict(str(number), {"a": [1, 0], "b": [0, 1]})
        forecaster.learn([(str(number), 0)])
    assert forecaster.components.common[0, 1] == pytest.approx(0.125, rel=0.3)


def test_a_predictor_asleep_keeps_its_weight():
    forecaster = Forecaster(
        ["a", "b", "c"], ForecasterSettings(rates=(2.0,), shares=(0.0,), contexts=0)
    )
    for number in range(20):
        answers = forecaster.predict(str(number), {"a": A, "b": B})
        assert answers.weights.keys() == {"a", "b"}
        assert sum(answers.weights.values()) == pytest.approx(1)
        forecaster.learn([(str(number), 1)])
    everybody = forecaster.predict("all", {"a": A, "b": B, "c": B}).weights
    assert everybody["c"] == pytest.approx(1 / 3, abs=1e-12)
    assert everybody["b"] > 0.6


def test_a_context_begins_with_what_is_known_in_general():
    forecaster = Forecaster(["a", "b"])
    for number in range(30):
        forecaster.predict(str(number), {"a": A, "b": B}, "old")
        forecaster.learn([(str(number), 1)])
    old, new = (asked_now(forecaster, context=context).weights["b"] for context in ("old", "new"))
    assert 0.6 < new < old


def test_contexts_are_bounded_and_the_oldest_is_given_up():
    forecaster = Forecaster(["a", "b"], ForecasterSettings(contexts=2))
    for name, context in enumerate(["x", "y", "x", "z"]):
        forecaster.predict(str(name), {"a": A, "b": B}, context)
        forecaster.learn([(str(name), 0)])
    assert list(forecaster.components.own) == ["x", "z"]
    assert forecaster.components.starts == 3
    assert forecaster.components.counts == {"x": 2, "z": 1}


def test_there_are_as_many_chains_as_were_ever_outstanding_together():
    forecaster = Forecaster(["a", "b"])
    for name in "pqr":
        forecaster.predict(name, {"a": A, "b": B})
    forecaster.learn([("q", 0)])
    forecaster.predict("s", {"a": A, "b": B})
    assert len(forecaster.chains) == 3
    assert forecaster.pending == ("p", "r", "s")
    forecaster.predict("t", {"a": A, "b": B})
    assert len(forecaster.chains) == 4


def test_the_order_within_a_batch_does_not_matter():
    questions = skilled(seed=5, count=120, delay=9, contexts=4)
    for question in questions:
        question.arrives = -(-question.arrives // 10) * 10
    both = []
    for seed in (0, 1):
        forecaster = Forecaster(names_of(questions), EVERYTHING)
        order = random.Random(seed)
        answers = []
        for what, some in events(questions):
            if what == "ask":
                answers += [
                    forecaster.predict(one.name, one.predictions, one.context) for one in some
                ]
            else:
                forecaster.learn(order.sample([(one.name, one.label) for one in some], len(some)))
        both.append((answers, forecaster.state()))
    assert both[0] == both[1]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 30))
def test_a_label_that_has_not_arrived_changes_no_forecast(seed, now, delay):
    questions = skilled(seed=seed, count=40, delay=delay, contexts=2)
    changed = skilled(seed=seed, count=40, delay=delay, contexts=2)
    for question in changed:
        if question.arrives >= now:
            question.label = 3 - question.label
            question.arrives += 5
    names = names_of(questions)
    before = play(Forecaster(names, EVERYTHING), questions, obey=True).forecasts
    after = play(Forecaster(names, EVERYTHING), changed, obey=True).forecasts
    for question in questions:
        if question.asked <= now:
            assert after[question.name][0] == before[question.name][0]
    if now < 5 and delay < 5:
        assert after["000039"][0] != before["000039"][0]


@pytest.mark.parametrize("cut", [1, 150, 290])
def test_a_restored_forecaster_goes_on_bit_for_bit(cut):
    questions = skilled(seed=8, count=300, delay=25, contexts=5)
    names = names_of(questions)
    whole, part = Forecaster(names, EVERYTHING, free=["p0"]), None
    steps = list(events(questions))
    for number, (what, some) in enumerate(steps):
        if number == 2 * cut:
            part = Forecaster.from_state(json.loads(json.dumps(whole.state())))
            assert part.pending
        for forecaster in (whole, part):
            if forecaster is None:
                continue
            if what == "ask":
                answers = [
                    forecaster.predict(
                        one.name,
                        {name: one.predictions[name] for name in forecaster.awake},
                        one.context,
                    )
                    for one in some
                ]
            else:
                forecaster.learn([(one.name, one.label) for one in some])
            if forecaster is whole:
                expected = answers
        assert part is None or answers == expected
    assert part.state() == whole.state()
    assert part.report() == whole.report()
    assert part.bound() == whole.bound()
    assert len(whole.awake) < len(names) or whole.report().turns


def test_a_state_is_a_copy():
    forecaster = Forecaster(["a", "b"])
    forecaster.predict("q", {"a": A, "b": B})
    state = forecaster.state()
    text = json.dumps(state)
    forecaster.learn([("q", 0)])
    forecaster.predict("r", {"a": A, "b": B})
    assert json.dumps(state) == text


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda f: f.predict("q", {"a": A}), "asked already"),
        (lambda f: f.predict("r", {}), "nobody answered"),
        (lambda f: f.predict("r", {"x": A}), "'x', no predictor,"),
        (lambda f: f.predict("r", {"a": [0.5, 0.4]}), "sums to 0.9"),
        (lambda f: f.predict("r", {"a": [1.5, -0.5]}), "negative"),
        (lambda f: f.predict("r", {"a": [float("nan"), 1]}), "not finite"),
        (lambda f: f.predict("r", {"a": A, "b": [1, 0, 0]}), "equal length"),
        (lambda f: f.predict("r", {"a": 1.0}), "dimensions"),
        (lambda f: f.predict("r", {"a": A}, weight=0.0), "above 0"),
        (lambda f: f.predict("r", {"a": A}, weight=1.5), "up to 1"),
        (lambda f: f.learn([("q", 0), ("x", 0)]), "nothing awaits"),
        (lambda f: f.learn([("q", 0), ("q", 1)]), "nothing awaits"),
        (lambda f: f.learn([("q", 2)]), "outside 0..1"),
        (lambda f: f.learn([("q", -1)]), "outside 0..1"),
    ],
)
def test_a_refusal_changes_nothing(act, message):
    forecaster = Forecaster(["a", "b"])
    forecaster.predict("q", {"a": A, "b": B})
    before = forecaster.state()
    with pytest.raises(LarcError, match=message):
        act(forecaster)
    assert forecaster.state() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Forecaster([]), "name each differently"),
        (lambda: Forecaster(["a", "a"]), "name each differently"),
        (lambda: Forecaster(["a"], free=["b"]), "'b' is free"),
        (lambda: ForecasterSettings(rates=(3.0,)), "outside"),
        (lambda: ForecasterSettings(shares=(1.0,)), "outside"),
        (lambda: ForecasterSettings(contexts=-1), "negative"),
        (
            lambda: Forecaster(["a"] * 1, ForecasterSettings(sleep=SleepSettings(floor=1.5))),
            "floor",
        ),
        (
            lambda: Forecaster(list("abc"), ForecasterSettings(sleep=SleepSettings(floor=0.4))),
            "lower it",
        ),
    ],
)
def test_impossible_settings_are_refused(make, message):
    with pytest.raises(LarcError, match=message):
        make()


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.update(format=9),
        lambda state: state.pop("chains"),
        lambda state: state["components"].update(belief=[1.0]),
        lambda state: state["components"].update(own=[["x", 1, [[1.0]]]]),
        lambda state: state["chains"].update(weights=[[1.0]]),
        lambda state: state["sleepers"].update(awake=[True]),
        lambda state: state["sleepers"].update(nap=[1]),
        lambda state: state["trust"].update(sums=[]),
        lambda state: state["pending"]["q"].update(used=[1.0]),
        lambda state: state["settings"].update(unknown=1),
    ],
)
def test_a_damaged_state_is_refused(damage):
    forecaster = Forecaster(["a", "b"])
    forecaster.predict("q", {"a": A, "b": B})
    state = forecaster.state()
    damage(state)
    with pytest.raises(LarcError, match="state of a forecaster"):
        Forecaster.from_state(state)


def test_thousands_of_hopeless_labels_do_not_stop_a_return():
    """Weights do not sink to zero, so one that was wrong for long can still be found right."""
    forecaster = Forecaster(["a", "b"], ForecasterSettings(rates=(2.0,), shares=(0.0,)))
    for number in range(900):
        forecaster.predict(str(number), {"a": [1, 0], "b": [0, 1]})
        forecaster.learn([(str(number), 0)])
    assert 0 < forecaster.components.common[0, 1] < 1e-90
    alone = forecaster.predict("alone", {"b": [0, 1]})
    assert alone.weights == {"b": 1.0}
    assert list(alone.probabilities) == pytest.approx([0, 1], abs=1e-12)
