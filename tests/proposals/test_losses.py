"""Estimates from texts that were sampled: unbiased, and alike where they are of one state."""

import pytest
import torch

from larc.proposals.losses import SampledLosses

PROMPT = "Write a program:\n"


def test_at_the_state_that_drew_them_both_estimates_agree():
    """Self-normalised weights are then equal, and their slope is the policy gradient's."""
    texts, losses, tokens = ["a", "bb", "cccc"], [0.0, 1.0, 0.25], [2, 3, 5]
    policy = SampledLosses(PROMPT, texts, losses, tokens=tokens)
    scores = torch.tensor([-1.0, -2.0, -0.5])
    logs = (scores * torch.tensor(tokens)).tolist()
    drawn = SampledLosses(PROMPT, texts, losses, tokens=tokens, drawn_at=logs)
    slopes = []
    for piece in (policy, drawn):
        at = scores.clone().requires_grad_()
        slopes.append(torch.autograd.grad(piece.loss(at), at)[0])
    # The baseline of the one leaves each text itself out: n / (n - 1) of the mean of all.
    assert torch.allclose(slopes[0], slopes[1] * 3 / 2, atol=1e-6)
    assert float(drawn.loss(scores)) == pytest.approx(sum(losses) / 3)


def test_the_policy_gradient_is_unbiased():
    """Over all ways to draw two of three texts with replacement, by their probabilities."""
    texts, losses = ["a", "b", "c"], [0.0, 1.0, 0.5]
    scores = torch.tensor([0.3, -0.2, 0.1], requires_grad=True)
    logs = scores.log_softmax(-1)
    exact = torch.autograd.grad(logs.exp() @ torch.tensor(losses), scores, retain_graph=True)[0]
    total = torch.zeros(3)
    weights = logs.exp().detach()
    for i in range(3):
        for j in range(3):
            if i == j:
                continue  # its baseline is itself: nothing
            piece = SampledLosses(
                PROMPT, [texts[i], texts[j]], [losses[i], losses[j]], tokens=[1, 1]
            )
            at = logs[[i, j]]
            slope = torch.autograd.grad(piece.loss(at), scores, retain_graph=True)[0]
            total += weights[i] * weights[j] * slope
    assert torch.allclose(total, exact, atol=1e-6)
