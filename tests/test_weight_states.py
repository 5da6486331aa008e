"""States that act on a weight, ``W + B A``, and not on the residual stream.

Tolerances: another order of sums in float32, 1e-4 of energies that are of order 1 to 10.
"""

import pytest
import torch

import larc
from larc.cli import main
from larc.interventions import predict
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import energies
from larc.training.tasks import train
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
    for question, state, score in zip(questions, states, together, strict=True):
        changed = with_weight(corrected, boundary, state)
        nothing = Factors(torch.zeros(1, 32), torch.zeros(32, 1))
        (expected,) = energies(changed, [question], nothing)
        (plain,) = energies(larc.load_substrate("tiny"), [question], nothing)
        assert torch.allclose(score, expected, atol=1e-4)
        assert not torch.allclose(score, plain, atol=1e-2)


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
        logits = corrected.model(ids).logits
        read = episode.read(PROMPTS[0], CANDIDATES)
    assert torch.allclose(logits, changed.model(ids).logits, atol=1e-4)
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
    predictions = predict(corrected, slow, tasks, seed=1, rule=larc.SGD(1.0), inner_steps=2)
    assert not torch.equal(
        *map(torch.as_tensor, (predictions.real_keep[0], predictions.real_reset[0]))
    )


def test_a_state_of_a_weight_fits_nowhere_else(corrected, tmp_path):
    slow = larc.SlowState.initial(corrected, seed=1, boundary=2)
    for other in ("", *(name for name in WEIGHTS if name != corrected.acts_on)):
        with pytest.raises(larc.LarcError, match="use a state made on this substrate"):
            larc.Learner(larc.load_substrate("tiny", acts_on=other), slow)


def test_what_cannot_be_acted_on_is_refused():
    substrate = larc.load_substrate("tiny", acts_on="mlp.up_proj")
    with pytest.raises(larc.LarcError, match=r"no weight 'mlp\.up_proj'.*self_attn\.q_proj"):
        larc.SlowState.initial(substrate, seed=1, boundary=2)


def gradient(substrate, layout="packed"):
    questions = [ask(substrate, prompt, CANDIDATES) for prompt in PROMPTS]
    leaf = Factors.stack([random_factors(substrate, seed) for seed in range(3)]).leaf()
    scores = energies(substrate, questions, leaf, 2, layout=layout)
    return torch.autograd.grad(torch.cat(scores).square().sum(), (leaf.A, leaf.B))


@pytest.mark.parametrize("other", ["checkpointing", "plain"])
def test_gradients_do_not_depend_on_how_they_are_computed(corrected, other):
    substrate = corrected
    if other == "checkpointing":
        substrate = larc.load_substrate("tiny", acts_on=corrected.acts_on, checkpointing=True)
    gradients = gradient(substrate, "plain" if other == "plain" else "packed")
    for one, expected in zip(gradients, gradient(corrected), strict=True):
        assert torch.allclose(one, expected, atol=1e-4 * float(expected.abs().max()))


def test_a_state_given_away_says_what_it_acts_on(corrected, tmp_path):
    slow = larc.SlowState.initial(corrected, seed=1, boundary=2)
    slow.save_pretrained(tmp_path / "state")
    card = (tmp_path / "state" / "README.md").read_text()
    assert f"correction of `{corrected.acts_on}`" in card
    assert "in layer 2" in card
    again = larc.SlowState.from_pretrained(tmp_path / "state", substrate=corrected)
    assert (again.acts_on, again.digest) == (corrected.acts_on, slow.digest)
    with pytest.raises(larc.LarcError, match=f"acts on {corrected.acts_on}"):
        larc.SlowState.from_pretrained(tmp_path / "state", substrate=larc.load_substrate("tiny"))


def test_studies_compare_it_and_package_it(tmp_path):
    out, acts_on = tmp_path / "run", ["--acts-on", "self_attn.o_proj"]
    small = ["--preset", "smoke", "--seeds", "2026092811", *acts_on]
    groups = ["--updates", "2", "--training-groups", "1", "--development-groups", "1"]
    assert main(["study", "programs", *small, *groups, "--out", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
    package = ["--objective", "adapted", "--out", str(tmp_path / "package")]
    assert main(["package", str(out), *package]) == 0
    card = (tmp_path / "package" / "README.md").read_text()
    assert "correction of `self_attn.o_proj`, `W + B A`, in the frozen model" in card
    assert 'acts_on="self_attn.o_proj")' in card
    ci = ["--train", "6", "--audit", "6", "--batch", "2", "--out", str(tmp_path / "ci")]
    assert main(["study", "ci", *small, *ci]) == 0
    state = str(out / "units" / "train-adapted-2026092811" / "slow.safetensors")
    exporting = ["--to", "merged", "--substrate", "tiny", "--out", str(tmp_path / "out")]
    assert main(["export", state, *exporting]) == 1
