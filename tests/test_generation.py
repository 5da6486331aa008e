"""Ordinary generation under a fast state. Tokens are compared, so equality is exact: the choices of
these prompts are not close enough for rounding to turn one (a cache changes sums by about 1e-6)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import larc
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


def ids_of(substrate, prompt):
    return substrate.tokenizer(prompt, return_tensors="pt")["input_ids"]


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


@pytest.mark.parametrize("boundary", [0, 2])
def test_a_thread_that_reads_leaves_the_state_of_another_active(tiny, boundary):
    learner, episode = learned(tiny, boundary)
    other, (ids, asked) = learner.begin(), (ids_of(tiny, PROMPTS[0]), threading.Event())
    with learner.active(episode), torch.no_grad():
        expected = tiny.model(ids).logits
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            other.read(PROMPTS[1], ["a", "b"])
            asked.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert asked.wait(60)
        with learner.active(episode), torch.no_grad():
            same = [torch.equal(tiny.model(ids).logits, expected) for _ in range(100)]
    finally:
        done.set()
        reader.join(60)
    assert all(same)


def test_each_thread_has_its_own_active_state(tiny):
    learner, first = learned(tiny, 2)
    second = learner.begin()
    second.factors = random_factors(tiny, 5, scale=0.3)
    ids = ids_of(tiny, PROMPTS[0])
    expected = {}
    for episode in (first, second):
        with learner.active(episode), torch.no_grad():
            expected[id(episode)] = tiny.model(ids).logits
    both = threading.Barrier(2)

    def calls(episode):
        with learner.active(episode), torch.no_grad():
            both.wait(60)  # from here on both are in their blocks
            got = [tiny.model(ids).logits for _ in range(30)]
            both.wait(60)
        return [torch.equal(logits, expected[id(episode)]) for logits in got]

    with ThreadPoolExecutor(2) as pool:
        assert all(one for same in pool.map(calls, (first, second)) for one in same)


@pytest.mark.parametrize("boundary", [0, 2])
def test_of_nested_blocks_the_innermost_holds(tiny, boundary):
    learner, first = learned(tiny, boundary)
    second = learner.begin()
    second.factors = random_factors(tiny, 5, scale=0.3)
    ids = ids_of(tiny, PROMPTS[0])
    with torch.no_grad():
        with learner.active(second):
            alone = tiny.model(ids).logits
        with learner.active(first):
            outer = tiny.model(ids).logits
            with learner.active(second):
                assert torch.equal(tiny.model(ids).logits, alone)
            assert torch.equal(tiny.model(ids).logits, outer)


def test_a_gradient_computed_again_inside_an_active_block_is_what_it_is_outside():
    substrate = larc.load_substrate("tiny", checkpointing=True)
    learner, shown = learned(substrate, 2)
    inside, outside = learner.begin(), learner.begin()
    outside.update(feedback())
    with learner.active(shown):
        inside.update(feedback())
    assert inside.factors.equal(outside.factors)


@pytest.mark.parametrize("boundary", [0, 2])
def test_many_episodes_generate_in_one_batch(tiny, boundary):
    learner, first = learned(tiny, boundary)
    second = learner.begin()
    second.factors = random_factors(tiny, 5, scale=0.3)
    requests = [(first, PROMPTS[0]), (second, PROMPTS[1]), (second, PROMPTS[0])]
    together = learner.generate(requests, max_new_tokens=12)
    assert together == [learner.generate([one], max_new_tokens=12)[0] for one in requests]
    assert together[0] != together[2]
    ids = ids_of(tiny, PROMPTS[0])
    with learner.active(first):
        row = tiny.model.generate(
            ids, max_new_tokens=12, do_sample=False, attention_mask=torch.ones_like(ids)
        )[0, ids.shape[1] :]
    assert together[0] == tiny.tokenizer.decode(row, skip_special_tokens=True)
    beams = learner.generate(requests, max_new_tokens=6, num_beams=2)
    assert beams == [learner.generate([o], max_new_tokens=6, num_beams=2)[0] for o in requests]


def test_generation_in_several_threads(tiny):
    learner, first = learned(tiny, 2)
    second = learner.begin()
    second.factors = random_factors(tiny, 5, scale=0.3)
    requests = [(first, PROMPTS[0]), (second, PROMPTS[0])] * 4
    expected = [learner.generate([one], max_new_tokens=8) for one in requests]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda one: learner.generate([one], max_new_tokens=8), requests))
    assert got == expected


@pytest.mark.parametrize(
    ("requests", "options", "message"),
    [
        ("x", {}, "give a list of"),
        ([("x", "y")], {}, "give a Episode"),
        (None, {}, "give a list of"),
        (1, {"max_new_tokens": 0}, "whole number, 1 or more"),
        (1, {"max_new_tokens": 10_000}, "positions"),
        (1, {"num_return_sequences": 2}, "several times"),
        (1, {"no_such_option": 2}, "generates nothing so"),
    ],
)
def test_what_cannot_be_generated_is_refused(tiny, requests, options, message):
    learner, episode = learned(tiny, 0)
    with pytest.raises(larc.LarcError, match=message):
        learner.generate([(episode, "a")] if requests == 1 else requests, **options)
