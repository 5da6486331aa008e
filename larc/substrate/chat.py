"""Prompts as messages of a chat: what a model's template puts before a user's text and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from larc.errors import LarcError, reason

# Stands for the user's text while the template is filled in; no template has it.
_MARK = "larcuserstext"


@dataclass(frozen=True)
class ChatFrame:
    """Tokens before a user's text and after it, up to where the answer begins.

    The text itself is encoded apart, so that nothing it spells can end the message.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


def chat_frame(tokenizer: Any, name: str) -> ChatFrame:
    r"""Return the frame of a tokenizer's chat template.

    Examples
    --------
    >>> from larc.substrate.tiny import byte_tokenizer
    >>> tokenizer = byte_tokenizer()
    >>> tokenizer.chat_template = "{% for m in messages %}<eos>{{ m.content }}{% endfor %}:"
    >>> frame = chat_frame(tokenizer, "tiny")
    >>> frame.before, tokenizer.decode(frame.after)
    ((0,), ':')
    """
    if not tokenizer.chat_template:
        raise LarcError(f"{name} has no chat template; ask it without chat.")
    messages = [{"role": "user", "content": _MARK}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        before, after = text.split(_MARK)
    except Exception as error:  # whatever a template raises, or one that repeats the text
        raise LarcError(
            f"the chat template of {name} takes no single message of a user ({reason(error)}); "
            "ask it without chat."
        ) from error

    def encode(part: str) -> tuple[int, ...]:
        return tuple(tokenizer(part, add_special_tokens=False)["input_ids"]) if part else ()

    return ChatFrame(encode(before), encode(after))
