"""Labels by name: four refusals of four types, what is remembered, and corrections."""

import pickle

import numpy as np
import pytest

import larc
from larc.stream import LabelFrequency, Question, Recorded, Strategy
from larc.stream.awaited import LabelMemory, PastLabel
from larc.stream.session import Session
from tests.stream.test_controller import SLEEPY
from tests.stream.test_plans import snapshot
from tests.stream.test_session import CANDIDATES, STRATEGIES, Forgetful, asked, session_on

REFUSALS = {
    "never": (1, larc.NeverAsked),
    "dropped": (1, larc.NeverAsked),
    "done": ("down", larc.DuplicateLabel),
    "lost": ((0.0, 1.0, 0.5), larc.DuplicateLabel),
    "awaited": ("sideways", larc.NotACandidate),
}


def labelled_session(substrate, **others):
    session = session_on(substrate, strategies=STRATEGIES[:5], **others)
    session.ask([asked(name) for name in ("done", "lost", "dropped", "awaited", "next")])
    session.learn({"done": 1, "lost": [0, 1, 0.5]})
    session.drop(["dropped"])
    return session


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_typed_also_after_restore_and_change_nothing(tiny, tmp_path, name, restored):
    session = labelled_session(tiny)
    if restored:
        session.save(tmp_path / "session")
        session = session_on(tiny, strategies=STRATEGIES[:5])
        session.restore(tmp_path / "session")
    label, kind = REFUSALS[name]
    before = snapshot(session)
    with pytest.raises(larc.LabelRefused) as refused:
        session.learn({"next": 0, name: label})
    assert type(refused.value) is kind
    assert refused.value.name == name
    assert isinstance(refused.value, larc.LarcError)
    assert snapshot(session) == before
    session.learn({"next": 0})


@pytest.mark.parametrize("label", [0, "up", (1.0, 0.0, 1.0), np.int64(2)])
def test_another_label_than_before_conflicts_and_one_outside_is_no_candidate(tiny, label):
    session = labelled_session(tiny)
    with pytest.raises(larc.ConflictingLabel, match=r"and not 'down'.*call correct"):
        session.learn({"done": label})
    with pytest.raises(larc.NotACandidate):
        session.learn({"done": 3})


def test_refusals_travel_between_processes():
    refusal = pickle.loads(pickle.dumps(larc.NeverAsked("a", "it was never asked.")))
    assert (type(refusal), refusal.name, str(refusal)) == (
        larc.NeverAsked,
        "a",
        "it was never asked.",
    )


def test_what_was_labelled_is_remembered_within_its_limit(tiny):
    limits = larc.SessionLimits(labelled=60)
    session = session_on(tiny, strategies=STRATEGIES[:2], limits=limits)
    for number in range(6):
        session.ask([asked(f"{number:04}")])
        session.learn({f"{number:04}": 0})
    # Four bytes of a name, ten of the candidates, eight of a label: two fit.
    assert list(session.labelled) == ["0004", "0005"]
    assert session.labelled.size <= 60
    with pytest.raises(larc.DuplicateLabel):
        session.learn({"0005": 0})
    with pytest.raises(larc.NeverAsked, match="long forgotten"):
        session.learn({"0000": 0})


def test_what_changes_in_a_memory_is_told_to_whoever_follows_until_it_is_most():
    memory = LabelMemory(limit=75)  # five of fifteen bytes
    for name in "abc":
        memory.remember(name, PastLabel(("up", "down"), 0))
    assert memory.changed is None  # nobody follows
    first = memory.follow()
    memory.replace("b", memory["b"].corrected(1))  # eight bytes more
    memory.remember("a", memory["a"])
    memory.forget("x")
    assert list(first.items()) == [("b", False), ("a", True)]
    memory.remember("d", memory["a"])
    memory.replace("d", memory["d"].corrected(1))  # the oldest no longer fits
    assert list(memory) == ["c", "a", "d"]
    assert memory.changed is first
    assert list(first.items()) == [("a", True), ("d", True), ("b", True)]
    second = memory.follow()
    memory.forget("c")
    assert memory.changed is second
    assert (second, len(first)) == ({"c": True}, 3)
    memory.forget("a")
    assert memory.changed is None


