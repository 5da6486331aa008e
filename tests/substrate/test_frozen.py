from contextlib import nullcontext

import pytest
import torch

import larc
from larc.questions import ask
from larc.scoring import energies
from larc.stream.plans import BATCH_ROUNDING
from larc.substrate.frozen import Substrate, rows_together
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import random_factors


def test_the_model_is_frozen_and_still_differentiable_in_its_input(tiny):
    assert not tiny.model.training
    assert not any(parameter.requires_grad for parameter in tiny.model.parameters())
    leaf = random_factors(tiny, 1).leaf()
    energies(tiny, [ask(tiny, "a", ["b", "c"])], leaf)[0].sum().backward()
    assert leaf.A.grad.abs().sum() > 0
    assert leaf.B.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in tiny.model.parameters())


def test_activations_below_a_boundary_are_computed_once_per_question():
    substrate = larc.load_substrate("tiny")
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1, boundary=2))
    for seed in range(5):
        learner.begin(seed).read("which? ", ["one", "two"])
    assert substrate.ledger.total("below").calls == 1
    assert substrate.ledger.total("mixer").calls == 5


def test_the_cache_below_a_boundary_is_bounded():
    substrate = larc.load_substrate("tiny", cache_bytes=20_000)
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1, boundary=2))
    episode = learner.begin()
    first = episode.read("question 0? ", ["yes", "no"])
    for number in range(1, 30):
        episode.read(f"question {number}? ", ["yes", "no"])
        held = sum(t.numel() * t.element_size() for t in substrate._below_cache.values())
        assert held == substrate._below_held <= 20_000
    calls = substrate.ledger.total("below").calls
    assert torch.equal(episode.read("question 0? ", ["yes", "no"]), first)
    assert substrate.ledger.total("below").calls == calls + 1  # it had been dropped


def test_what_was_used_last_is_dropped_last():
    """There is room for two questions: reading the older one again saves it from the third."""
    substrate = larc.load_substrate("tiny", cache_bytes=2 * 4 * 32 * (len("question 0? yesno") + 2))
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1, boundary=2))
    episode = learner.begin()
    computed = []
    for number in (0, 1, 0, 2, 0, 1):
        before = substrate.ledger.total("below").calls
        episode.read(f"question {number}? ", ["yes", "no"])
        computed.append(substrate.ledger.total("below").calls - before)
    assert computed == [1, 1, 0, 1, 0, 1]


def test_rows_that_are_new_together_are_one_forward_within_rounding():
    alone, shared = larc.load_substrate("tiny"), larc.load_substrate("tiny")
    reads = []
    for substrate in (alone, shared):
        learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1, boundary=2))
        requests = [
            (learner.begin(number % 2), "long " * number + ": ", ["yes", "no"])
            for number in range(8)
            for _ in range(2)
        ]
        with rows_together() if substrate is shared else nullcontext():
            reads.append(torch.stack(learner.read_many(requests)))
    assert alone.ledger.total("below").calls == 8
    assert shared.ledger.total("below").calls == 1
    torch.testing.assert_close(reads[1], reads[0], atol=BATCH_ROUNDING, rtol=0)


def test_rows_computed_together_are_used_nowhere_else():
    """Whoever computes rows alone gets the same bits, whatever was computed together before."""
    fresh, used = larc.load_substrate("tiny"), larc.load_substrate("tiny")
    texts = [f"{'long ' * number}: " for number in range(6)]

    def read(substrate):
        slow = larc.SlowState.initial(substrate, seed=1, boundary=2)
        episode = larc.Learner(substrate, slow).begin(1)
        return [episode.read(text, ["yes", "no"]) for text in texts]

    with rows_together():
        learner = larc.Learner(used, larc.SlowState.initial(used, seed=1, boundary=2))
        learner.read_many([(learner.begin(1), text, ["yes", "no"]) for text in texts])
        assert used.ledger.total("below").calls == 1
        read(used)
        assert used.ledger.total("below").calls == 1  # kept for others in shared batches
    for one, other in zip(read(used), read(fresh), strict=True):
        assert torch.equal(one, other)
    assert used.ledger.total("below").calls == 7


def test_a_row_too_large_for_the_cache_is_still_read():
    substrate = larc.load_substrate("tiny", cache_bytes=10)
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1, boundary=1))
    assert float(learner.begin().read("a", ["b", "c"]).sum()) == pytest.approx(1, abs=1e-6)
    assert substrate._below_held == 0


@pytest.mark.parametrize("boundary", [-1, 4, 100])
def test_a_boundary_the_model_does_not_have_is_refused(tiny, boundary):
    with pytest.raises(larc.LarcError, match="boundaries 0"):
        larc.SlowState.initial(tiny, seed=1, boundary=boundary)


def test_a_tokenizer_without_an_end_of_sequence_is_refused():
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(larc.LarcError, match="end-of-sequence"):
        Substrate("odd", random_llama(), tokenizer)


def test_the_paper_models_head_layout():
    # MiniCPM5-1B has 16 query heads and 2 key-value heads; the width is scaled down.
    model = random_llama(width=64, layers=3, heads=16, key_value_heads=2, tied=False)
    substrate = Substrate("like-minicpm5", model, byte_tokenizer())
    assert substrate.packs(100)
    for boundary in range(3):
        slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary)
        episode = larc.Learner(substrate, slow).begin()
        before = episode.read("pick ", ["a", "b"])
        episode.update(larc.Label("pick ", ["a", "b"], 0))
        assert episode.read("pick ", ["a", "b"])[0] > before[0]
