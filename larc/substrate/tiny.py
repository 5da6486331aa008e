"""The test substrate: a small random Llama that reads bytes, made from a seed."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase
from transformers import PreTrainedTokenizerFast as FastTokenizer

SPECIAL_TOKENS = ("<eos>", "<pad>")


def byte_tokenizer() -> PreTrainedTokenizerBase:
    """Return a tokenizer with one token per byte of UTF-8, an end-of-sequence and a padding token.

    Examples
    --------
    >>> len(byte_tokenizer()("né")["input_ids"])
    3
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return FastTokenizer(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>")


def random_llama(
    *,
    vocabulary: int = 258,
    width: int = 32,
    layers: int = 4,
    heads: int = 4,
    key_value_heads: int = 2,
    tied: bool = True,
    seed: int = 20260929,
) -> LlamaForCausalLM:
    """Return a Llama with weights drawn from the seed's own stream.

    Weights are scaled so that candidates get visibly different probabilities: a model near the
    uniform distribution would hide mistakes.
    """
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=1,
    )
    model = LlamaForCausalLM(config)
    stream = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.ndim == 1:
                parameter.fill_(1.0)
                continue
            vocabulary_sized = "embed_tokens" in name or "lm_head" in name
            scale = 0.3 if vocabulary_sized else parameter.shape[1] ** -0.5
            draws = stream.standard_normal(tuple(parameter.shape), dtype=np.float32)
            parameter.copy_(torch.from_numpy(draws) * scale)
    return model
