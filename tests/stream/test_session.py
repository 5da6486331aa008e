"""A live session: private paths, late labels, limits, exact going on."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.stream import Ask, Item, Strategy, PlainPrompter, order_events
from larc.stream.session import Session, SessionFull, SessionLimits, with_offsets
from tests.questions import random_factors

CANDIDATES = ("up", "down", "flat")
PATHS = (
    Strategy("reset", retention="reset"),
    Strategy("carry"),
    Strategy("latest", retention="latest"),
    Strategy("tenth", scale=0.1),
    Strategy("sham", permuted=True),
    Strategy("biased", offsets=(1.0, 0.0, -1.0)),
)


def items(times):
    return [
        Item(
            name=f"{number:03}",
            asked=asked,
            arrives=None if delay is None else asked + delay,
            candidates=CANDIDATES,
            label=label,
            prompt=f"Question {number % 3}: ",
        )
        for number, (asked, delay, label) in enumerate(times)
    ]


STREAM = items([(0, 5, 0), (1, 4, 1), (5, 2, 0), (6, 1, 2), (8, 9, 0), (9, None, 1), (20, 1, 1)])


def session_on(substrate, *, paths=PATHS, limits=None, seed=1):
    slow = larc.SlowState.initial(substrate, seed=1)
    slow = dataclasses.replace(slow, factors=random_factors(substrate, 2))
    learner = larc.Learner(substrate, slow, larc.SGD(0.5))
    return Session(learner, paths, PlainPrompter(), seed=seed, limits=limits)


def events(stream):
    return list(
        order_events(
            stream,
            asked=lambda item: item.asked,
            arrives=lambda item: item.arrives,
            identifier=lambda item: item.name,
        )
    )


def replay(session, stream, skip=0):
    answers = {}
    for event in events(stream)[skip:]:
        if isinstance(event, Ask):
            said = session.ask(event.items)
            for place, item in enumerate(event.items):
                answers[item.name] = {name: own[place] for name, own in said.items()}
        else:
            session.arrive(event.items)
    return answers


def test_all_paths_together_answer_as_each_alone(tiny):
    together = replay(session_on(tiny), STREAM)
    for number, path in enumerate(PATHS):
        # Alone, a path keeps the random stream of its place among the others.
        fillers = [Strategy(f"filler {i}", retention="reset") for i in range(number)]
        alone = replay(session_on(tiny, paths=[*fillers, path]), STREAM)
        for name, said in alone.items():
            assert said[path.name] == pytest.approx(together[name][path.name], abs=1e-5)


def test_paths_are_what_their_names_say(tiny):
    session = session_on(tiny)
    answers = replay(session, STREAM)
    learner, slow = session.learner, session.learner.slow
    by_hand = learner.begin()
    for name, said in answers.items():
        prompt = f"Question {int(name) % 3}: "
        start = learner.begin().read(prompt, CANDIDATES).double().numpy()
        assert said["reset"] == pytest.approx(start, abs=1e-6)
    for event in events(STREAM):
        if not isinstance(event, Ask):
            by_hand.update([larc.Label(i.prompt, CANDIDATES, i.label) for i in event.items])
    # Four steps of float32 sums, taken in another batch.
    torch.testing.assert_close(
        session.episodes["carry"].factors.B, by_hand.factors.B, atol=1e-5, rtol=1e-4
    )
    assert session.episodes["carry"].step == 4  # two labels arrive together
    assert session.episodes["latest"].step == 1
    assert session.episodes["reset"].factors.equal(slow.factors)
    last = learner.begin()
    last.update(larc.Label(STREAM[6].prompt, CANDIDATES, STREAM[6].label))
    torch.testing.assert_close(
        session.episodes["latest"].factors.B, last.factors.B, atol=1e-6, rtol=1e-4
    )


def test_a_tenth_is_a_tenth_of_the_realised_difference(tiny):
    session = session_on(tiny, paths=[Strategy("whole"), Strategy("tenth", scale=0.1)])
    start = session.learner.slow.factors
    session.ask(STREAM[:1])
    made = session.arrive(STREAM[:1])
    assert made["tenth"].distance == pytest.approx(0.1 * made["whole"].distance, rel=1e-3)
    whole, tenth = (session.episodes[n].factors for n in ("whole", "tenth"))
    torch.testing.assert_close(tenth.B - start.B, 0.1 * (whole.B - start.B), atol=1e-8, rtol=1e-3)


def test_offsets_bias_reading_and_learning(tiny):
    session = session_on(tiny, paths=[Strategy("plain"), Strategy("biased", offsets=(2.0, 0, 0))])
    said = session.ask(STREAM[:1])
    odds = said["plain"][0] * np.exp([2.0, 0, 0])
    assert said["biased"][0] == pytest.approx(odds / odds.sum(), abs=1e-9)
    session.arrive(STREAM[:1])  # label 0 is already likely under the bias: a smaller step
    moved = {
        name: float(e.factors.combine(session.learner.slow.factors, torch.sub).norm())
        for name, e in session.episodes.items()
    }
    assert 0 < moved["biased"] < moved["plain"]
    assert with_offsets(np.array([0.2, 0.8]), ()).tolist() == [0.2, 0.8]


def test_questions_of_one_time_may_have_different_numbers_of_candidates(tiny):
    first, second = STREAM[:2]
    both = [dataclasses.replace(first, candidates=CANDIDATES[:2]), second]
    session = session_on(tiny, paths=PATHS[:2])
    said = session.ask(both)
    for item, answer in zip(both, said["carry"], strict=True):
        alone = session.learner.begin().read(item.prompt, item.candidates)
        assert answer == pytest.approx(alone.double().numpy(), abs=1e-6)  # other batch, float32
    session.arrive(both)
    assert session.episodes["carry"].step == 1


def test_sham_labels_are_permuted_afresh_for_each_item(tiny, monkeypatch):
    seen = []
    real = larc.Learner.update_many

    def watched(learner, updates):
        seen.extend(label.index for _, own in updates for label in own)
        return real(learner, updates)

    monkeypatch.setattr(larc.Learner, "update_many", watched)
    session = session_on(tiny, paths=[Strategy("sham", permuted=True)])
    stream = items([(0, 1, 2)] * 90)
    session.ask(stream)
    session.arrive(stream)
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
        answers = {}
        for event in events(STREAM)[:stop]:
            if isinstance(event, Ask):
                said = first.ask(event.items)
                for place, item in enumerate(event.items):
                    answers[item.name] = {name: own[place] for name, own in said.items()}
            else:
                first.arrive(event.items)
        first.save(tmp_path / "session", {"done": stop})
        second = session_on(larc.load_substrate("tiny"))
        assert second.restore(tmp_path / "session") == {"done": stop}
        assert second.pending == first.pending
        answers |= replay(second, STREAM, skip=stop)
        for name, said in whole.items():
            for path in said:
                assert np.array_equal(said[path], answers[name][path]), (stop, name, path)


def test_a_session_of_other_paths_or_starts_is_refused(tiny, tmp_path):
    session_on(tiny).save(tmp_path / "session")
    with pytest.raises(larc.LarcError, match="other paths"):
        session_on(tiny, paths=PATHS[:2]).restore(tmp_path / "session")
    other = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=9), larc.SGD(0.5))
    with pytest.raises(larc.LarcError, match="another slow state"):
        Session(other, PATHS, PlainPrompter(), seed=1).restore(tmp_path / "session")


def test_limits_stop_before_anything_changes_and_a_larger_one_goes_on(tiny, tmp_path):
    session = session_on(tiny, limits=SessionLimits(pending=40))
    session.ask(STREAM[:2])
    pending, size = dict(session.pending), session.size
    with pytest.raises(SessionFull, match="pending limit of 40"):
        session.ask(STREAM[2:5])
    assert session.pending == pending
    assert session.size == size
    session.save(tmp_path / "session")
    larger = session_on(tiny)
    larger.restore(tmp_path / "session")
    assert set(larger.ask(STREAM[2:5])) == {path.name for path in PATHS}
    with pytest.raises(SessionFull, match="total limit of 1000"):
        session_on(tiny, limits=SessionLimits(total=1000)).ask(STREAM[:1])


def test_a_label_that_arrives_twice_in_one_batch_is_learned_by_nobody(tiny):
    session = session_on(tiny)
    session.ask(STREAM[:1])
    before = {name: episode.factors.copy() for name, episode in session.episodes.items()}
    with pytest.raises(larc.LarcError, match="twice in one batch"):
        session.arrive([STREAM[0], STREAM[0]])
    assert list(session.pending) == [STREAM[0].name]
    for name, episode in session.episodes.items():
        assert torch.equal(episode.factors.B, before[name].B)
        assert episode.step == 0


def test_labels_nobody_asked_for_are_refused(tiny):
    with pytest.raises(larc.LarcError, match="never asked"):
        session_on(tiny).arrive(STREAM[:1])
    with pytest.raises(larc.LarcError, match="one name"):
        session_on(tiny, paths=[PATHS[0], PATHS[0]])
    with pytest.raises(larc.LarcError, match="not given"):
        session_on(tiny, paths=[Strategy("x", start="elsewhere")])


def test_resting_paths_share_one_read():
    substrate = larc.load_substrate("tiny")
    resting = [Strategy(f"r{n}", retention="reset") for n in range(5)]
    session_on(substrate, paths=resting).ask(STREAM[:1])
    one = substrate.ledger.total("mixer").effective
    session_on(substrate, paths=resting[:1]).ask(STREAM[:1])
    assert substrate.ledger.total("mixer").effective == 2 * one


def test_a_path_may_follow_a_rule_of_its_own(tiny):
    paths = [Strategy("sgd"), Strategy("careful", rule="descent:0.5")]
    session = session_on(tiny, paths=paths)
    item = Item("a", 0, 5, CANDIDATES, 0, prompt="Next: ")
    session.ask([item])
    made = session.arrive([item])
    assert made["sgd"].after is None
    assert made["careful"].after <= made["careful"].loss
    assert made["careful"].distance == pytest.approx(0.5, rel=1e-4)
    again = session_on(tiny, paths=[paths[1]])
    again.ask([item])
    again.arrive([item])
    torch.testing.assert_close(
        again.episodes["careful"].factors.B,
        session.episodes["careful"].factors.B,
        atol=1e-5,
        rtol=0,
    )


def test_a_batch_is_learned_by_every_path_or_by_none(tiny):
    paths = [
        Strategy("fine"),
        Strategy("latest", retention="latest"),
        Strategy("sham", permuted=True),
    ]
    session = session_on(tiny, paths=[*paths, Strategy("wild", rule="sgd:0.2")])
    items = [Item(name, 0, 5, CANDIDATES, 0, prompt=f"{name}: ") for name in ("a", "b")]
    session.ask(items)
    for path in paths:
        session.episodes[path.name].update(larc.Label("Before: ", CANDIDATES, 1))
    wild = session.episodes["wild"]
    wild.factors = wild.factors.map(lambda tensor: tensor + 1e30)  # its loss is no number
    before = {
        name: (e.factors, e.step, e.stream.bit_generator.state)
        for name, e in session.episodes.items()
    }
    with pytest.raises(larc.LarcError, match="not finite"):
        session.arrive(items)
    for name, (factors, step, stream) in before.items():
        episode = session.episodes[name]
        assert episode.factors is factors
        assert (episode.step, episode.stream.bit_generator.state) == (step, stream)
    assert list(session.pending) == ["a", "b"]
