"""Wrong arguments of questions, strategies, sessions and controllers are told in a sentence."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.stream import Question, Recorded, Strategy
from larc.stream.session import Session
from tests.stream.test_plans import snapshot
from tests.stream.test_session import CANDIDATES, STRATEGIES, asked, session_on

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.lists(st.one_of(st.integers(), st.text(max_size=2), st.none()), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.just(object()),
    st.just(int),
    st.just("\ud800"),
)


def refused(call):
    """Carry out; anything but success and a sentence is a failure."""
    try:
        call()
    except larc.LarcError as refusal:
        return str(refusal).endswith(".")
    return False


@pytest.mark.parametrize(
    "arguments",
    [
        {"retention": "Reset"},
        {"retention": ["keep"]},
        {"scale": -1},
        {"scale": 0},
        {"scale": math.nan},
        {"scale": "1"},
        {"scale": True},
        {"scale": None},
        {"offsets": (math.nan,)},
        {"offsets": "ab"},
        {"offsets": 1.0},
        {"offsets": (None,)},
        {"view": None},
        {"start": 7},
        {"sham": "no"},
        {"rule": 7},
        {"rule": larc.SGD},
        {"name": b"x"},
        {"name": ""},
    ],
)
def test_a_strategy_that_is_none_is_refused(arguments):
    with pytest.raises(larc.LarcError):
        Strategy(**{"name": "x", **arguments})


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_questions_strategies_and_limits_refuse_in_a_sentence(data):
    for kind in (Question, Strategy, larc.SessionLimits, Recorded):
        names = [field.name for field in dataclasses.fields(kind)]
        given = {name: data.draw(JUNK) for name in names if data.draw(st.booleans())}
        basis = {
            Question: {"name": "a", "candidates": CANDIDATES},
            Strategy: {"name": "a"},
            Recorded: {"question": asked("a"), "asked": 0, "arrives": 1, "label": 0},
        }.get(kind, {})
        refused(lambda kind=kind, values={**basis, **given}: kind(**values))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_sessions_and_controllers_refuse_in_a_sentence_and_change_nothing(tiny, data):
    learner = session_on(tiny).learner
    junk = [data.draw(JUNK) for _ in range(3)]
    for one in junk:
        refused(lambda one=one: Session(one, STRATEGIES, seed=1))
        refused(lambda one=one: Session(learner, one, seed=1))
        refused(lambda one=one: Session(learner, STRATEGIES, one, seed=1))
        refused(lambda one=one: Session(learner, STRATEGIES, seed=one))
        refused(lambda one=one: Session(learner, STRATEGIES, seed=1, starts=one))
        refused(lambda one=one: Session(learner, STRATEGIES, seed=1, limits=one))
        refused(lambda one=one: larc.Controller(one))
    session = session_on(tiny, strategies=STRATEGIES[:2])
    session.ask([asked("a")])
    before = snapshot(session)
    for one in junk:
        for call in (
            lambda one=one: session.plan(one),
            lambda one=one: session.plan([one]),
            lambda one=one: session.plan([asked("b")], only=one),
            lambda one=one: session.plan_learning(one),
            lambda one=one: session.plan_learning({"a": 0}, only=one),
            lambda one=one: session.commit(one, []),
            lambda one=one: session.correct("a", one),
            lambda one=one: session.restore(one),
            lambda one=one: session.restore("nowhere", one),
        ):
            refused(call)
        assert snapshot(session) == before
        assert refused(lambda one=one: session.learn({"b": one}))
        assert refused(lambda one=one: session.correct(str(one), 0))
        assert refused(lambda one=one: session.drop([one]))
    assert snapshot(session) == before


def test_what_is_shown_to_a_person_says_what_it_holds(tiny):
    session = session_on(tiny, strategies=STRATEGIES[:2])
    session.ask([asked("a"), asked("b")])
    session.learn({"a": 0})
    assert repr(session) == "<Session of reset, carry: 2 events, 1 awaited label, 1 learned>"
    assert repr(session.pending["b"]) == "<Pending 'b': plain>"
    assert repr(asked("a")) == "Question('a', ['up', 'down', 'flat'], prompt='Next: ')"
    assert repr(Question("a", ("x",), prompt="y" * 99)).endswith("yyy...')")
    assert repr(Strategy("a", scale=0.5, sham=True)) == "Strategy('a', sham=True, scale=0.5)"
    assert repr(session.labelled) == "<LabelMemory of 1 labels, 19 of 262144 bytes>"
    plan = session.plan([asked("c")])
    assert repr(plan) == f"ReadPlan(questions=({asked('c')!r},))"
    assert repr(session.plan_learning({"b": 1})) == "LearningPlan(values={'b': 1})"
    assert "1 labels judged" not in repr(larc.Controller(session))


def test_a_loss_of_400_digits_and_the_root_are_told(tiny, tmp_path):
    session = session_on(tiny, strategies=STRATEGIES[:1])
    session.ask([asked("a")])
    for call in (
        lambda: session.learn({"a": [0, 1, 10**400]}),
        lambda: session.save("/"),
    ):
        assert refused(call)