def test_a_name_that_was_labelled_may_be_asked_again(tiny):
    session = labelled_session(tiny)
    session.ask([asked("done")])
    session.learn({"done": 0})
    assert session.labelled["done"].value == 0


def test_a_correction_without_a_log_is_recorded_and_teaches_nothing(tiny, tmp_path):
    session = labelled_session(tiny)
    before = snapshot(session)[0]
    correction = session.correct("done", "up")
    assert (correction.before, correction.after, correction.relearned) == (1, 0, 0)
    assert snapshot(session)[0] == before
    session.save(tmp_path / "session")
    again = session_on(tiny, strategies=STRATEGIES[:5])
    again.restore(tmp_path / "session")
    assert again.labelled["done"] == (CANDIDATES, 0, (1,))
    with pytest.raises(larc.DuplicateLabel):
        again.learn({"done": "up"})
    with pytest.raises(larc.DuplicateLabel):
        again.correct("done", 0)
    with pytest.raises(larc.NeverAsked):
        again.correct("never", 0)
    with pytest.raises(larc.NotACandidate):
        again.correct("done", 9)
    with pytest.raises(larc.LarcError, match="still awaited; learn it"):
        again.correct("awaited", 0)


LOG = larc.SessionLimits(log=2**20)
TURNS = [{"0": 0, "1": 1}, {"2": 2}, {"3": 0}]


def taught(substrate, turns, *, limits=LOG, restore=None):
    session = session_on(substrate, limits=limits)
    session.prompter = Forgetful()
    for number, labels in enumerate(turns):
        session.ask([Question(name, CANDIDATES, prompt=f"Next {name}: ") for name in labels])
        session.learn(labels)
        if number == restore[0] if restore else False:
            session.save(restore[1])
            session = session_on(substrate, limits=limits)
            session.prompter = Forgetful()
            session.restore(restore[1])
    return session


@pytest.mark.parametrize("restore", [None, 0, 2])
@pytest.mark.parametrize("name", ["0", "1", "2", "3"])
def test_with_a_log_a_corrected_session_is_the_one_that_never_erred(tiny, tmp_path, name, restore):
    right = [dict(labels) for labels in TURNS]
    wrong = [{n: (v + (n == name)) % 3 for n, v in labels.items()} for labels in TURNS]
    point = None if restore is None else (restore, tmp_path / "session")
    session, expected = taught(tiny, wrong, restore=point), taught(tiny, right)
    value = next(labels[name] for labels in right if name in labels)
    correction = session.correct(name, value)
    assert correction.relearned == 3 - [name in labels for labels in right].index(True)
    for strategy, episode in expected.episodes.items():
        assert session.episodes[strategy].factors.equal(episode.factors)
        assert session.episodes[strategy].step == episode.step
        ours, theirs = (e.stream.bit_generator.state for e in (session.episodes[strategy], episode))
        assert ours == theirs
    assert session.prompter.seen == expected.prompter.seen
    assert session.correct(name, (value + 1) % 3).relearned == correction.relearned


def test_a_correction_that_cannot_be_learned_changes_nothing(tiny):
    session = taught(tiny, TURNS)
    before = snapshot(session)
    with pytest.raises(larc.LarcError, match="has offsets"):
        session.correct("2", (0.0, 1.0, 1.0))
    assert snapshot(session) == before
    assert session.prompter.seen == [("0", 0), ("1", 1), ("2", 2), ("3", 0)]


def test_a_log_is_bounded_and_what_it_no_longer_reaches_is_recorded(tiny):
    one = taught(tiny, TURNS[:1])
    session = taught(tiny, TURNS, limits=larc.SessionLimits(log=one.log.size))
    assert [list(entry.values) for entry in session.log.entries] == [["3"]]
    assert session.log.size <= one.log.size
    assert session.correct("0", 1).relearned == 0
    assert session.correct("3", 1).relearned == 1


