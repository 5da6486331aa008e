"""Ways to score: their values by hand, gradients by autograd, their part in a state."""

import dataclasses

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import larc
from larc.feedback import BrierLabel
from larc.objectives import FeedbackObjective, gradients_together
from larc.questions import ask, prior_question
from larc.residual import Factors
from larc.scoring import energies, layout_for
from larc.state import SlowState
from larc.training.streams import StreamSettings, StreamTrainer
from tests.questions import random_factors, start
from tests.training.test_streams import stream

LONG = ("no", "perhaps", "yes, of course it does")
WAYS = ("mean", "sum", "prior")


def on(substrate, normalise, boundary=0):
    return dataclasses.replace(start(substrate, boundary=boundary), normalise=normalise)


def by_hand(substrate, factors, prompt, normalise, boundary=0):
    """The energies from plain means of the scorer, one question at a time."""
    question = ask(substrate, prompt, LONG)
    lengths = torch.tensor([float(len(tokens)) for tokens in question.candidates])
    mean = energies(substrate, [question], factors, boundary)[0]
    if normalise == "mean":
        return mean
    if normalise == "sum":
        return mean * lengths
    return mean - energies(substrate, [prior_question(substrate, question)], factors, boundary)[0]


@pytest.mark.parametrize("normalise", WAYS)
@pytest.mark.parametrize("boundary", [0, 2])
def test_a_read_is_the_softmax_of_its_energies(tiny, normalise, boundary):
    slow = on(tiny, normalise, boundary)
    learner = larc.Learner(tiny, slow)
    one, other = learner.begin(), learner.begin()
    other.factors = random_factors(tiny, 9)
    asked = [(one, "a: ", LONG), (other, "b: ", LONG), (one, "b: ", LONG), (one, "c", ("x", "yz"))]
    said = learner.read_many(asked)
    for (episode, prompt, candidates), policy in zip(asked[:3], said, strict=False):
        assert candidates == LONG
        expected = by_hand(tiny, episode.factors, prompt, normalise, boundary).softmax(-1)
        torch.testing.assert_close(policy, expected, atol=1e-5, rtol=1e-4)


def test_the_three_really_differ(tiny):
    reads = [larc.Learner(tiny, on(tiny, way)).begin().read("a: ", LONG) for way in WAYS]
    assert all(
        float((one - other).abs().max()) > 1e-3
        for place, one in enumerate(reads)
        for other in reads[:place]
    )


