"""Plans of many sessions in one batch: the work is shared, and nothing else is."""

import numpy as np
import torch

import larc
from larc.stream import Question, Strategy
from larc.stream.plans import BATCH_ROUNDING, compute
from tests.stream.test_session import CANDIDATES, session_on


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