@pytest.mark.parametrize("restore", [None, 0, 2])
@pytest.mark.parametrize("name", ["0", "2", "3"])
def test_with_a_log_a_retracted_label_was_never_learned(tiny, tmp_path, name, restore):
    point = None if restore is None else (restore, tmp_path / "session")
    session = taught(tiny, TURNS, restore=point)
    turns = [{n: v for n, v in labels.items() if n != name} for labels in TURNS]
    expected = taught(tiny, [labels for labels in turns if labels])
    value = next(labels[name] for labels in TURNS if name in labels)
    retraction = session.retract(name)
    reached = [name in labels for labels in TURNS].index(True)
    assert (retraction.before, retraction.relearned) == (value, 3 - reached)
    for strategy, episode in expected.episodes.items():
        assert session.episodes[strategy].factors.equal(episode.factors)
        assert session.episodes[strategy].step == episode.step
        ours, theirs = (e.stream.bit_generator.state for e in (session.episodes[strategy], episode))
        assert ours == theirs
    assert session.prompter.seen == expected.prompter.seen
    # It awaits a label again, also after a restore, and a correction goes past the gap it left.
    session.save(tmp_path / "again")
    again = session_on(tiny, limits=LOG)
    again.prompter = Forgetful()
    again.restore(tmp_path / "again")
    assert list(again.pending) == [name]
    other = "1" if name == "0" else "0"
    assert again.correct(other, 2).relearned == 3
    again.learn({name: value})
    assert again.retract(name).relearned == 1


def test_what_cannot_be_retracted_is_refused_and_nothing_changes(tiny):
    session = labelled_session(tiny)
    before = snapshot(session)
    for name, sentence in (
        ("done", "a state cannot unlearn; restore a file saved before it"),
        ("awaited", "still awaited; drop it"),
        ("dropped", "there is none to retract"),
        (["done"], "the name of a question"),
    ):
        with pytest.raises(larc.LarcError, match=sentence):
            session.retract(name)
    with pytest.raises(larc.NeverAsked):
        session.retract("never")
    assert snapshot(session) == before
    full = taught(tiny, TURNS)
    full.limits = larc.SessionLimits(log=2**20, pending=1)
    before = snapshot(full)
    with pytest.raises(larc.SessionFull):
        full.retract("0")
    assert snapshot(full) == before


def controller_taught(substrate, turns, path=None):
    strategies = [Strategy("reset", retention="reset"), Strategy("carry"), Strategy("s", sham=True)]
    slow = larc.SlowState.initial(substrate, rank=4, seed=3)
    learner = larc.Learner(substrate, slow, larc.SGD(2.0))

    def maker():
        session = Session(learner, strategies, seed=5, limits=LOG)
        return larc.Controller(session, [LabelFrequency()], SLEEPY)

    controller = maker()
    for number, (name, label) in enumerate(turns.items()):
        controller.ask([Question(f"{name}{n}", CANDIDATES, prompt=f"{name}: ") for n in "ab"])
        controller.learn({f"{name}a": label})
        if number % 2:
            controller.drop([f"{name}b"])
        if path and number == 1:
            controller.save(path, "note")
            controller = maker()
            assert controller.restore(path) == "note"
    return controller


@pytest.mark.parametrize("restore", [False, True])
def test_a_corrected_controller_trusts_as_if_it_had_never_erred(tiny, tmp_path, restore):
    right, wrong = {"x": 1, "y": 1, "z": 2}, {"x": 1, "y": 0, "z": 2}
    expected = controller_taught(tiny, right)
    controller = controller_taught(tiny, wrong, tmp_path / "c" if restore else None)
    assert controller.forecaster.state() != expected.forecaster.state()
    assert controller.correct("ya", "down").relearned == 2
    assert controller.experts[0].counts == expected.experts[0].counts
    for name, episode in expected.session.episodes.items():
        assert controller.session.episodes[name].factors.equal(episode.factors)
    # What was said after the wrong label was said with it; only who is judged has changed.
    assert controller.forecaster.pending == expected.forecaster.pending
    assert controller.forecaster.components.learned == 3
    assert controller.correct("za", 0).relearned == 1


