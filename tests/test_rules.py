from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.feedback import expected_risk
from larc.residual import Factors
from larc.rules import Descent, StepResult, parse_rule, product_norm, rule_facts
from tests.questions import small_tasks


@dataclass(frozen=True)
class Bowls:
    """A law with a known answer: each episode's loss is a steepness times a distance squared."""

    centers: torch.Tensor  # [episodes]
    steepness: torch.Tensor
    asked: list[int]

    def losses(self, factors: Factors) -> torch.Tensor:
        self.asked.append(len(factors.A))
        distance = (factors.A - self.centers[:, None, None]).square().sum((1, 2))
        return self.steepness * (distance + factors.B.square().sum((1, 2)))

    def gradients(self, factors: Factors) -> tuple[torch.Tensor, Factors]:
        leaf = factors.leaf()
        losses = self.losses(leaf)
        losses.sum().backward()
        return losses.detach(), leaf.map(lambda tensor: tensor.grad)

    def select(self, episodes):
        return Bowls(self.centers[episodes], self.steepness[episodes], self.asked)


def bowls(centers, steepness=None):
    centers = torch.tensor(centers)
    steep = torch.ones(len(centers)) if steepness is None else torch.tensor(steepness)
    return Bowls(centers, steep, [])


def at_zero(count):
    return Factors(torch.zeros(count, 1, 2), torch.zeros(count, 2, 1))


def test_each_episode_shortens_its_own_step():
    objective = bowls([10.0, 0.1, 0.001])
    done = Descent(length=1.0, tries=8).step(objective, at_zero(3))
    moved = done.factors.norm()
    # A step of s towards a minimum r away is fine up to 2 r; tried are 1, 1/4, 1/16, ...
    assert moved.tolist() == pytest.approx([1.0, 0.25, 0.25**5])
    assert bool((done.after <= done.losses).all())


@dataclass(frozen=True)
class Uphill:
    """A rule that looks, and goes up all the same."""

    def step(self, objective, factors, *, differentiable=False):
        losses, gradients = objective.gradients(factors)
        moved = factors.combine(gradients, lambda old, slope: old + 5 * slope)
        return StepResult(moved, losses, objective.losses(moved).detach())


def test_steps_that_were_looked_at_are_counted():
    """In training and in episodes alike, and a rule that raises the loss is caught at it."""
    tiny = larc.load_substrate("tiny")
    slow = larc.SlowState.initial(tiny, rank=4, seed=1)
    how = larc.TrainingSettings(objective="adapted", rule=Descent(1.0), batch=2, seed=1)
    larc.Trainer(tiny, slow, small_tasks(2), how).advance()
    learner = larc.Learner(tiny, slow, Descent(1.0))
    learner.begin().update(larc.CandidateLosses("Which? ", ["a", "b"], [0, 1]))
    assert tiny.ledger.total("checked").calls == 2 * 2 + 1
    assert tiny.ledger.total("raised").calls == 0
    larc.Trainer(tiny, slow, small_tasks(2), replace(how, rule=Uphill())).advance()
    assert tiny.ledger.total("checked").calls == 9
    assert tiny.ledger.total("raised").calls == 4
    worse = larc.Learner(tiny, slow, Uphill()).begin()
    worse.update(larc.CandidateLosses("Which? ", ["a", "b"], [0, 1]))
    assert tiny.ledger.total("raised").calls == 5


def test_the_size_of_the_gradient_is_not_the_size_of_the_step():
    done = Descent(length=0.5).step(bowls([10.0, 10.0], [1e-4, 1e4]), at_zero(2))
    assert done.factors.norm().tolist() == pytest.approx([0.5, 0.5])


def test_a_step_that_only_raises_the_loss_is_refused():
    start = Factors(torch.full((1, 1, 2), 3.0), torch.zeros(1, 2, 1))
    done = Descent().step(bowls([3.0]), start)
    assert done.factors.equal(start)
    assert done.after.tolist() == done.losses.tolist() == [0.0]


def test_a_fitted_episode_moves_no_further_and_costs_nothing():
    objective = bowls([5.0, 0.2])
    done = Descent(length=0.05, steps=30, tolerance=0.01).step(objective, at_zero(2))
    assert float(done.after[1]) <= 0.01
    assert float(done.factors.norm()[0]) == pytest.approx(1.5, rel=1e-5)
    # Once the second episode is fitted only the first is differentiated and tried.
    alone = objective.asked.index(1)
    assert set(objective.asked[:alone]) == {2}
    assert set(objective.asked[alone:]) == {1}
    assert len(objective.asked[alone:]) > 20


def test_a_refused_step_is_not_tried_again():
    objective = bowls([3.0])
    start = Factors(torch.full((1, 1, 2), 3.0), torch.full((1, 2, 1), 1e-4))
    done = Descent(steps=9, tries=3).step(objective, start)  # every length overshoots
    assert done.factors.equal(start)
    assert len(objective.asked) == 1 + 3