@pytest.mark.parametrize("normalise", WAYS)
def test_gradients_are_those_of_autograd_also_through_the_prior(tiny, normalise):
    feedback = [
        [larc.Label("a: ", LONG, 0), larc.Label("b: ", LONG, 1), larc.Label("a: ", LONG, 2)],
        [larc.CandidateLosses("a: ", LONG[:2], [0.0, 1.0]), BrierLabel("a: ", LONG, 2)],
        [larc.Label("a: ", LONG, 1)],
    ]
    objective = FeedbackObjective.of(tiny, 1, feedback, share_key=[0, 1, 0], normalise=normalise)
    same, other = random_factors(tiny, 4), random_factors(tiny, 5)
    stack = Factors.stack([same, other, same])
    losses, slopes = objective.gradients(stack)
    leaf = stack.leaf()
    with sdpa_kernel(SDPBackend.MATH):
        expected = objective.losses(leaf)
        A, B = torch.autograd.grad(expected.sum(), (leaf.A, leaf.B))
    torch.testing.assert_close(losses, expected.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(slopes.A, A, atol=2e-5 * float(A.abs().max()), rtol=1e-4)
    torch.testing.assert_close(slopes.B, B, atol=2e-5 * float(B.abs().max()), rtol=1e-4)
    # And the losses are those of energies by hand.
    first = [by_hand(tiny, same, p, normalise, 1) for p in ("a: ", "b: ", "a: ")]
    by_piece = [-s.log_softmax(-1)[label] for label, s in enumerate(first)]
    assert float(losses[0]) == pytest.approx(float(sum(by_piece)) / 3, abs=1e-5)


def test_a_prior_is_read_once_for_each_state_and_set(tiny):
    substrate = larc.load_substrate("tiny")
    learner = larc.Learner(substrate, on(substrate, "prior"))
    episode, fresh = learner.begin(), learner.begin()
    question = ask(substrate, "a: ", LONG)
    asked, prior = (
        sum(len(row.tokens) for row in layout_for(substrate, one).rows)
        for one in (question, prior_question(substrate, question))
    )

    def spent(action):
        substrate.ledger.clear()
        action()
        return substrate.ledger.total("mixer").effective

    def read(*episodes):
        return learner.read_many([(e, f"{letter}: ", LONG) for e in episodes for letter in "abc"])

    assert spent(lambda: read(episode)) == 3 * asked + prior
    assert spent(lambda: read(episode, fresh)) == 6 * asked  # both are at the slow state
    labels = [larc.Label("a: ", LONG, 0), larc.Label("b: ", LONG, 1)]
    assert spent(lambda: episode.update(labels)) == 2 * asked + prior
    assert spent(lambda: read(episode)) == 3 * asked + prior  # it is another state now
    assert spent(lambda: read(episode)) == 3 * asked
    episode.reset()
    assert spent(lambda: read(episode)) == 3 * asked  # and back where it was
    # Answers and labels at one state share its prior, as a window of a stream needs them.
    first, second = [
        FeedbackObjective.of(substrate, 0, [[label]], share_key=[0], normalise="prior")
        for label in labels
    ]
    stack = Factors.stack([episode.factors])
    assert spent(lambda: gradients_together(first, second, stack)) == 2 * asked + prior


@pytest.mark.parametrize("normalise", ["sum", "prior"])
def test_scoring_is_part_of_a_states_identity(tiny, tmp_path, normalise):
    slow = SlowState.initial(tiny, seed=1, normalise=normalise)
    plain = SlowState.initial(tiny, seed=1)
    assert slow.digest != plain.digest
    assert b"normalise" not in plain.to_bytes()  # the same file as ever
    again = SlowState.from_bytes(slow.to_bytes())
    assert (again.normalise, again.digest) == (normalise, slow.digest)
    slow.save_pretrained(tmp_path / "state")
    assert SlowState.from_pretrained(tmp_path / "state", substrate=tiny).normalise == normalise
    episode = larc.Learner(tiny, slow).begin()
    episode.save(tmp_path / "episode")
    assert larc.Learner(tiny, again).resume(tmp_path / "episode").step == 0
    with pytest.raises(larc.LarcError, match="another slow state"):
        larc.Learner(tiny, plain).resume(tmp_path / "episode")
    with pytest.raises(larc.LarcError, match=f"scores by {normalise}"):
        larc.Learner(tiny, plain).read_many([(episode, "a: ", LONG)])
    with pytest.raises(larc.LarcError, match="normalise='median' is unknown"):
        SlowState.initial(tiny, seed=1, normalise="median")
    with pytest.raises(larc.LarcError, match="leave them out"):
        larc.train_streams(tiny, [stream(0)], slow=slow, normalise="mean", updates=1, seed=1)


def test_training_goes_through_the_prior(tiny):
    """A finite difference along the gradient: what the trainer lowers is what is answered."""
    windows, slow = [stream(0), stream(1)], on(tiny, "prior")
    settings = StreamSettings(gradient="exact", rule=larc.SGD(0.3))

    def loss(factors):
        moved = dataclasses.replace(slow, factors=factors)
        return StreamTrainer(tiny, moved, windows, settings).gradient_through(windows)

    _, gradient = loss(slow.factors)
    size, step = float(gradient.norm()), 2e-2
    along = gradient.map(lambda tensor: tensor / size)
    up, down = (
        loss(slow.factors.combine(along, lambda v, d, by=by: v + by * d))[0] for by in (step, -step)
    )
    assert (up - down) / (2 * step) == pytest.approx(size, rel=0.02)
    trained = larc.train_streams(tiny, windows, normalise="prior", window=6, updates=1, seed=1)
    assert trained.normalise == "prior"


def test_a_prior_follows_the_last_line_of_a_prompt(tiny):
    """What a question adds is compared, not the line that says what is asked for."""
    once, again = (ask(tiny, f"Commit: {text}\nComponent: ", LONG) for text in ("one", "another"))
    assert prior_question(tiny, once) == prior_question(tiny, again)
    assert prior_question(tiny, once).prompt == ask(tiny, "Component: ", LONG).prompt
    assert prior_question(tiny, ask(tiny, "one\nIt is ", LONG)) != prior_question(tiny, once)
    # Of one line nothing is left, nor of one with nothing but empty lines before it.
    for prompt in ("Component: ", "\n\nComponent: "):
        assert len(prior_question(tiny, ask(tiny, prompt, LONG)).prompt) == 1
    # Questions with one last line share a prior; with another they have one of their own.
    learner = larc.Learner(tiny, on(tiny, "prior", 2))
    episode = learner.begin()
    episode.factors = random_factors(tiny, 9)
    prompts = ("a\nComponent: ", "b\nComponent: ", "b\nKind: ")
    for prompt, policy in zip(
        prompts, learner.read_many([(episode, p, LONG) for p in prompts]), strict=True
    ):
        expected = by_hand(tiny, episode.factors, prompt, "prior", 2).softmax(-1)
        torch.testing.assert_close(policy, expected, atol=1e-5, rtol=1e-4)
