import dataclasses

import numpy as np
import pytest

import larc
from larc.interventions import CELLS
from larc.questions import ask
from tests.questions import CANDIDATES, LOSSES, PROMPTS, random_factors


def tasks():
    return [
        larc.Task(
            prompt,
            CANDIDATES,
            support=np.roll(LOSSES, shift).tolist(),
            query=np.roll(LOSSES, shift).tolist(),
            group=f"group {number}",
            family="one" if number < 2 else "two",
        )
        for number, prompt in enumerate(PROMPTS)
        for shift in range(4)
    ]


def trained(substrate, seed=1):
    slow = larc.SlowState.initial(substrate, seed=seed)
    return dataclasses.replace(slow, factors=random_factors(substrate, seed))


def test_each_cell_is_what_the_public_api_gives_by_hand(tiny):
    slow, rule = trained(tiny), larc.SGD(0.5)
    predictions = larc.predict(tiny, slow, tasks(), seed=3, rule=rule)
    learner = larc.Learner(tiny, slow, rule)
    for number, task in enumerate(tasks()):
        seed = int(np.random.SeedSequence([3, number]).generate_state(1, np.uint64)[0])
        real, sham, reset = learner.begin(), learner.begin(seed), learner.begin()
        for _ in range(2):
            real.update(larc.CandidateLosses(task.prompt, task.candidates, task.support))
            permuted = sham.stream.permutation(np.asarray(task.support)).tolist()
            sham.update(larc.CandidateLosses(task.prompt, task.candidates, permuted))
        for cell, episode in zip(CELLS, (real, reset, sham, reset), strict=True):
            alone = episode.read(task.prompt, task.candidates)
            # A batch of one and a batch of many: rounding, through two updates.
            assert getattr(predictions, cell)[number] == pytest.approx(alone.numpy(), abs=1e-5)


def test_the_two_reset_cells_are_one_read_and_groups_share_it():
    substrate = larc.load_substrate("tiny")
    predictions = larc.predict(substrate, trained(substrate), tasks(), seed=3)
    assert predictions.real_reset is predictions.sham_reset
    ledger = substrate.ledger
    rows = {len(ask(substrate, p, CANDIDATES).packed.rows[0].tokens) for p in PROMPTS}
    # Twelve tasks of three prompts: twelve kept reads for each feedback, and three resets.
    assert ledger.entries["query", "mixer"].effective == (4 + 4 + 1) * sum(rows)


def test_predictions_do_not_look_at_queries(tiny):
    closed = [dataclasses.replace(task, query=None) for task in tasks()]
    one = larc.predict(tiny, trained(tiny), closed, seed=3)
    other = larc.predict(tiny, trained(tiny), tasks(), seed=3)
    for cell in CELLS:
        assert np.array_equal(getattr(one, cell), getattr(other, cell))


def test_sham_streams_are_private_and_seeded(tiny):
    one, same, other = (larc.predict(tiny, trained(tiny), tasks(), seed=s) for s in (3, 3, 4))
    assert np.array_equal(one.sham_keep, same.sham_keep)
    assert not np.array_equal(one.sham_keep, other.sham_keep)
    assert np.array_equal(one.real_keep, other.real_keep)


def test_sham_feedback_is_a_fresh_permutation_at_each_step(tiny, monkeypatch):
    seen = []
    real = larc.Learner.update_many

    def watched(learner, updates):
        seen.append([piece.losses for _, (piece,) in updates])
        return real(learner, updates)

    monkeypatch.setattr(larc.Learner, "update_many", watched)
    many = [dataclasses.replace(tasks()[0], support=(0.0, 0.1, 0.2, 0.3))] * 120
    larc.predict(tiny, trained(tiny), many, seed=5)
    orders = [losses for step in seen for losses in step[120:]]
    assert all(sorted(order) == [0.0, 0.1, 0.2, 0.3] for order in orders)
    assert all(losses == (0.0, 0.1, 0.2, 0.3) for step in seen for losses in step[:120])
    # 240 draws of 24 orders: all of them appear, the identity among them, none too often.
    assert len(set(orders)) == 24
    assert max(orders.count(order) for order in set(orders)) < 30
    assert seen[0][120:] != seen[1][120:]


def test_the_report_is_the_contrast_of_its_cells(tiny):
    report = larc.evaluate(tiny, trained(tiny), tasks(), seed=3, rule=larc.SGD(1.0))
    risk = report.risk
    assert risk["real_reset"] == risk["sham_reset"]
    assert pytest.approx(risk["real_reset"] - risk["real_keep"], abs=1e-12) == report.G
    assert pytest.approx(risk["sham_keep"] - risk["real_keep"], abs=1e-12) == report.D
    assert report.groups == 3
    assert not report.intervals.known
    text = str(report)
    assert f"{100 * report.G:.2f}" in text
    assert "no interval over 3 groups: that takes 4 groups" in text


def test_groups_enough_give_an_interval(tiny):
    more = [dataclasses.replace(task, group=f"{n}") for n, task in enumerate(tasks() * 2)]
    report = larc.evaluate(tiny, trained(tiny), more, seed=3, rule=larc.SGD(1.0))
    assert report.intervals.known
    assert report.intervals.lower[0] <= report.G <= report.intervals.upper[0]
    assert "99 % interval [" in str(report)
    alone = [dataclasses.replace(task, family=task.group) for task in more]
    families = larc.evaluate(tiny, trained(tiny), alone, seed=3, rule=larc.SGD(1.0))
    assert not families.intervals.known  # one group of each family: nothing varies


def test_losses_of_any_range_are_called_losses(tiny):
    wide = [dataclasses.replace(task, query=[5 * q for q in task.query]) for task in tasks()]
    report = larc.evaluate(tiny, trained(tiny), wide, seed=3, rule=larc.SGD(1.0))
    assert "error" not in str(report)
    assert "%" not in str(report)
    assert str(report).startswith("expected query loss ")
    assert f"G = {report.G:.2f}, no interval" in str(report)


def test_feedback_helps_and_its_binding_matters_on_a_task_that_can_be_learned(tiny):
    report = larc.evaluate(tiny, trained(tiny), tasks(), seed=3, rule=larc.SGD(2.0), inner_steps=4)
    assert report.G > 0.02
    assert report.D > 0.02


def test_no_steps_change_nothing(tiny):
    report = larc.evaluate(tiny, trained(tiny), tasks(), seed=3, inner_steps=0)
    assert pytest.approx(0, abs=1e-6) == report.G


def test_evaluation_needs_queries(tiny):
    closed = [dataclasses.replace(task, query=None) for task in tasks()]
    with pytest.raises(larc.LarcError, match="query losses"):
        larc.evaluate(tiny, trained(tiny), closed, seed=1)
    with pytest.raises(larc.LarcError, match="at least one task"):
        larc.evaluate(tiny, trained(tiny), [], seed=1)


def test_families_and_groups_weigh_equally(tiny):
    more = [*tasks(), *tasks()[8:]]  # the last group twice over: same group means
    one = larc.evaluate(tiny, trained(tiny), tasks(), seed=3)
    other = larc.evaluate(tiny, trained(tiny), more, seed=3)
    assert one.risk["real_reset"] == pytest.approx(other.risk["real_reset"], abs=1e-6)
