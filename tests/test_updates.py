"""Updates in shared batches: each by its own rule, and refusals one by one if that is wanted."""

from dataclasses import dataclass

import pytest
import torch

import larc
from larc.updates import Update
from tests.questions import random_factors

CANDIDATES = ("up", "down")


def learner_on(substrate):
    return larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1), larc.SGD(0.5))


def label(prompt="Next: "):
    return larc.Label(prompt, CANDIDATES, 0)


@dataclass(frozen=True)
class Picky:
    """Refuses what is too easy, and cannot say whose it was."""

    def step(self, objective, factors, *, differentiable=False):
        result = larc.SGD(0.5).step(objective, factors, differentiable=differentiable)
        if bool((result.losses < 0.2).any()):
            raise larc.LarcError("that is too easy.")
        return result


def test_each_episode_moves_by_its_own_rule(tiny):
    learner = learner_on(tiny)
    rules = [larc.SGD(0.5), larc.Descent(0.25), larc.SGD(0.1), larc.SGD(0.5)]
    together = [learner.begin(rule=rule) for rule in rules]
    updates = learner.update_many([(episode, label()) for episode in together])
    assert updates[1].distance == pytest.approx(0.25, rel=1e-4)
    for rule, episode in zip(rules, together, strict=True):
        alone = learner.begin(rule=rule)
        alone.update(label())
        torch.testing.assert_close(episode.factors.B, alone.factors.B, atol=1e-6, rtol=1e-4)


def test_refusals_are_returned_in_their_places_and_all_others_move(tiny):
    learner = learner_on(tiny)
    good, long, wild, last = (learner.begin() for _ in range(4))
    wild.factors = random_factors(tiny, 1, scale=1e30)
    feedback = [label(), label("x" * 999), label(), label()]
    updates = learner.update_many(
        list(zip((good, long, wild, last), feedback, strict=True)), refusals="return"
    )
    assert [type(one) for one in updates] == [Update, larc.LarcError, type(updates[2]), Update]
    assert "over the limit" in str(updates[1])
    assert "not finite" in str(updates[2])
    assert [episode.step for episode in (good, long, wild, last)] == [1, 0, 0, 1]
    reads = learner.read_many(
        [(good, "Next: ", CANDIDATES), (good, "x" * 999, CANDIDATES), (last, "N: ", CANDIDATES)],
        refusals="return",
    )
    assert isinstance(reads[1], larc.LarcError)
    assert float(reads[0].sum()) == pytest.approx(1)
    assert float(reads[2].sum()) == pytest.approx(1)


def test_a_rule_that_refuses_is_asked_about_each_by_itself(tiny):
    learner = learner_on(tiny)
    easy, hard = learner.begin(rule=Picky()), learner.begin(rule=Picky())
    sure = larc.Label("Next: ", CANDIDATES, 0, offsets=(9.0, 0.0))
    for order in ([(easy, sure), (hard, label())], [(hard, label()), (easy, sure)]):
        results = learner.update_many(order, refusals="return")
        assert sorted(type(one).__name__ for one in results) == ["LarcError", "Update"]
    assert (easy.step, hard.step) == (0, 2)
    with pytest.raises(larc.LarcError, match="too easy"):
        learner.update_many([(hard, label()), (easy, sure)])
    assert (easy.step, hard.step) == (0, 2)


def test_an_episode_may_start_from_another_slow_state_and_fork(tiny):
    learner = learner_on(tiny)
    other = larc.SlowState.initial(tiny, seed=2)
    episode = learner.begin(seed=3, slow=other)
    assert episode.factors.equal(other.factors)
    fork = episode.fork()
    assert fork.stream.random() == episode.stream.random()
    fork.update(label())
    assert (fork.step, episode.step) == (1, 0)
    with pytest.raises(larc.LarcError, match="no dataclass"):
        learner.begin(rule=object())