def test_a_gradient_too_small_to_have_a_direction_moves_nothing():
    """Its squares are lost to float32; divided by their root, it would jump by millions."""
    objective = bowls([1e-4], [1e-20])
    done = Descent(length=1.0).step(objective, at_zero(1))
    assert done.factors.equal(at_zero(1))


@given(steps=st.integers(1, 5), tries=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_an_update_stays_within_its_budget_and_never_raises_the_loss(steps, tries, seed):
    stream = np.random.default_rng(seed)
    objective = bowls(stream.normal(size=4).astype("f4"), stream.uniform(0, 9, 4).astype("f4"))
    done = Descent(length=2.0, steps=steps, tries=tries).step(objective, at_zero(4))
    assert len(objective.asked) <= steps * (1 + tries)
    assert bool((done.after <= done.losses).all())


def test_a_trust_region_bounds_the_product_of_the_factors():
    start = Factors(torch.ones(1, 1, 2), torch.zeros(1, 2, 1))

    class Pull(Bowls):
        def losses(self, factors):
            return 100 + 0 * factors.A.sum((1, 2)) - factors.B.sum((1, 2))

        def select(self, episodes):
            return self

    objective = Pull(torch.zeros(1), torch.ones(1), [])
    free = Descent(length=1.0, steps=9).step(objective, start)
    held = Descent(length=1.0, steps=9, radius=2.0).step(objective, start)
    assert float(product_norm(free.factors)) > 9
    assert 1.5 < float(product_norm(held.factors)) <= 2.0


def test_the_product_norm_is_that_of_the_matrix():
    stream = torch.Generator().manual_seed(1)
    factors = Factors(
        torch.randn(3, 2, 7, generator=stream), torch.randn(3, 7, 2, generator=stream)
    )
    plain = torch.linalg.matrix_norm(factors.B @ factors.A)
    # Float32 sums of 49 products, in two orders.
    assert torch.allclose(product_norm(factors), plain, rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 4])
def test_no_update_raises_the_loss_of_its_feedback_on_a_model(tiny, steps):
    slow = larc.SlowState.initial(tiny, rank=4, seed=5)
    learner = larc.Learner(tiny, slow, larc.Descent(length=8.0, steps=steps))
    tasks = small_tasks()
    episodes = [learner.begin() for _ in tasks]
    for _ in range(3):
        updates = learner.update_many(
            [
                (episode, larc.CandidateLosses(task.prompt, task.candidates, task.support))
                for episode, task in zip(episodes, tasks, strict=True)
            ]
        )
        assert all(update.after <= update.loss for update in updates)
        for task, episode, update in zip(tasks, episodes, updates, strict=True):
            # Not the rule's own word: read again, alone. A few roundings of numbers below 1.
            read = episode.read(task.prompt, task.candidates)
            risk = float(expected_risk(read.log(), task.support))
            assert risk == pytest.approx(update.after, abs=1e-5)
    assert any(update.after < update.loss for update in updates)


def test_a_descending_episode_is_saved_and_resumed(tiny, tmp_path):
    slow = larc.SlowState.initial(tiny, rank=4, seed=5)
    learner = larc.Learner(tiny, slow, parse_rule("descent:2.0:3"))
    feedback = larc.CandidateLosses("Even? ", ["two", "three"], [0, 1])
    whole, saved = learner.begin(), learner.begin()
    whole.update(feedback)
    whole.update(feedback)
    saved.update(feedback)
    saved.save(tmp_path / "episode")
    again = learner.resume(tmp_path / "episode")
    again.update(feedback)
    assert again.factors.equal(whole.factors)
    other = larc.Learner(tiny, slow, parse_rule("descent:2.0:4"))
    with pytest.raises(larc.LarcError, match="another update rule"):
        other.resume(tmp_path / "episode")


def test_training_through_a_descending_rule(tiny):
    for objective in ("adapted", "exact"):
        slow = larc.train(
            tiny, small_tasks(), objective=objective, updates=2, seed=1, rule=Descent(length=1.0)
        )
        assert bool(slow.factors.finite())
        assert not slow.factors.equal(slow.origin)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("sgd", larc.SGD()),
        ("sgd:0.5", larc.SGD(0.5)),
        ("descent", Descent()),
        ("descent:0.5:8", Descent(0.5, 8)),
        ("descent:steps=2:tolerance=0.1", Descent(steps=2, tolerance=0.1)),
    ],
)
def test_a_rule_is_named_by_a_setting(text, rule):
    assert parse_rule(text) == rule
    assert rule_facts(rule)["name"] == type(rule).__name__


@pytest.mark.parametrize(
    "text", ["", "adam", "sgd:x", "sgd:1:2", "descent:1:2:3:4:5:6:7", "descent:size=3"]
)
def test_what_names_no_rule_is_refused(text):
    with pytest.raises(larc.LarcError, match="names no update rule"):
        parse_rule(text)


@pytest.mark.parametrize(
    "wrong", [{"length": 0.0}, {"shrink": 1.0}, {"steps": 0}, {"tries": 0}, {"radius": -1.0}]
)
def test_a_rule_that_could_not_descend_is_refused(wrong):
    with pytest.raises(larc.LarcError):
        Descent(**wrong)
