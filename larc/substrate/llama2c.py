"""Reading a model of llama2.c: a checkpoint of plain float32 numbers, and its table of tokens."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from larc.errors import LarcError

if TYPE_CHECKING:
    from torch import Tensor

# In the table of tokens: unknown, begin, end, then a token for each of the 256 bytes.
_BYTES = range(3, 259)
_HEADER = struct.Struct("<7i")
_TOKEN = struct.Struct("<fi")


@dataclass(frozen=True)
class Checkpoint:
    """Sizes of a checkpoint in the order of its header, and its weights by Llama's names."""

    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    longest: int
    weights: dict[str, Tensor]


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint of llama2.c's first form; the head is the table of embeddings."""
    import numpy as np
    import torch

    content = path.read_bytes()
    damaged = LarcError(f"{path.name} is no checkpoint of llama2.c; get a whole copy.")
    if len(content) < _HEADER.size:
        raise damaged
    sizes = _HEADER.unpack_from(content)
    width, inner, layers, heads, key_heads, vocabulary, longest = sizes
    if min(sizes) < 1 or width % (2 * heads) or heads % key_heads:
        raise damaged
    size = width // heads
    shapes = {
        "embed_tokens": (vocabulary, width),
        "input_layernorm": (layers, width),
        "self_attn.q_proj": (layers, width, width),
        "self_attn.k_proj": (layers, key_heads * size, width),
        "self_attn.v_proj": (layers, key_heads * size, width),
        "self_attn.o_proj": (layers, width, width),
        "post_attention_layernorm": (layers, width),
        "mlp.gate_proj": (layers, inner, width),
        "mlp.down_proj": (layers, width, inner),
        "mlp.up_proj": (layers, inner, width),
        "norm": (width,),
        "rotary": (2, longest, size // 2),
    }
    counts = [int(np.prod(shape)) for shape in shapes.values()]
    if len(content) != _HEADER.size + 4 * sum(counts):
        raise damaged
    numbers = torch.from_numpy(np.frombuffer(content, "<f4", offset=_HEADER.size).copy())
    pieces = zip(shapes.items(), numbers.split(counts), strict=True)
    read = {name: piece.view(shape) for (name, shape), piece in pieces}
    del read["rotary"]  # cosines and sines, which follow from the sizes
    weights = {}
    for name, stacked in read.items():
        if name in ("embed_tokens", "norm"):
            weights[f"model.{name}.weight"] = stacked
            continue
        for layer, tensor in enumerate(stacked):
            halves = _halves(tensor, size) if name.endswith(("q_proj", "k_proj")) else tensor
            weights[f"model.layers.{layer}.{name}.weight"] = halves
    return Checkpoint(width, inner, layers, heads, key_heads, vocabulary, longest, weights)


def _halves(weight: Tensor, size: int) -> Tensor:
    """Reorder a head's rows: llama2.c rotates neighbours, transformers the two halves."""
    rows, width = weight.shape
    return weight.view(rows // size, size // 2, 2, width).transpose(1, 2).reshape(rows, width)


def read_tokens(content: bytes) -> list[tuple[float, bytes]]:
    """Return the score and the text of each token of a table."""
    tokens = []
    at = 4  # after the length of the longest
    try:
        while at < len(content):
            score, length = _TOKEN.unpack_from(content, at)
            at += _TOKEN.size + length
            if length < 0 or at > len(content):
                raise ValueError
            tokens.append((score, content[at - length : at]))
    except (struct.error, ValueError):
        raise LarcError("tokenizer.bin is damaged; get a whole copy.") from None
    return tokens


def official_tokenizer(content: bytes) -> bytes:
    """Return a table of tokens as llama2.c writes it today, its single bytes as ``<0x0A>``."""
    written = [content[:4]]
    for index, (score, text) in enumerate(read_tokens(content)):
        if index in _BYTES:
            text = _byte_name(index).encode()
        written += [_TOKEN.pack(score, len(text)), text]
    return b"".join(written)


def _byte_name(index: int) -> str:
    return f"<0x{index - _BYTES.start:02X}>"


def llama_model(checkpoint: Checkpoint) -> Any:
    """Return the checkpoint as a model of transformers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=checkpoint.vocabulary,
        hidden_size=checkpoint.width,
        intermediate_size=checkpoint.inner,
        num_hidden_layers=checkpoint.layers,
        num_attention_heads=checkpoint.heads,
        num_key_value_heads=checkpoint.key_heads,
        max_position_embeddings=checkpoint.longest,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config)
    embedding = checkpoint.weights["model.embed_tokens.weight"]
    model.load_state_dict({**checkpoint.weights, "lm_head.weight": embedding})
    return model


def llama_tokenizer(content: bytes) -> Any:
    """Return a table of tokens as a tokenizer: byte-pair merges in the order of the scores.

    Texts were divided by the begin token when the model was trained, so it is their end as well.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    names, scores = ["<unk>", "<s>", "</s>"], []
    table = read_tokens(content)
    for index, (score, text) in enumerate(table):
        if index >= len(names):
            plain = text.decode("utf-8").replace(" ", "▁") if index not in _BYTES else ""
            names.append(plain or _byte_name(index))
        scores.append(score)
    vocabulary = {name: index for index, name in enumerate(names)}
    merges = []
    for index in range(_BYTES.stop, len(names)):
        name = names[index]
        for cut in range(1, len(name)):
            left, right = name[:cut], name[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((-scores[index], vocabulary[left], vocabulary[right], left, right))
    merges.sort()
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=[(left, right) for *_, left, right in merges],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="<s>"
    )
