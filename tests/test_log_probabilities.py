"""Log-probabilities and their backward against autograd's own, in both precisions."""

import pytest
import torch

from larc.log_probabilities import BLOCK, log_probabilities


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("places", [1, BLOCK, 2 * BLOCK + 3])
def test_it_is_what_autograd_makes_of_the_definition(places, dtype):
    draws = torch.Generator().manual_seed(places)
    logits = torch.randn(places, 50, generator=draws).to(dtype).requires_grad_()
    tokens = torch.randint(50, (places, 2), generator=draws)
    weights = torch.randn(places, 2, generator=draws)
    values = log_probabilities(logits, tokens)
    expected = logits.float().log_softmax(1).gather(1, tokens)
    assert values.dtype == torch.float32
    # Both are computed in float32 from the same logits: rounding of numbers of order 5.
    assert torch.allclose(values, expected, atol=2e-6, rtol=0)
    (slope,) = torch.autograd.grad((values * weights).sum(), logits)
    (wanted,) = torch.autograd.grad((expected * weights).sum(), logits)
    assert slope.dtype == dtype
    # One rounding to bfloat16, of numbers below 4: half of its last bit there.
    assert torch.allclose(slope, wanted, atol=2e-6 if dtype == torch.float32 else 8e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_can_be_differentiated(dtype):
    logits = torch.linspace(-2, 2, 12).view(3, 4).to(dtype).requires_grad_()
    tokens = torch.tensor([[0], [3], [1]])
    slopes = []
    for values in (
        log_probabilities(logits, tokens),
        logits.float().log_softmax(1).gather(1, tokens),
    ):
        (first,) = torch.autograd.grad(values.square().sum(), logits, create_graph=True)
        slopes.append(torch.autograd.grad(first.float().square().sum(), logits)[0])
    # Slopes of order 10, rounded to bfloat16 on the way: its last bit there is 2**-4.
    tolerance = 1e-5 if dtype == torch.float32 else 0.2
    assert torch.allclose(*slopes, atol=tolerance, rtol=0)
