"""A live session: private strategies, late labels, limits, exact going on."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.feedback import with_offsets
from larc.stream import Ask, PlainPrompter, Question, Recorded, Strategy, order_events
from larc.stream.question import labels_of, questions_of
from larc.stream.session import Session, SessionFull, SessionLimits
from tests.questions import random_factors

CANDIDATES = ("up", "down", "flat")
STRATEGIES = (
    Strategy("reset", retention="reset"),
    Strategy("carry"),
    Strategy("latest", retention="latest"),
    Strategy("tenth", scale=0.1),
    Strategy("sham", sham=True),
    Strategy("biased", offsets=(1.0, 0.0, -1.0)),
)


def items(times):
    return [
        Recorded(
            Question(f"{number:03}", CANDIDATES, prompt=f"Question {number % 3}: "),
            asked=asked,
            arrives=None if delay is None else asked + delay,
            label=label,
        )
        for number, (asked, delay, label) in enumerate(times)
    ]


STREAM = items([(0, 5, 0), (1, 4, 1), (5, 2, 0), (6, 1, 2), (8, 9, 0), (9, None, 1), (20, 1, 1)])


def session_on(substrate, *, strategies=STRATEGIES, limits=None, seed=1):
    slow = larc.SlowState.initial(substrate, seed=1)
    slow = dataclasses.replace(slow, factors=random_factors(substrate, 2))
    learner = larc.Learner(substrate, slow, larc.SGD(0.5))
    return Session(learner, strategies, seed=seed, limits=limits)


def events(stream):
    return list(
        order_events(
            stream,
            asked=lambda item: item.asked,
            arrives=lambda item: item.arrives,
            identifier=lambda item: item.name,
        )
    )


def follow(session, some):
    """Take events; returns what each strategy answered to each question."""
    answers = {}
    for event in some:
        if isinstance(event, Ask):
            policies = session.ask(questions_of(event.items))
            for number, item in enumerate(event.items):
                answers[item.name] = {name: rows[number] for name, rows in policies.items()}
        else:
            session.learn(labels_of(event.items))
    return answers


def replay(session, stream, skip=0):
    return follow(session, events(stream)[skip:])


def test_all_strategies_together_answer_as_each_alone(tiny):
    together = replay(session_on(tiny), STREAM)
    for number, strategy in enumerate(STRATEGIES):
        # Alone, a strategy keeps the random stream of its position among the others.
        fillers = [Strategy(f"filler {i}", retention="reset") for i in range(number)]
        alone = replay(session_on(tiny, strategies=[*fillers, strategy]), STREAM)
        for name, policies in alone.items():
            expected = together[name][strategy.name]
            assert policies[strategy.name] == pytest.approx(expected, abs=1e-5)


def test_strategies_are_what_their_names_say(tiny):
    session = session_on(tiny)
    answers = replay(session, STREAM)
    learner, slow = session.learner, session.learner.slow
    by_hand = learner.begin()
    for name, policies in answers.items():
        prompt = f"Question {int(name) % 3}: "
        start = learner.begin().read(prompt, CANDIDATES).double().numpy()
        assert policies["reset"] == pytest.approx(start, abs=1e-6)
    for event in events(STREAM):
        if not isinstance(event, Ask):
            by_hand.update(
                [larc.Label(i.question.prompt, CANDIDATES, i.label) for i in event.items]
            )
    # Four steps of float32 sums, taken in another batch.
    torch.testing.assert_close(
        session.episodes["carry"].factors.B, by_hand.factors.B, atol=1e-5, rtol=1e-4
    )
    assert session.episodes["carry"].step == 4  # two labels arrive together
    assert session.episodes["latest"].step == 1
    assert session.episodes["reset"].factors.equal(slow.factors)
    last = learner.begin()
    last.update(larc.Label(STREAM[6].question.prompt, CANDIDATES, STREAM[6].label))
    torch.testing.assert_close(
        session.episodes["latest"].factors.B, last.factors.B, atol=1e-6, rtol=1e-4
    )


def test_a_tenth_is_a_tenth_of_the_realised_difference(tiny):
    session = session_on(tiny, strategies=[Strategy("whole"), Strategy("tenth", scale=0.1)])
    start = session.learner.slow.factors
    session.ask(questions_of(STREAM[:1]))
    updates = session.learn(labels_of(STREAM[:1]))
    assert updates["tenth"].distance == pytest.approx(0.1 * updates["whole"].distance, rel=1e-3)
    whole, tenth = (session.episodes[n].factors for n in ("whole", "tenth"))
    torch.testing.assert_close(tenth.B - start.B, 0.1 * (whole.B - start.B), atol=1e-8, rtol=1e-3)


def test_offsets_bias_reading_and_learning(tiny):
    strategies = [Strategy("plain"), Strategy("biased", offsets=(2.0, 0, 0))]
    session = session_on(tiny, strategies=strategies)
    policies = session.ask(questions_of(STREAM[:1]))
    odds = policies["plain"][0] * np.exp([2.0, 0, 0])
    assert policies["biased"][0] == pytest.approx(odds / odds.sum(), abs=1e-9)
    session.learn(labels_of(STREAM[:1]))  # label 0 is already likely under the bias: a smaller step
    moved = {
        name: float(e.factors.combine(session.learner.slow.factors, torch.sub).norm())
        for name, e in session.episodes.items()
    }
    assert 0 < moved["biased"] < moved["plain"]
    assert with_offsets(np.array([0.2, 0.8]), ()).tolist() == [0.2, 0.8]


def test_questions_of_one_time_may_have_different_numbers_of_candidates(tiny):
    first, second = questions_of(STREAM[:2])
    both = [dataclasses.replace(first, candidates=CANDIDATES[:2]), second]
    session = session_on(tiny, strategies=STRATEGIES[:2])
    policies = session.ask(both)
    for question, answer in zip(both, policies["carry"], strict=True):
        alone = session.learner.begin().read(question.prompt, question.candidates)
        assert answer == pytest.approx(alone.double().numpy(), abs=1e-6)  # other batch, float32
    session.learn({first.name: 0, second.name: 1})
    assert session.episodes["carry"].step == 1


def test_sham_labels_are_permuted_afresh_for_each_item(tiny):
    session = session_on(tiny, strategies=[Strategy("sham", sham=True)])
    stream = items([(0, 1, 2)] * 90)
    session.ask(questions_of(stream))
    ((_, feedback),) = session.plan_learning(labels_of(stream)).requests
    seen = [label.index for label in feedback]
    # Ninety draws of three labels, thirty expected of each: within four standard deviations.
    assert all(12 < seen.count(label) < 48 for label in range(3))


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2)), min_size=2, max_size=6
    ),
    st.data(),
)
@settings(max_examples=15, deadline=None)
def test_what_has_not_arrived_changes_no_answer(times, data):
    substrate = larc.load_substrate("tiny")
    stream = items(times)
    answers = replay(session_on(substrate), stream)
    changed = data.draw(st.integers(0, len(stream) - 1))
    item = stream[changed]
    other = dataclasses.replace(item, label=(item.label + 1) % 3, arrives=item.arrives + 1)
    again = replay(session_on(substrate), [*stream[:changed], other, *stream[changed + 1 :]])
    for one in stream:
        if one.asked <= item.arrives:
            for name in answers[one.name]:
                assert np.array_equal(answers[one.name][name], again[one.name][name])


def test_a_stopped_session_goes_on_bit_for_bit(tiny, tmp_path):
    whole = replay(session_on(tiny), STREAM)
    count = len(events(STREAM))
    for stop in range(1, count):
        first = session_on(tiny)
        answers = follow(first, events(STREAM)[:stop])
        first.save(tmp_path / "session", {"done": stop})
        second = session_on(larc.load_substrate("tiny"))
        assert second.restore(tmp_path / "session") == {"done": stop}
        assert second.pending == first.pending
        answers |= replay(second, STREAM, skip=stop)
        for name, policies in whole.items():
            for strategy, policy in policies.items():
                assert np.array_equal(policy, answers[name][strategy]), (stop, name, strategy)


def test_a_session_of_other_strategies_or_starts_is_refused(tiny, tmp_path):
    session_on(tiny).save(tmp_path / "session")
    with pytest.raises(larc.LarcError, match="other strategies"):
        session_on(tiny, strategies=STRATEGIES[:2]).restore(tmp_path / "session")
    other = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=9), larc.SGD(0.5))
    with pytest.raises(larc.LarcError, match="another slow state"):
        Session(other, STRATEGIES, PlainPrompter(), seed=1).restore(tmp_path / "session")


def test_limits_stop_before_anything_changes_and_a_larger_one_goes_on(tiny, tmp_path):
    session = session_on(tiny, limits=SessionLimits(pending=40))
    session.ask(questions_of(STREAM[:2]))
    pending, size = dict(session.pending), session.size
    with pytest.raises(SessionFull, match="pending limit of 40"):
        session.ask(questions_of(STREAM[2:5]))
    assert session.pending == pending
    assert session.size == size
    session.save(tmp_path / "session")
    larger = session_on(tiny)
    larger.restore(tmp_path / "session")
    answers = larger.ask(questions_of(STREAM[2:5]))
    assert set(answers) == {strategy.name for strategy in STRATEGIES}
    with pytest.raises(SessionFull, match="total limit of 1000"):
        session_on(tiny, limits=SessionLimits(total=1000)).ask(questions_of(STREAM[:1]))


def test_a_label_that_arrives_twice_in_one_batch_is_learned_by_nobody(tiny):
    session = session_on(tiny)
    session.ask(questions_of(STREAM[:1]))
    before = {name: episode.factors.copy() for name, episode in session.episodes.items()}
    with pytest.raises(larc.LarcError, match="twice in one batch"):
        session.learn(labels_of([STREAM[0], STREAM[0]]))
    assert list(session.pending) == [STREAM[0].name]
    for name, episode in session.episodes.items():
        assert torch.equal(episode.factors.B, before[name].B)
        assert episode.step == 0


def test_labels_nobody_asked_for_are_refused(tiny):
    with pytest.raises(larc.LarcError, match="never asked"):
        session_on(tiny).learn(labels_of(STREAM[:1]))
    with pytest.raises(larc.LarcError, match="one name"):
        session_on(tiny, strategies=[STRATEGIES[0], STRATEGIES[0]])
    with pytest.raises(larc.LarcError, match="not given"):
        session_on(tiny, strategies=[Strategy("x", start="elsewhere")])


def test_resting_strategies_share_one_read():
    substrate = larc.load_substrate("tiny")
    resting = [Strategy(f"r{n}", retention="reset") for n in range(5)]
    session_on(substrate, strategies=resting).ask(questions_of(STREAM[:1]))
    one = substrate.ledger.total("mixer").effective
    session_on(substrate, strategies=resting[:1]).ask(questions_of(STREAM[:1]))
    assert substrate.ledger.total("mixer").effective == 2 * one


def test_a_strategy_may_follow_a_rule_of_its_own(tiny):
    strategies = [Strategy("sgd"), Strategy("careful", rule="descent:0.5")]
    session = session_on(tiny, strategies=strategies)
    question = Question("a", CANDIDATES, prompt="Next: ")
    session.ask([question])
    updates = session.learn({"a": 0})
    assert updates["sgd"].after is None
    assert updates["careful"].after <= updates["careful"].loss
    assert updates["careful"].distance == pytest.approx(0.5, rel=1e-4)
    again = session_on(tiny, strategies=[strategies[1]])
    again.ask([question])
    again.learn({"a": 0})
    torch.testing.assert_close(
        again.episodes["careful"].factors.B,
        session.episodes["careful"].factors.B,
        atol=1e-5,
        rtol=0,
    )


def test_a_batch_is_learned_by_every_strategy_or_by_none(tiny):
    strategies = [
        Strategy("fine"),
        Strategy("latest", retention="latest"),
        Strategy("sham", sham=True),
    ]
    session = session_on(tiny, strategies=[*strategies, Strategy("wild", rule="sgd:0.2")])
    session.ask([Question(name, CANDIDATES, prompt=f"{name}: ") for name in ("a", "b")])
    for strategy in strategies:
        session.episodes[strategy.name].update(larc.Label("Before: ", CANDIDATES, 1))
    wild = session.episodes["wild"]
    wild.factors = wild.factors.map(lambda tensor: tensor + 1e30)  # its loss is no number
    before = {
        name: (e.factors, e.step, e.stream.bit_generator.state)
        for name, e in session.episodes.items()
    }
    with pytest.raises(larc.LarcError, match="not finite"):
        session.learn({"a": 0, "b": 0})
    for name, (factors, step, stream) in before.items():
        episode = session.episodes[name]
        assert episode.factors is factors
        assert (episode.step, episode.stream.bit_generator.state) == (step, stream)
    assert list(session.pending) == ["a", "b"]


def asked(name, candidates=CANDIDATES):
    return Question(name, candidates, prompt="Next: ")


def test_a_label_is_an_index_a_text_or_a_loss_for_each_candidate(tiny):
    question = asked("a")
    reached = []
    for label in (1, "down", np.int64(1)):
        session = session_on(tiny)
        session.ask([question])
        session.learn({"a": label})
        reached.append(session.episodes["carry"].factors.B)
    assert all(torch.equal(reached[0], other) for other in reached)
    by_hand = session_on(tiny).learner.begin()
    by_hand.update(larc.CandidateLosses("Next: ", CANDIDATES, (0.5, 0.0, 1.0)))
    for losses in ((0.5, 0.0, 1.0), [0.5, 0, 1], np.array([0.5, 0.0, 1.0])):
        session = session_on(tiny, strategies=STRATEGIES[:5])
        session.ask([question])
        session.learn({"a": losses})
        torch.testing.assert_close(
            session.episodes["carry"].factors.B, by_hand.factors.B, atol=1e-6, rtol=1e-4
        )


@pytest.mark.parametrize(
    "label", [3, -1, True, "sideways", None, 1.0, (0.5, 0.5), ("a", "b", "c"), "", b"abc", {0: 1}]
)
def test_a_label_that_no_candidate_is_changes_nothing(tiny, label):
    session = session_on(tiny, strategies=STRATEGIES[:2])
    session.ask([asked("a"), asked("b")])
    before = session.episodes["carry"].factors
    with pytest.raises(larc.LarcError, match="none of its candidates"):
        session.learn({"a": 0, "b": label})
    assert session.episodes["carry"].factors is before
    assert list(session.pending) == ["a", "b"]


def test_losses_and_offsets_do_not_go_together_and_nothing_changes(tiny):
    session = session_on(tiny)
    session.ask([asked("a")])
    with pytest.raises(larc.LarcError, match="has offsets, which learn from labels"):
        session.learn({"a": (0.0, 1.0, 1.0)})
    assert all(episode.step == 0 for episode in session.episodes.values())
    with pytest.raises(larc.LarcError, match="by the names of their questions"):
        session.learn([0])
    assert list(session.pending) == ["a"]


def test_what_cannot_be_put_is_refused_before_anything_is_asked(tiny):
    session = session_on(tiny)
    with pytest.raises(larc.LarcError, match="has 3 offsets"):
        session.ask(
            [
                asked("a"),
                asked("b", CANDIDATES[:2]),
            ]
        )
    with pytest.raises(larc.LarcError, match="asked already"):
        session.ask([asked("a"), asked("a")])
    with pytest.raises(larc.LarcError, match="reads the view 'remembered'"):
        session_on(tiny, strategies=[Strategy("x", view="remembered")]).ask([asked("a")])
    assert (session.pending, session.events) == ({}, 0)


class Forgetful(PlainPrompter):
    """Remembers labels, and fails when it is taught the word of doom."""

    def __init__(self):
        self.seen = []

    def learn(self, labelled):
        self.seen += [(question.name, label) for question, label in labelled]
        if any(question.name == "doom" for question, _ in labelled):
            raise RuntimeError("doom")

    def state(self):
        return list(self.seen)

    def restore(self, state):
        self.seen = [tuple(one) for one in state]


def test_a_prompter_that_fails_leaves_every_state_and_itself_as_they_were(tiny):
    session = session_on(tiny)
    session.prompter = prompter = Forgetful()
    session.ask([asked(name) for name in ("a", "doom")])
    session.learn({"a": 0})
    before = {name: episode.factors for name, episode in session.episodes.items()}
    with pytest.raises(RuntimeError, match="doom"):
        session.learn({"doom": 2})
    assert prompter.seen == [("a", 0)]
    assert all(session.episodes[name].factors is kept for name, kept in before.items())
    assert list(session.pending) == ["doom"]


def test_a_prompter_is_told_the_candidate_of_lowest_loss(tiny):
    session = session_on(tiny, strategies=STRATEGIES[:2])
    session.prompter = prompter = Forgetful()
    session.ask([asked("a")])
    session.learn({"a": (0.5, 0.25, 0.25)})
    assert prompter.seen == [("a", 1)]
