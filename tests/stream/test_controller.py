import numpy as np
import pytest
import torch

import larc
from larc.stream import PlainPrompter, Question, Strategy
from larc.stream.mixing.forecaster import ForecasterSettings
from larc.stream.mixing.sleep import SleepSettings
from larc.stream.session import Session

ANSWERS = ("up", "down", "flat")
STRATEGIES = (
    Strategy("reset", retention="reset"),
    Strategy("carry"),
    Strategy("sham", sham=True),
)
SLEEPY = ForecasterSettings(sleep=SleepSettings(floor=0.2, term=4, first=4, longest=8))


def controller_on(substrate, *, experts=(), settings=None):
    slow = larc.SlowState.initial(substrate, rank=4, seed=3)
    learner = larc.Learner(substrate, slow, larc.SGD(2.0))
    session = Session(learner, STRATEGIES, PlainPrompter(), seed=5)
    return larc.Controller(session, experts, settings)


def question(number):
    return Question(f"{number:03d}", ANSWERS, prompt="Next: ")


def run(controller, numbers, given=None):
    answers = []
    for number in numbers:
        experts = {name: [np.array(p)] for name, p in (given or {}).items()}
        answers += controller.ask([question(number)], experts)
        controller.learn({f"{number:03d}": 1})
    return answers


def loss(probabilities, label=1):
    target = np.eye(len(ANSWERS))[label]
    return 0.5 * float(np.square(np.asarray(probabilities) - target).sum())


def test_trust_goes_to_the_state_that_learns_where_learning_helps(tiny):
    controller = controller_on(tiny)
    answers = run(controller, range(12))
    weights = answers[-1].forecast.weights
    assert max(weights, key=weights.get) == "carry"
    assert loss(answers[-1].forecast.probabilities) < loss(answers[-1].said["reset"])


def test_its_loss_stays_within_the_bound_of_every_predictor(tiny):
    given = {"oracle": [0.01, 0.98, 0.01], "fool": [0.9, 0.05, 0.05]}
    controller = controller_on(tiny, experts=tuple(given))
    answers = run(controller, range(10), given)
    mine = sum(loss(answer.forecast.probabilities) for answer in answers)
    for name in (*given, "reset", "carry", "sham"):
        theirs = sum(loss(answer.said[name]) for answer in answers)
        assert mine - theirs <= controller.bound().total
        assert controller.forecaster.regrets()[name] == pytest.approx(mine - theirs)


def test_a_state_that_was_ruled_out_is_not_computed_and_can_come_back(tiny):
    given = {"oracle": [0.0, 1.0, 0.0]}
    substrate = larc.load_substrate("tiny")
    controller = controller_on(substrate, experts=("oracle",), settings=SLEEPY)
    states = controller.session.episodes
    most, slept, woken, before = 0, 0, False, set()
    for number in range(60):
        asleep = {strategy.name for strategy in STRATEGIES} - set(controller.awake)
        substrate.ledger.clear()
        factors = {name: states[name].factors for name in asleep}
        answer = run(controller, [number], given)[0]
        work = sum(entry.physical for entry in substrate.ledger.entries.values())
        assert answer.said.keys() == {strategy.name for strategy in STRATEGIES} - asleep | {
            "oracle"
        }
        assert all(states[name].factors is kept for name, kept in factors.items())
        if not asleep:
            most = max(most, work)
        elif asleep & {"carry", "sham"}:
            slept += 1
            assert work < most
        woken = woken or bool(before - asleep)
        before = asleep
    assert slept > 5
    assert woken


