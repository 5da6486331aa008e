"""Beginnings that rows share are computed once; answers stay within the rounding of batches."""

import pytest
import torch

import larc
from larc.stream.plans import BATCH_ROUNDING
from larc.substrate.beginnings import BLOCK, Beginnings
from larc.substrate.frozen import Substrate, rows_together
from larc.substrate.rows import Row
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import random_factors
from website.architectures import FAMILIES, random_model

INSTRUCTION = "Say how this job ends, success or failure. "


def reader(substrate, boundary=2):
    slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary)
    return larc.Learner(substrate, slow.advanced(random_factors(substrate, 3)))


def read(substrate, prompts, boundary=2):
    learner = reader(substrate, boundary)
    episode = learner.begin(1)
    requests = [(episode, prompt, ["success", "failure", "no"]) for prompt in prompts]
    return torch.stack(learner.read_many(requests))


def below(substrate):
    return substrate.ledger.total("below").effective


def numbered(first, count):
    return [f"{INSTRUCTION}Job {number}: " for number in range(first, first + count)]


def test_a_beginning_is_computed_twice_and_never_again():
    """Once as it is first met, once as it is kept; from then on only what follows it."""
    substrate = larc.load_substrate("tiny")
    whole = len(numbered(1, 1)[0]) + len("successfailureno")
    known = len(f"{INSTRUCTION}Job ") // BLOCK * BLOCK
    counted = []
    with rows_together():
        for number in range(1, 6):
            before = below(substrate)
            read(substrate, numbered(number, 1))
            counted.append(below(substrate) - before)
    assert counted == [whole, whole, whole - known, whole - known, whole - known]
    assert len(substrate.beginnings) == known // BLOCK


@pytest.mark.parametrize("boundary", [1, 3])
def test_answers_are_those_of_rows_computed_alone(boundary):
    alone, shared = larc.load_substrate("tiny"), larc.load_substrate("tiny")
    prompts = [f"{INSTRUCTION * (n % 3)}Job {'x' * (5 * (n % 4))}{n}: " for n in range(24)]
    with rows_together():
        reads = [read(shared, prompts[start : start + 8], boundary) for start in (0, 8, 16)]
    assert below(shared) < 0.8 * sum(len(p) + len("successfailureno") for p in prompts)
    expected = read(alone, prompts, boundary)
    torch.testing.assert_close(torch.cat(reads), expected, atol=BATCH_ROUNDING, rtol=0)


def test_nothing_is_reused_outside_shared_batches():
    used, fresh = larc.load_substrate("tiny"), larc.load_substrate("tiny")
    with rows_together():
        for number in range(4):
            read(used, numbered(number, 1))
    assert len(used.beginnings)
    assert torch.equal(read(used, numbered(10, 6)), read(fresh, numbered(10, 6)))


def test_boundaries_do_not_mix():
    substrate = larc.load_substrate("tiny")
    with rows_together():
        for number in range(3):
            read(substrate, numbered(number, 1), boundary=1)
        before = below(substrate)
        again = read(substrate, numbered(8, 1), boundary=3)
    assert below(substrate) - before == len(numbered(8, 1)[0]) + len("successfailureno")
    alone = read(larc.load_substrate("tiny"), numbered(8, 1), boundary=3)
    torch.testing.assert_close(again, alone, atol=BATCH_ROUNDING, rtol=0)


def test_memory_is_bounded_and_the_unused_goes_first():
    substrate = larc.load_substrate("tiny")
    with rows_together():
        for number in range(3):
            read(substrate, numbered(number, 1))
        one = substrate.beginnings.held // len(substrate.beginnings)
        substrate.beginnings = Beginnings(most_bytes=8 * one)
        for number in range(60):
            read(substrate, [f"{'abcdefgh'[number // 2 % 8] * 30} {number}: "])
            assert substrate.beginnings.held <= 8 * one
            assert substrate.beginnings.held == one * len(substrate.beginnings)
    assert len(substrate.beginnings) == 8


def test_without_room_nothing_is_kept_and_all_is_answered():
    substrate = larc.load_substrate("tiny", cache_bytes=0)
    with rows_together():
        reads = [read(substrate, numbered(number, 2)) for number in (0, 2, 4)]
    assert len(substrate.beginnings) == 0
    expected = read(larc.load_substrate("tiny"), numbered(0, 6))
    torch.testing.assert_close(torch.cat(reads), expected, atol=BATCH_ROUNDING, rtol=0)


def test_in_bfloat16_nothing_is_reused():
    """Rounding would hide whether the model does what is needed for it."""
    substrate = Substrate("half", random_llama().to(torch.bfloat16), byte_tokenizer())
    with rows_together():
        for number in range(3):
            read(substrate, numbered(number, 1))
    assert len(substrate.beginnings) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_answers_the_same(family):
    model = random_model(family)
    alone, shared = (Substrate(family, model, byte_tokenizer()) for _ in range(2))
    prompts = [f"{INSTRUCTION}{'x' * n} Job {n}: " for n in range(6)]
    with rows_together():
        reads = [read(shared, prompts[start : start + 2]) for start in (0, 2, 4)]
    torch.testing.assert_close(torch.cat(reads), read(alone, prompts), atol=BATCH_ROUNDING, rtol=0)


def test_the_real_models_answers_stay_within_the_rounding_of_batches(smollm2):
    substrate = Substrate("again", smollm2.model, smollm2.tokenizer)
    with rows_together():
        reads = [read(substrate, numbered(n, 2), boundary=26) for n in (1, 3, 5)]
    assert len(substrate.beginnings)
    expected = read(smollm2, numbered(1, 6), boundary=26)
    torch.testing.assert_close(torch.cat(reads), expected, atol=BATCH_ROUNDING, rtol=0)


def test_a_block_needs_all_tokens_before_it():
    row = Row(tuple(range(3 * BLOCK)), segments=(0,) * (3 * BLOCK - 1) + (1,))
    other = Row((99, *row.tokens[1:]), segments=row.segments)
    beginnings = Beginnings(2**20)
    beginnings.meet(1, row)
    assert beginnings.wanted(1, row) == [BLOCK, 2 * BLOCK]
    assert beginnings.wanted(1, other) == []
    assert beginnings.wanted(2, row) == []