def test_the_first_correction_of_a_controller_equals_the_right_label_at_once(tiny):
    """With nothing asked between, trust is what it would have been, to the bit."""
    right, wrong = controller_taught(tiny, {"x": 1}), controller_taught(tiny, {"x": 2})
    wrong.correct("xa", 1)
    assert wrong.forecaster.state() == right.forecaster.state()
    assert wrong.experts[0].counts == right.experts[0].counts


def test_a_retracted_label_leaves_a_controllers_trust_and_experts_too(tiny, tmp_path):
    never, back = controller_taught(tiny, {"x": 1}), controller_taught(tiny, {"x": 1, "y": 0})
    never.ask([Question(f"y{n}", CANDIDATES, prompt="y: ") for n in "ab"])
    never.drop(["yb"])
    assert back.experts[0].counts != never.experts[0].counts
    assert back.retract("ya").relearned == 1
    assert back.experts[0].counts == never.experts[0].counts
    assert back.forecaster.state() == never.forecaster.state()
    assert set(back.session.pending) == set(never.session.pending)
    back.save(tmp_path / "c")
    for one in (never, back):
        one.learn({"ya": 2})
    assert back.forecaster.state() == never.forecaster.state()
    with pytest.raises(larc.LarcError, match="the name of a question"):
        back.retract(3)


class Failing(LabelFrequency):
    """Learns, and then fails."""

    def learn(self, labelled):
        super().learn(labelled)
        if any(question.name == "doom" for question, _ in labelled):
            raise RuntimeError("doom")


def test_an_expert_that_fails_leaves_states_prompter_experts_and_trust_as_they_were(tiny):
    session = session_on(tiny, strategies=STRATEGIES[:3])
    session.prompter = Forgetful()
    other = LabelFrequency()
    failing = Failing()
    failing.names = ("failing",)
    failing.ask = lambda questions: {"failing": LabelFrequency().ask(questions)["PRIOR"]}
    controller = larc.Controller(session, [other, failing])
    controller.ask([asked("a")])
    controller.learn({"a": 0})
    controller.ask([asked("doom")])
    before, trust = snapshot(session), controller.forecaster.state()
    counts = dict(other.counts), dict(failing.counts)
    with pytest.raises(RuntimeError, match="doom"):
        controller.learn({"doom": 1})
    assert snapshot(session) == before
    assert controller.forecaster.state() == trust
    assert (other.counts, failing.counts) == counts
    controller.drop(["doom"])
    with pytest.raises(larc.NeverAsked):
        controller.learn({"doom": 1})


@pytest.mark.parametrize("controlled", [False, True])
def test_an_item_that_arrives_with_other_candidates_is_learned_by_its_text_or_refused(
    tiny, controlled
):
    """Another order and another number mean what they say; another text is no candidate."""
    arriving = {
        "a": Recorded(Question("a", CANDIDATES[::-1]), 0, 1, label=0),
        "b": Recorded(Question("b", CANDIDATES[:2]), 0, 1, label=1),
    }
    sessions = [session_on(tiny, strategies=STRATEGIES[:3]) for _ in range(2)]
    one, expected = (larc.Controller(s, [LabelFrequency()]) if controlled else s for s in sessions)
    for each in (one, expected):
        each.ask([asked("a"), asked("b"), asked("c")])
    with pytest.warns(DeprecationWarning, match="arrive is now"):
        one.arrive(list(arriving.values()))
    expected.learn({"a": CANDIDATES[-1], "b": CANDIDATES[1]})
    for name, episode in sessions[1].episodes.items():
        assert sessions[0].episodes[name].factors.equal(episode.factors)
    assert dict(sessions[0].labelled) == dict(sessions[1].labelled)
    before = snapshot(sessions[0])
    trust = one.forecaster.state() if controlled else None
    with (
        pytest.warns(DeprecationWarning, match="arrive is now"),
        pytest.raises(larc.NotACandidate),
    ):
        one.arrive([Recorded(Question("c", ("left", "right")), 0, 1, label=0)])
    assert snapshot(sessions[0]) == before
    assert trust == (one.forecaster.state() if controlled else None)
