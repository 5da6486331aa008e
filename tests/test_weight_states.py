"""States that act on a weight, ``W + B A``, and not on the residual stream.

Tolerances: another order of sums in float32, 1e-4 of energies that are of order 1 to 10.
"""

import copy

import pytest
import torch

import larc
from larc.interventions import predict
from larc.residual import Factors
from larc.scoring import ask, energies
from larc.training import train
from tests.questions import CANDIDATES, PROMPTS, feedback, random_factors

WEIGHTS = ["self_attn.o_proj", "self_attn.q_proj"]


@pytest.fixture(scope="module", params=WEIGHTS)
def corrected(request):
    return larc.load_substrate("tiny", acts_on=request.param)


def with_weight(substrate, boundary, factors):
    """A plain substrate whose weight is W + B A itself."""
    plain = larc.load_substrate("tiny")
    layer = plain.model.get_submodule(f"model.layers.{boundary}")
    with torch.no_grad():
        layer.get_submodule(substrate.acts_on).weight += factors.B @ factors.A
    return plain


@pytest.mark.parametrize("boundary", [0, 2])
def test_a_state_is_a_changed_weight(corrected, boundary):
    """Rows with private factors, in one batch, against models that have each weight changed."""
    questions = [ask(corrected, prompt, CANDIDATES) for prompt in PROMPTS[:2]]
    states = [random_factors(corrected, seed, scale=0.3) for seed in (1, 2)]
    together = energies(corrected, questions, Factors.stack(states), boundary)
    for question, state, found in zip(questions, states, together, strict=True):
        changed = with_weight(corrected, boundary, state)
        nothing = Factors(torch.zeros(1, 32), torch.zeros(32, 1))
        (expected,) = energies(changed, [question], nothing)
        (plain,) = energies(larc.load_substrate("tiny"), [question], nothing)
        assert torch.allclose(found, expected, atol=1e-4)
        assert not torch.allclose(found, plain, atol=1e-2)


def test_a_start_is_the_model_itself(corrected):
    start = larc.SlowState.initial(corrected, seed=1, boundary=2)
    plain = larc.load_substrate("tiny")
    its = larc.SlowState.initial(plain, seed=1, boundary=2)
    ours = larc.Learner(corrected, start).begin().read(PROMPTS[0], CANDIDATES)
    assert torch.equal(ours, larc.Learner(plain, its).begin().read(PROMPTS[0], CANDIDATES))
    assert start.factors.numbers == its.factors.numbers  # the same budget


def test_a_step_is_the_gradient_of_the_weight(corrected):
    """At B = 0 the gradient with respect to B is that of the weight itself times A^T."""
    slow = larc.SlowState.initial(corrected, seed=1, boundary=1)
    episode = larc.Learner(corrected, slow, rule=larc.SGD(0.5)).begin()
    piece = feedback()
    plain = larc.load_substrate("tiny")
    weight = plain.model.get_submodule(f"model.layers.1.{corrected.acts_on}").weight
    weight.requires_grad_()
    nothing = Factors(torch.zeros(1, 32), torch.zeros(32, 1))
    piece.loss(energies(plain, [ask(plain, piece.prompt, piece.candidates)], nothing)[0]).backward()
    episode.update(piece)
    expected = -0.5 * weight.grad @ slow.factors.A.T
    largest = float(expected.abs().max())
    assert largest > 0
    assert torch.allclose(episode.factors.B, expected, atol=1e-4 * largest)


def test_generation_runs_under_it(corrected):
    slow = larc.SlowState.initial(corrected, seed=1, boundary=2)
    learner = larc.Learner(corrected, slow)
    episode = learner.begin()
    episode.factors = random_factors(corrected, 3, scale=0.3)
    ids = corrected.tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    changed = with_weight(corrected, 2, episode.factors)
    before = corrected.model(ids).logits
    with learner.active(episode):
        found = corrected.model(ids).logits
        read = episode.read(PROMPTS[0], CANDIDATES)
    assert torch.allclose(found, changed.model(ids).logits, atol=1e-4)
    assert torch.equal(read, episode.read(PROMPTS[0], CANDIDATES))
    assert torch.equal(corrected.model(ids).logits, before)


def test_it_trains_and_predicts_as_any_state_does(corrected):
    tasks = [
        larc.Task(f"Is {n} even? ", ["yes", "no"], support=[n % 2, 1 - n % 2], group=str(n))
        for n in range(4)
    ]
    opened = [larc.Task(**{**vars(task), "query": task.support}) for task in tasks]
    slow = train(corrected, opened, updates=3, seed=1, boundary=2, rule=larc.SGD(1.0))
    assert slow.version == 3
    found = predict(corrected, slow, tasks, seed=1, rule=larc.SGD(1.0), inner_steps=2)
    assert not torch.equal(*map(torch.as_tensor, (found.real_keep[0], found.real_reset[0])))


def test_a_state_of_a_weight_fits_nowhere_else(corrected, tmp_path):
    slow = larc.SlowState.initial(corrected, seed=1, boundary=2)
    for other in ("", *(name for name in WEIGHTS if name != corrected.acts_on)):
        with pytest.raises(larc.LarcError, match="use a state made on this substrate"):
            larc.Learner(larc.load_substrate("tiny", acts_on=other), copy.copy(slow))
    at_input = larc.SlowState.initial(corrected, seed=1)
    with pytest.raises(larc.LarcError, match="only one on the residual stream"):
        larc.export_state(corrected, at_input, tmp_path / "out", to="merged")


def test_what_cannot_be_acted_on_is_refused():
    with pytest.raises(larc.LarcError, match=r"no weight 'mlp\.up_proj'.*self_attn\.q_proj"):
        larc.load_substrate("tiny", acts_on="mlp.up_proj")
    with pytest.raises(larc.LarcError, match="leave out checkpointing"):
        larc.load_substrate("tiny", acts_on="self_attn.o_proj", checkpointing=True)
