import pytest
import torch

import larc
from larc.objectives import FeedbackObjective, gradients_together
from larc.residual import Factors

ANSWERS = ("one", "three", "five", "eight")


def prompt_losses(number: int, prompt: str = "Which? ") -> larc.CandidateLosses:
    losses = [0.0, 0.3, 0.7, 1.0]
    return larc.CandidateLosses(prompt, ANSWERS, losses[number % 4 :] + losses[: number % 4])


def objective(substrate, feedback, share_key):
    return FeedbackObjective.of(substrate, 1, feedback, share_key=share_key)


def start(substrate, count: int) -> Factors:
    slow = larc.SlowState.initial(substrate, rank=2, seed=3, boundary=1).factors
    moved = Factors(slow.A, slow.A.mT.contiguous() * 5)
    return Factors.stack([moved] * count)


@pytest.mark.parametrize("targets", [1, 3, 4, 8])
def test_one_forward_serves_all_that_is_said_of_a_question(targets):
    substrate = larc.load_substrate("tiny")
    feedback = [[prompt_losses(number)] for number in range(targets)]
    factors = start(substrate, targets)
    apart = objective(substrate, feedback, range(targets)).gradients(factors)
    substrate.ledger.clear()
    together = objective(substrate, feedback, [0] * targets).gradients(factors)
    entries = substrate.ledger.entries
    row = len(larc.questions.ask(substrate, "Which? ", ANSWERS).packed.rows[0].tokens)
    assert entries["other", "mixer"].effective == row
    assert entries["other", "backward"].calls == min(targets, len(ANSWERS))
    # Float32 rounding of sums taken in another order, relative to the largest entry.
    assert torch.allclose(together[0], apart[0], atol=1e-6)
    for mine, other in ((together[1].A, apart[1].A), (together[1].B, apart[1].B)):
        assert torch.allclose(mine, other, rtol=0, atol=1e-5 * float(other.abs().max()))


def test_factors_that_differ_are_never_shared():
    substrate = larc.load_substrate("tiny")
    feedback = [[prompt_losses(0)], [prompt_losses(1)], [prompt_losses(0)]]
    factors = start(substrate, 3)
    factors.A[1] += 1.0
    shared = objective(substrate, feedback, [0, 0, 0]).gradients(factors)
    apart = objective(substrate, feedback, [0, 1, 2]).gradients(factors)
    assert torch.allclose(shared[0], apart[0], atol=1e-6)
    assert torch.allclose(shared[1].B, apart[1].B, rtol=0, atol=1e-6)
    assert not torch.allclose(shared[1].B[0], shared[1].B[1], atol=1e-4)


def test_feedback_of_one_episode_is_its_mean_whatever_is_shared():
    substrate = larc.load_substrate("tiny")
    feedback = [
        [prompt_losses(0), prompt_losses(1), larc.Label("And? ", ("a", "b"), 1)],
        [prompt_losses(2)],
    ]
    factors = start(substrate, 2)
    losses, slopes = objective(substrate, feedback, [0, 0]).gradients(factors)
    leaf = factors.leaf()
    plain = objective(substrate, feedback, [0, 1]).losses(leaf)
    plain.sum().backward()
    assert torch.allclose(losses, plain.detach(), atol=1e-6)
    assert torch.allclose(slopes.A, leaf.A.grad, rtol=0, atol=1e-6)
    assert torch.allclose(slopes.B, leaf.B.grad, rtol=0, atol=1e-6)


def test_some_of_the_episodes_are_an_objective_too():
    substrate = larc.load_substrate("tiny")
    feedback = [
        [prompt_losses(0)],
        [prompt_losses(1), prompt_losses(2, "Or? ")],
        [prompt_losses(3)],
    ]
    factors = start(substrate, 3)
    whole = objective(substrate, feedback, [0, 1, 2])
    some = whole.select([2, 1])
    order = torch.tensor([2, 1])
    assert torch.allclose(some.losses(factors.at(order)), whole.losses(factors)[order], atol=1e-6)


def test_two_objectives_at_one_state_share_their_forward():
    substrate = larc.load_substrate("tiny")
    support = objective(substrate, [[prompt_losses(0)], [prompt_losses(1)]], [0, 0])
    query = objective(substrate, [[prompt_losses(2)], [prompt_losses(3)]], [0, 0])
    factors = start(substrate, 2)
    substrate.ledger.clear()
    first, second = gradients_together(support, query, factors)
    assert substrate.ledger.entries["other", "mixer"].calls == 1
    for shared, alone in ((first, support), (second, query)):
        losses, slopes = alone.gradients(factors)
        assert torch.allclose(shared[0], losses, atol=1e-6)
        assert torch.allclose(shared[1].B, slopes.B, rtol=0, atol=1e-6)


def test_sharing_works_with_checkpointing():
    plain, saving = larc.load_substrate("tiny"), larc.load_substrate("tiny", checkpointing=True)
    feedback = [[prompt_losses(number)] for number in range(6)]
    gradients = [
        objective(one, feedback, [0] * 6).gradients(start(one, 6))[1] for one in (plain, saving)
    ]
    assert torch.allclose(gradients[0].A, gradients[1].A, rtol=0, atol=1e-6)
    assert torch.allclose(gradients[0].B, gradients[1].B, rtol=0, atol=1e-6)
