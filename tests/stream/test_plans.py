"""Plans of many sessions in one batch: the work is shared, and nothing else is."""

from threading import Thread

import numpy as np
import pytest
import torch

import larc
from larc.stream import Question, Strategy
from larc.stream.plans import BATCH_ROUNDING, compute
from tests.stream.test_session import CANDIDATES, STRATEGIES, session_on


def questions(number, count=1):
    return [
        Question(f"{number} {n}", CANDIDATES, prompt=f"Ticket {number} {'x' * n}: ")
        for n in range(count)
    ]


def snapshot(session):
    return (
        {
            name: (e.factors, e.step, e.stream.bit_generator.state)
            for name, e in session.episodes.items()
        },
        dict(session.pending),
        dict(session.labelled),
        session.events,
        session.prompter.state(),
    )


def commit_all(learner, plans):
    results = compute(learner, plans)
    return [plan.session.commit(plan, result) for plan, result in zip(plans, results, strict=True)]


def test_64_sessions_asked_together_take_one_physical_batch_each_way():
    substrate = larc.load_substrate("tiny")
    substrate.chunk_positions = 1 << 20
    ledger = substrate.ledger
    strategies = [Strategy("keep"), Strategy("sham", sham=True), Strategy("r", retention="reset")]
    learner = session_on(substrate).learner
    sessions = [larc.Session(learner, strategies, seed=n) for n in range(64)]
    alone = [larc.Session(learner, strategies, seed=n) for n in range(64)]
    for turn in range(2):
        asked = [[Question(f"{n} {turn}", CANDIDATES, prompt=f"Ticket {n}: ")] for n in range(64)]
        ledger.clear()
        together = commit_all(learner, [s.plan(q) for s, q in zip(sessions, asked, strict=True)])
        assert ledger.total("mixer").calls == substrate_layers_of_one_forward(substrate)
        for session, question, answers in zip(alone, asked, together, strict=True):
            for name, (policy,) in session.ask(question).items():
                np.testing.assert_allclose(answers[name][0], policy, atol=BATCH_ROUNDING, rtol=0)
        labels = [{f"{n} {turn}": n % 3} for n in range(64)]
        ledger.clear()
        commit_all(learner, [s.plan_learning(x) for s, x in zip(sessions, labels, strict=True)])
        forwards = ledger.total("mixer").calls
        assert forwards == substrate_layers_of_one_forward(substrate)
        for session, label in zip(alone, labels, strict=True):
            session.learn(label)
    for one, other in zip(sessions, alone, strict=True):
        for name in one.episodes:
            torch.testing.assert_close(
                one.episodes[name].factors.B, other.episodes[name].factors.B, atol=1e-5, rtol=1e-4
            )


def substrate_layers_of_one_forward(substrate):
    """Return how many calls the ledger counts for one physical batch."""
    fresh = larc.load_substrate("tiny")
    session_on(fresh, strategies=[Strategy("keep")]).ask(questions(0))
    return fresh.ledger.total("mixer").calls


def test_alone_a_plan_gives_the_bits_of_asking_and_learning(tiny):
    one, other = session_on(tiny), session_on(tiny)
    for turn in range(3):
        asked = [Question(f"{turn} {n}", CANDIDATES, prompt=f"{turn}: ") for n in range(2)]
        before = snapshot(one)
        plan = one.plan(asked)
        results = compute(one.learner, [plan])[0]
        assert snapshot(one) == before
        planned, direct = one.commit(plan, results), other.ask(asked)
        assert all(np.array_equal(planned[name], direct[name]) for name in direct)
        labels = {f"{turn} {n}": n for n in range(2)}
        before = snapshot(one)
        learning = one.plan_learning(labels)
        results = compute(one.learner, [learning])[0]
        assert snapshot(one) == before
        assert one.commit(learning, results) == other.learn(labels)
    for name in one.episodes:
        assert one.episodes[name].factors.equal(other.episodes[name].factors)


@pytest.mark.parametrize("spoiled", [0, 1, 2])
def test_one_refused_read_harms_nobody_else_and_says_whose_it_was(tiny, spoiled):
    sessions = [session_on(tiny, seed=n) for n in range(3)]
    asked = [questions(n) for n in range(3)]
    asked[spoiled].append(Question("long", CANDIDATES, prompt="x" * 999))
    plans = [s.plan(q) for s, q in zip(sessions, asked, strict=True)]
    for number, (plan, results) in enumerate(
        zip(plans, compute(sessions[0].learner, plans), strict=True)
    ):
        if number == spoiled:
            with pytest.raises(larc.LarcError, match="question 'long' under strategy 'reset' was"):
                plan.session.commit(plan, results)
            assert not sessions[number].pending
        else:
            assert plan.session.commit(plan, results)["carry"][0].sum() == pytest.approx(1)
            assert sessions[number].pending


@pytest.mark.parametrize("spoiled", [0, 1, 2])
def test_one_refused_update_harms_nobody_else_and_says_whose_it_was(tiny, spoiled):
    sessions = [session_on(tiny, seed=n) for n in range(3)]
    for number, session in enumerate(sessions):
        session.ask(questions(number))
    wild = sessions[spoiled].episodes["carry"]
    wild.factors = wild.factors.map(lambda tensor: tensor + 1e30)  # its loss is no number
    plans = [session.plan_learning({f"{n} 0": "up"}) for n, session in enumerate(sessions)]
    before = snapshot(sessions[spoiled])
    for number, (plan, results) in enumerate(
        zip(plans, compute(sessions[0].learner, plans), strict=True)
    ):
        if number == spoiled:
            with pytest.raises(larc.LarcError, match=r"strategy 'carry' was refused: .*not finite"):
                plan.session.commit(plan, results)
            assert snapshot(sessions[number]) == before
        else:
            plan.session.commit(plan, results)
            alone = session_on(tiny, seed=number)
            alone.ask(questions(number))
            alone.learn({f"{number} 0": "up"})
            for name, episode in sessions[number].episodes.items():
                torch.testing.assert_close(
                    episode.factors.B, alone.episodes[name].factors.B, atol=1e-6, rtol=1e-4
                )


