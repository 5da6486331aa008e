"""Attention with shared keys against transformers' own, which repeats them.

The forward is the same kernel on the same numbers. In the backward the gradients of the query
heads that share a key are summed in another order: rounding, 1e-5 of gradients of order 1.
"""

import json

import pytest
import torch

import larc
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import energies
from tests.questions import CANDIDATES, PROMPTS, random_factors


def with_gradient(substrate, boundary):
    questions = [ask(substrate, prompt, CANDIDATES) for prompt in PROMPTS]
    leaf = Factors.stack([random_factors(substrate, seed) for seed in range(3)]).leaf()
    scores = energies(substrate, questions, leaf, boundary)
    return scores, torch.autograd.grad(torch.cat(scores).square().sum(), (leaf.A, leaf.B))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("boundary", [0, 2])
def test_it_is_the_attention_of_transformers(boundary, dtype):
    ours, default = (larc.load_substrate("tiny", dtype=dtype) for _ in range(2))
    default.model.set_attn_implementation("sdpa")
    assert ours.model.config._attn_implementation != "sdpa"
    scores, slopes = with_gradient(ours, boundary)
    expected, expected_slopes = with_gradient(default, boundary)
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    for computed, other in zip((*scores, *slopes), (*expected, *expected_slopes), strict=True):
        largest = float(other.detach().abs().max())
        assert torch.allclose(computed, other, atol=tolerance * largest, rtol=0)


def test_the_model_is_the_same_to_its_user(tmp_path):
    substrate, default = larc.load_substrate("tiny"), larc.load_substrate("tiny")
    default.model.set_attn_implementation("sdpa")
    assert substrate.identity == default.identity
    ids = substrate.tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    mask = torch.ones_like(ids)
    mask[:, :3] = 0  # padded on the left: without a mask, attention is transformers' own anyway
    given = {"input_ids": ids, "attention_mask": mask}
    ours, theirs = (one.model(**given).logits[:, 3:] for one in (substrate, default))
    assert torch.allclose(ours, theirs, atol=1e-5)
    substrate.model.save_pretrained(tmp_path)
    assert "larc" not in json.dumps(json.loads((tmp_path / "config.json").read_text()))