def test_going_on_from_a_file_is_going_on(tiny, tmp_path):
    given = {"oracle": [0.1, 0.8, 0.1]}
    whole = controller_on(tiny, experts=("oracle",), settings=SLEEPY)
    expected = run(whole, range(14), given)
    first = controller_on(tiny, experts=("oracle",), settings=SLEEPY)
    run(first, range(6), given)
    first.ask([question(6)], {"oracle": [np.array(given["oracle"])]})  # its label is outstanding
    first.save(tmp_path / "controller", {"note": 1})
    again = controller_on(tiny, experts=("oracle",), settings=SLEEPY)
    assert again.restore(tmp_path / "controller") == {"note": 1}
    again.learn({"006": 1})
    rest = run(again, range(7, 14), given)
    for mine, other in zip(rest, expected[7:], strict=True):
        assert mine.forecast == other.forecast
        assert mine.said.keys() == other.said.keys()
    cold = controller_on(tiny, experts=("oracle",), settings=SLEEPY)
    assert run(cold, range(7, 14), given)[0].forecast != expected[7].forecast


def test_what_cannot_be_restored_changes_nothing(tiny, tmp_path):
    controller = controller_on(tiny)
    run(controller, range(2))
    controller.session.save(tmp_path / "plain")
    controller.save(tmp_path / "mine")
    other = controller_on(tiny, experts=("oracle",))
    start = other.session.episodes["carry"].factors
    sleepy = controller_on(tiny, settings=SLEEPY)
    with pytest.raises(larc.LarcError, match="give it the same settings"):
        sleepy.restore(tmp_path / "mine")
    for name, problem in (("plain", "no controller"), ("mine", "other predictors")):
        with pytest.raises(larc.LarcError, match=problem):
            other.restore(tmp_path / name)
        assert other.session.episodes["carry"].factors is start


def test_experts_answer_every_question(tiny):
    controller = controller_on(tiny, experts=("oracle",))
    with pytest.raises(larc.LarcError, match="each answer every question"):
        controller.ask([question(0)])
    with pytest.raises(larc.LarcError, match="give one for each"):
        controller.ask([question(0)], {"oracle": [np.ones(3) / 3]}, contexts=("a", "b"))
    assert not controller.session.pending


def test_questions_without_labels_are_dropped_and_change_nothing(tiny):
    """What is asked once a question is dropped is answered as if that had never been asked.

    Nothing else was asked while it was awaited; what is would be guarded against its late label.
    """
    plain, dropping = controller_on(tiny), controller_on(tiny)
    run(plain, range(4))
    run(dropping, range(2))
    dropping.ask([question(90), question(91)])
    dropping.drop(["090", "091"])
    run(dropping, range(2, 4))
    one, other = (controller.ask([question(50)])[0].forecast for controller in (plain, dropping))
    assert one == other
    assert dropping.session.pending.keys() == {"050"}
    assert dropping.forecaster.pending == ("050",)
    with pytest.raises(larc.LarcError, match="nothing awaits it"):
        dropping.drop(["050", "090"])
    dropping.session.hold([question(60)])  # history, which the forecaster never saw
    dropping.drop(["050", "060"])
    assert not dropping.session.pending
    assert not dropping.forecaster.pending


def test_labels_of_held_history_teach_the_states_and_judge_nobody(tiny):
    controller = controller_on(tiny)
    controller.session.hold([question(60)])
    before = controller.session.episodes["carry"].factors.B.clone()
    updates = controller.learn({"060": 1})
    assert "carry" in updates
    assert not torch.equal(controller.session.episodes["carry"].factors.B, before)
    assert controller.forecaster.components.learned == 0
    assert not controller.session.pending


@pytest.mark.parametrize("wrong", [[0.5, 0.6, 0.1], [0.5, 0.5]])
def test_an_expert_that_is_wrong_is_refused_before_anything_is_asked(tiny, wrong):
    controller = controller_on(tiny, experts=("one",))
    with pytest.raises(larc.LarcError, match=r"probabilities|sum"):
        controller.ask(
            [question(1), question(2)], {"one": [np.array([0.2, 0.3, 0.5]), np.array(wrong)]}
        )
    assert not controller.session.pending
    assert not controller.forecaster.pending


def test_a_question_is_awaited_once(tiny):
    controller = controller_on(tiny)
    controller.ask([question(1)])
    for again in ([question(1)], [question(2), question(2)]):
        with pytest.raises(larc.LarcError, match="asked already"):
            controller.ask(again)
    assert controller.session.pending.keys() == {"001"}
    assert controller.forecaster.pending == ("001",)
