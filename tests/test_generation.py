"""Ordinary generation under a fast state. Tokens are compared, so equality is exact: the choices of
these prompts are not close enough for rounding to turn one (a cache changes sums by about 1e-6)."""

import pytest
import torch

from larc.domains.programs import Group, policy_prompt
from larc.residual import apply_residual
from larc.substrate.rows import Row
from tests.questions import PROMPTS, feedback, learner_on, random_factors


def learned(substrate, boundary):
    learner = learner_on(substrate, boundary=boundary)
    episode = learner.begin()
    scale = 0.3 if substrate.name == "tiny" else 0.15
    episode.factors = random_factors(substrate, 2, scale=scale)
    return learner, episode


def generated(learner, episode, ids, length, **how):
    how = {"attention_mask": torch.ones_like(ids), "do_sample": False, **how}
    with learner.active(episode):
        return learner.substrate.model.generate(
            ids, max_new_tokens=length, min_new_tokens=length, **how
        )


def greedy(learner, episode, tokens, length):
    """One token at a time through the scorer's own way, without generate, hooks or caches."""
    substrate, boundary = learner.substrate, learner.slow.boundary
    for _ in range(length):
        row = Row(tuple(tokens))
        hidden = apply_residual(substrate.activations([row], boundary), episode.factors)
        with torch.no_grad():
            logits = substrate.logits(hidden, [row], boundary, torch.tensor([len(tokens) - 1]))
        logits[:, substrate.tokenizer.eos_token_id] = -torch.inf  # as min_new_tokens does
        tokens = [*tokens, int(logits.argmax())]
    return tokens


def check(substrate, boundary, prompt, length):
    learner, episode = learned(substrate, boundary)
    ids = substrate.tokenizer(prompt, return_tensors="pt")["input_ids"]
    with_cache = generated(learner, episode, ids, length)
    assert with_cache[0].tolist() == greedy(learner, episode, ids[0].tolist(), length)
    untouched = generated(learner, learner.begin(), ids, length)  # B = 0: the model itself
    assert not torch.equal(with_cache, untouched)
    return learner, episode, ids, with_cache


@pytest.mark.parametrize("boundary", [0, 1, 3])
def test_generation_with_a_cache_is_the_same_as_without(tiny, boundary):
    learner, episode, ids, with_cache = check(tiny, boundary, PROMPTS[0], length=24)
    assert torch.equal(generated(learner, episode, ids, 24, use_cache=False), with_cache)
    plain = tiny.model.generate(
        ids, max_new_tokens=24, min_new_tokens=24, do_sample=False, attention_mask=ids * 0 + 1
    )
    assert torch.equal(plain, generated(learner, learner.begin(), ids, 24))


@pytest.mark.smollm2
@pytest.mark.parametrize("boundary", [0, 20])
def test_generation_on_the_real_model(smollm2, boundary):
    check(smollm2, boundary, policy_prompt(Group("arithmetic", (2, 3))), length=4)


@pytest.mark.parametrize("boundary", [0, 2])
def test_prompts_of_one_batch_are_continued_as_if_alone(tiny, boundary):
    learner, episode = learned(tiny, boundary)
    rows = [tiny.tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    longest = max(map(len, rows))
    pad = tiny.tokenizer.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])
    together = generated(learner, episode, ids, 12, attention_mask=(ids != pad).long())
    for row, continuation in zip(rows, together[:, longest:], strict=True):
        alone = generated(learner, episode, torch.tensor([row]), 12)
        assert torch.equal(alone[0, len(row) :], continuation)


def test_generation_and_learning_take_turns(tiny):
    """What is generated follows the episode; generating leaves reads and updates what they are."""
    learner, episode = learned(tiny, 2)
    _, twin = learned(tiny, 2)
    ids = tiny.tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    with learner.active(episode):
        for _ in range(2):
            tiny.model.generate(ids, max_new_tokens=4, attention_mask=torch.ones_like(ids))
            episode.update(feedback())
    for _ in range(2):
        twin.update(feedback())
    assert episode.factors.equal(twin.factors)
