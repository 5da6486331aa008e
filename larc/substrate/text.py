"""Texts to tokens: a text is text, whatever it spells.

A tokenizer reads ``<|im_end|>`` in a text as its control token of that name, so that whoever writes
the text could end a turn or a sequence. Here a text is encoded as the characters it consists of.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any, Literal

from larc.errors import LarcError

#: ``plain``: control tokens in a text are characters. ``control``: they are read, as up to 0.1.
Texts = Literal["plain", "control"]
_PROBE = "a"


class Encoder:
    """Encodes texts with a tokenizer.

    Parameters
    ----------
    tokenizer
        The model's.
    vocabulary
        How many tokens the model has embeddings for.
    texts
        ``"plain"``, or ``"control"`` to read control tokens that a text spells.

    Examples
    --------
    >>> from larc.substrate.tiny import byte_tokenizer
    >>> Encoder(byte_tokenizer(), 258).encode("<eos>")
    (29, 70, 80, 84, 31)
    >>> Encoder(byte_tokenizer(), 258, "control").encode("<eos>")
    (0,)
    """

    def __init__(self, tokenizer: Any, vocabulary: int, texts: Texts = "plain") -> None:
        if texts not in ("plain", "control"):
            raise LarcError(f"texts {texts!r} is unknown; use 'plain' or 'control'.")
        self.tokenizer, self.vocabulary, self.texts = tokenizer, vocabulary, texts
        # Whether control tokens are read is a state of the tokenizer while it is called.
        self._lock = threading.Lock()

    def encode(self, text: str, *, begin: bool = False, plain: bool = False) -> tuple[int, ...]:
        """Return a text's tokens, after those that the tokenizer begins a sequence with if asked.

        What a tokenizer appends to a sequence is left out: something follows every text here. A
        ``plain`` text is one whatever the encoder does with others.
        """
        tokens = self._tokens(text, special=begin, plain=plain)
        if begin and self._appended:
            tokens = tokens[: -self._appended]
        if tokens and max(tokens) >= self.vocabulary:
            raise LarcError(
                f"a text has the token {max(tokens)} and the model has embeddings for "
                f"{self.vocabulary}: the tokenizer belongs to another model; give its own."
            )
        return tokens

    def check_length(self, text: str, most: int, name: str, advice: str) -> None:
        """Refuse a text that cannot have so few tokens, before it is tokenised."""
        if len(text) > most * self._longest:
            raise LarcError(
                f"{name} has {len(text)} characters, over the limit of {most} tokens however they "
                f"are cut; {advice}."
            )

    def _tokens(self, text: str, *, special: bool, plain: bool = False) -> tuple[int, ...]:
        split = plain or self.texts == "plain"
        with self._lock:
            encoded = self.tokenizer(text, add_special_tokens=special, split_special_tokens=split)
        return tuple(encoded["input_ids"])

    @cached_property
    def _appended(self) -> int:
        """How many tokens the tokenizer puts after a text, such as an end of sequence."""
        inner = self._tokens(_PROBE, special=False)
        whole = self._tokens(_PROBE, special=True)
        for start in range(len(whole) - len(inner) + 1):
            if whole[start : start + len(inner)] == inner:
                return len(whole) - len(inner) - start
        return 0

    @cached_property
    def _longest(self) -> int:
        """The most characters of a token; one of a byte is written as up to six: ``<0x0A>``."""
        return max(6, *map(len, self.tokenizer.get_vocab()))