def test_what_no_longer_holds_is_refused_and_changes_nothing(tiny):
    session = session_on(tiny)
    learner = session.learner
    session.ask(questions(1, 3))
    reading, learning, second = (
        session.plan(questions(2)),
        session.plan_learning({"1 0": 0}),
        session.plan_learning({"1 1": 0}),
    )
    session.ask(questions(3))  # asking leaves plans as they are
    reads, moves, others = compute(learner, [reading, learning, second])
    session.commit(learning, moves)
    before = snapshot(session)
    for plan, results in ((reading, reads), (second, others), (learning, moves)):
        with pytest.raises(larc.StalePlan, match="plan it again"):
            session.commit(plan, results)
    dropped = session.plan_learning({"1 2": 0})
    session.drop(["1 2"])
    with pytest.raises(larc.StalePlan, match="'1 2' was dropped"):
        session.commit(dropped, compute(learner, [dropped])[0])
    twice = session.plan_learning({"1 1": 0})
    compute(learner, [twice])
    with pytest.raises(larc.LarcError, match="computed once"):
        session.commit(twice, compute(learner, [twice])[0])
    again = session.plan(questions(4))
    results = compute(learner, [again])[0]
    with pytest.raises(larc.LarcError, match="no plan of this session"):
        session_on(tiny).commit(again, results)
    with pytest.raises(larc.LarcError, match="give what was computed for it"):
        session.commit(again, results[:-1])
    session.commit(again, results)
    with pytest.raises(larc.LarcError, match="asked already"):
        session.commit(again, results)
    assert snapshot(session)[0] == before[0]
    session.ask(questions(5))  # and it goes on


def test_a_session_of_another_substrate_is_refused_by_itself(tiny):
    stranger, session = session_on(larc.load_substrate("tiny")), session_on(tiny)
    plans = [stranger.plan(questions(1)), session.plan(questions(1))]
    first, second = compute(session.learner, plans)
    with pytest.raises(larc.LarcError, match="compute it with its own"):
        stranger.commit(plans[0], first)
    assert session.commit(plans[1], second)


def test_controllers_and_sessions_share_a_batch_with_reads_and_learning_in_it():
    substrate = larc.load_substrate("tiny")
    substrate.chunk_positions = 1 << 20
    strategies = [Strategy("keep"), Strategy("reset", retention="reset")]
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))

    def makers():
        session = larc.Session(learner, strategies, seed=1)
        return larc.Controller(larc.Session(learner, strategies, seed=2)), session

    (controller, session), (lone, single) = makers(), makers()
    for turn in range(4):
        asked = [Question(f"{turn}", CANDIDATES, prompt="Next: ")]
        plans = [controller.plan(asked), session.plan(asked)]
        substrate.ledger.clear()
        first, second = compute(learner, plans)
        assert substrate.ledger.total("mixer").calls == substrate_layers_of_one_forward(substrate)
        (answer,), answers = controller.commit(plans[0], first), session.commit(plans[1], second)
        (expected,) = lone.ask(asked)
        assert answer.forecast.probabilities == pytest.approx(
            expected.forecast.probabilities, abs=BATCH_ROUNDING
        )
        assert answers["keep"][0] == pytest.approx(single.ask(asked)["keep"][0], abs=BATCH_ROUNDING)
        plans = [controller.plan_learning({f"{turn}": 1}), session.plan_learning({f"{turn}": 1})]
        first, second = compute(learner, plans)
        controller.commit(plans[0], first)
        session.commit(plans[1], second)
        lone.learn({f"{turn}": 1})
        single.learn({f"{turn}": 1})
    with pytest.raises(larc.LarcError, match="no plan of this controller"):
        lone.commit(plans[0], first)
    with pytest.raises(larc.StalePlan):
        controller.commit(plans[0], first)


def test_sessions_of_different_rules_share_one_update_each(tiny):
    rules = ["", "sgd:0.1", "descent:0.5"]
    made = [
        session_on(tiny, strategies=[Strategy("one", rule=rule)], seed=n)
        for n, rule in enumerate(rules * 2)
    ]
    for session in made:
        session.ask(questions(0))
    plans = [session.plan_learning({"0 0": 1}) for session in made]
    for plan, results in zip(plans, compute(made[0].learner, plans), strict=True):
        (update,) = plan.session.commit(plan, results).values()
        assert update.distance > 0
    for first, second in zip(made[:3], made[3:], strict=True):
        assert first.episodes["one"].rule == second.episodes["one"].rule
        torch.testing.assert_close(
            first.episodes["one"].factors.B, second.episodes["one"].factors.B, atol=1e-6, rtol=1e-4
        )


def test_threads_ask_and_teach_one_session_one_after_the_other(tiny):
    """Every method is atomic: from eight threads nothing is lost and nothing is learned twice."""
    session = session_on(tiny, strategies=STRATEGIES[:2])
    problems = []

    def work(number):
        try:
            for turn in range(3):
                name = f"{number} {turn}"
                session.ask([Question(name, CANDIDATES, prompt=f"{name}: ")])
                session.learn({name: number % 3})
        except Exception as error:  # told in the thread that can fail the test
            problems.append(error)

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not problems
    assert session.episodes["carry"].step == session.point == len(session.labelled) == 24
    assert not session.pending
