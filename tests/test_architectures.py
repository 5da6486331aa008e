"""The table of families on the models page: what is found, and that it can be found otherwise."""

from dataclasses import replace

import pytest
import torch

from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer
from website import architectures
from website.architectures import FAMILIES, Findings, findings, random_model

ROWS = {
    "Mistral, window": "shared up to 64",
    "Gemma 2": "shared up to 64",
    "Gemma 3": "shared up to 64",
    "Mamba": "one each",
    "RWKV": "one each",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_works_on_every_family(family):
    expected = Findings(family, True, True, "shared", "all", True, True, "peft, merged")
    assert findings(family) == replace(expected, rows=ROWS.get(family, "shared"))


@pytest.mark.parametrize("family", ["Qwen2", "Gemma 2", "Mamba"])
def test_the_table_can_say_no(family):
    """A model that does not use what it is given is found out."""
    substrate = Substrate(family, random_model(family), byte_tokenizer())
    assert architectures._is_the_model(substrate)
    assert architectures._learns(substrate, 1)
    head = substrate.model.get_output_embeddings()
    noise = torch.Generator().manual_seed(1)
    hook = head.register_forward_hook(
        lambda _, __, out: out + torch.randn(out.shape, generator=noise)
    )
    assert not architectures._is_the_model(substrate)
    hook.remove()
    zeroed = head.register_forward_hook(lambda _, __, out: out * 0)
    assert not architectures._learns(substrate, 1)
    zeroed.remove()
