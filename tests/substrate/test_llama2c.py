"""A checkpoint of llama2.c, against its own arithmetic written out here, and its greedy merges."""

import struct

import numpy as np
import pytest
import torch

from larc.errors import LarcError
from larc.substrate.llama2c import (
    llama_model,
    llama_tokenizer,
    official_tokenizer,
    read_checkpoint,
    read_tokens,
)

WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, VOCABULARY, LONGEST = 16, 24, 2, 4, 2, 270, 32
SIZE = WIDTH // HEADS


@pytest.fixture
def written(tmp_path):
    """A random checkpoint, and its arrays in the order they are written."""
    stream = np.random.default_rng(5)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "norm1": (LAYERS, WIDTH),
        "q": (LAYERS, WIDTH, WIDTH),
        "k": (LAYERS, KEY_HEADS * SIZE, WIDTH),
        "v": (LAYERS, KEY_HEADS * SIZE, WIDTH),
        "o": (LAYERS, WIDTH, WIDTH),
        "norm2": (LAYERS, WIDTH),
        "w1": (LAYERS, INNER, WIDTH),
        "w2": (LAYERS, WIDTH, INNER),
        "w3": (LAYERS, INNER, WIDTH),
        "norm": (WIDTH,),
        "rotary": (2, LONGEST, SIZE // 2),
    }
    arrays = {n: stream.standard_normal(s).astype(np.float32) / 2 for n, s in shapes.items()}
    header = struct.pack("<7i", WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, VOCABULARY, LONGEST)
    path = tmp_path / "random.bin"
    path.write_bytes(header + b"".join(array.tobytes() for array in arrays.values()))
    return path, arrays


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def rotated(x, positions):
    """llama2.c rotates neighbouring numbers of a head, by an angle that falls with their place."""
    angles = positions[:, None] / 10000 ** (np.arange(0, SIZE, 2) / SIZE)
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = np.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
    return turned.reshape(x.shape)


def forward(arrays, tokens):
    x = arrays["embedding"][tokens].astype(np.float64)
    count = len(tokens)
    positions = np.arange(count)
    for layer in range(LAYERS):
        h = norm(x, arrays["norm1"][layer])
        q, k, v = ((h @ arrays[name][layer].T).reshape(count, -1, SIZE) for name in ("q", "k", "v"))
        q, k = rotated(q, positions), rotated(k, positions)
        heads = []
        for head in range(HEADS):
            shared = head // (HEADS // KEY_HEADS)
            scores = q[:, head] @ k[:, shared].T / np.sqrt(SIZE)
            scores[np.triu_indices(count, 1)] = -np.inf
            weights = np.exp(scores - scores.max(1, keepdims=True))
            heads.append(weights / weights.sum(1, keepdims=True) @ v[:, shared])
        x = x + np.concatenate(heads, 1) @ arrays["o"][layer].T
        h = norm(x, arrays["norm2"][layer])
        gate = h @ arrays["w1"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ arrays["w3"][layer].T)) @ arrays["w2"][layer].T
    return norm(x, arrays["norm"]) @ arrays["embedding"].T


def test_a_checkpoint_computes_what_llama2c_computes(written):
    path, arrays = written
    model = llama_model(read_checkpoint(path)).eval()
    tokens = [1, 7, 200, 3, 3, 269, 14, 2, 90]
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].numpy()
    # float32 against float64; logits of order 10.
    np.testing.assert_allclose(logits, forward(arrays, tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("damage", [lambda c: c[:-4], lambda c: c + b"1234", lambda c: c[:20]])
def test_a_damaged_checkpoint_is_refused(written, damage):
    path, _ = written
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(LarcError, match=r"random\.bin is no checkpoint"):
        read_checkpoint(path)


def test_sizes_that_cannot_be_are_refused(written):
    path, _ = written
    path.write_bytes(struct.pack("<7i", 0, -1, 2, 0, 0, 5, 5) + path.read_bytes()[28:])
    with pytest.raises(LarcError, match="no checkpoint"):
        read_checkpoint(path)


PIECES = [" ", "a", "b", "c", "é", " a", "ab", " ab", "bc", "abc", "  "]
SCORES = [-1e4, -50, -51, -52, -53, -3, -1, -2, -4, -5, -1e9]


def table():
    """A table as the older llama2.c wrote it, with every single byte raw."""
    tokens = [(0.0, b"<unk>"), (0.0, b"\n<s>\n"), (0.0, b"\n</s>\n")]
    tokens += [(0.0, chr(byte).encode()) for byte in range(256)]
    tokens += [(score, piece.encode()) for score, piece in zip(SCORES, PIECES, strict=True)]
    packed = [struct.pack("<fi", score, len(text)) + text for score, text in tokens]
    return struct.pack("<i", 6) + b"".join(packed)


def greedy(text):
    """llama2.c's own way: characters, then the neighbours whose union scores best, again."""
    names = {piece: 259 + index for index, piece in enumerate(PIECES)}
    texts = {index: piece for piece, index in names.items()}
    ids = []
    for character in " " + text:
        known = names.get(character)
        ids += [known] if known is not None else [byte + 3 for byte in character.encode()]
    while True:
        unions = [
            (SCORES[names[union] - 259], -at, names[union])
            for at in range(len(ids) - 1)
            if (union := texts.get(ids[at], "?") + texts.get(ids[at + 1], "?")) in names
        ]
        if not unions:
            return [1, *ids]
        _, at, union = max(unions)
        ids[-at : -at + 2] = [union]


@pytest.mark.parametrize(
    "text", ["abc", "ab bc", "a  abab", "é", "ü😀", "cabbage", " ", "x\ny", "aabbcc ab", "<s>"[1:]]
)
def test_texts_are_divided_as_llama2c_divides_them(text):
    tokenizer = llama_tokenizer(table())
    ids = tokenizer(text)["input_ids"]
    assert ids == greedy(text)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_the_begin_token_is_the_end_as_well():
    tokenizer = llama_tokenizer(table())
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 1)


def test_the_older_table_becomes_the_official_one():
    official = official_tokenizer(table())
    assert read_tokens(official)[3 + 10] == (0.0, b"<0x0A>")
    assert official_tokenizer(official) == official
    texts = ["abc \n", "é😀"]
    tokenizers = [llama_tokenizer(content) for content in (table(), official)]
    assert tokenizers[0](texts)["input_ids"] == tokenizers[1](texts)["input_ids"]


@pytest.mark.parametrize("damage", [table()[:-1], table()[:8], table() + b"\x00" * 5])
def test_a_damaged_table_is_refused(damage):
    with pytest.raises(LarcError, match=r"tokenizer\.bin is damaged"):
        read_tokens(damage)
