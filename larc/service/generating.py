"""Generation and scoring under a stream's state, a token at a time between the rounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sqlalchemy.engine import Connection
from torch import Tensor

from larc.errors import LarcError
from larc.learner import Episode, Learner
from larc.service.live import revive
from larc.service.problems import Problem
from larc.service.store.reading import stream_row
from larc.service.store.results import load_snapshot, load_state
from larc.service.templates import Models
from larc.substrate.frozen import Substrate

#: The most tokens of a prompt with its continuation.
LONGEST = 2048
_MARK = "\ue000"  # of private use: where a message stands in a template


@dataclass(frozen=True)
class View:
    """A stream's state at one version, to be read and never changed."""

    learner: Learner
    episode: Episode
    version: int

    @property
    def substrate(self) -> Substrate:
        """The frozen model."""
        return self.learner.substrate


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: the likeliest at temperature 0, otherwise drawn."""

    most: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    top: int = 0


@dataclass(frozen=True)
class Token:
    """A token, its log-probability, and the likeliest ones in its place."""

    id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] = ()


def view(models: Models, connection: Connection, name: str, version: int | None) -> View:
    """Return a stream's state: of a version that was kept, or as it is now."""
    row = stream_row(connection, name)
    content, spec = load_state(connection, row.id), row.spec
    if version is not None and version != row.version:
        kept = load_snapshot(connection, row.id, version)
        if kept is None and version:
            raise Problem("not-found", f"there is no snapshot of version {version}.")
        content, spec = (None, spec) if kept is None else (kept.body, kept.spec)
    live = revive(models, row, content, spec)
    session = live.controller.session
    learning = [one.name for one in session.strategies if one.learns and not one.sham]
    chosen = next(iter([*learning, *session.episodes]))
    if live.mode == "observe":  # what was learned is not shown
        return View(session.learner, session.learner.begin(), row.version)
    episode = session.episodes[chosen]
    return View(session.learner, episode, row.version if version is None else version)


def encode(substrate: Substrate, text: str) -> list[int]:
    """Return a prompt's tokens: a control token that it spells is its characters."""
    _check_length(substrate, text)
    return _checked(list(substrate.encoder.encode(text, begin=True)))


def encode_chat(substrate: Substrate, messages: list[dict[str, str]]) -> list[int]:
    """Return the tokens of messages: control tokens come from the template alone.

    What is spelled in a message is its characters, so that none can end its turn and begin
    another's.
    """
    tokenizer: Any = substrate.tokenizer
    added = tokenizer.added_tokens_decoder.values()
    controls = {*tokenizer.all_special_tokens, *(str(one) for one in added if one.special)}
    spelled = any(control in one["content"] for one in messages for control in controls)
    for one in messages:
        _check_length(substrate, one["content"])
    if not getattr(tokenizer, "chat_template", None):
        return encode(substrate, chat_prompt(substrate, messages))
    tokens = list(substrate.encoder.encode("", begin=True))
    if not spelled:
        text = chat_prompt(substrate, messages)
        return _checked([*tokens, *tokenizer(text, add_special_tokens=False)["input_ids"]])
    marks = [f"{_MARK}{number}{_MARK}" for number in range(len(messages))]
    marked = [{**one, "content": mark} for one, mark in zip(messages, marks, strict=True)]
    text = chat_prompt(substrate, marked)
    for number, part in enumerate(re.split(f"{_MARK}([0-9]+){_MARK}", text)):
        if number % 2:
            tokens += substrate.encoder.encode(messages[int(part)]["content"], plain=True)
        else:
            tokens += tokenizer(part, add_special_tokens=False)["input_ids"]
    return _checked(tokens)


def _check_length(substrate: Substrate, text: str) -> None:
    """Refuse a text that cannot be short enough, before it is tokenised."""
    try:
        substrate.encoder.check_length(text, LONGEST, "the prompt", "give a shorter one")
    except LarcError as error:
        raise Problem("invalid", str(error)) from error


def _checked(tokens: list[int]) -> list[int]:
    if not tokens:
        raise Problem("invalid", "the prompt is empty; give at least one token.")
    if len(tokens) > LONGEST:
        raise Problem("invalid", f"the prompt has {len(tokens)} tokens; give at most {LONGEST}.")
    return tokens


def chat_prompt(substrate: Substrate, messages: list[dict[str, str]]) -> str:
    """Return messages as one prompt: as the model was trained to read them, or line by line."""
    tokenizer = substrate.tokenizer
    if getattr(tokenizer, "chat_template", None):
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return str(text)
    lines = [f"{one['role']}: {one['content']}\n" for one in messages]
    return "".join([*lines, "assistant:"])


def generate(
    here: View,
    tokens: Sequence[int],
    how: Sampling,
    emit: Callable[[Token], bool],
) -> Generator[None, None, str]:
    """Choose tokens one after the other; returns why it stopped.

    The state is the one of the view, whatever its stream learns meanwhile.

    Parameters
    ----------
    here
        The state.
    tokens
        The prompt.
    how
        How to choose.
    emit
        Takes a token; returns whether anybody wants more.
    """
    model, end = here.learner.substrate.model, here.learner.substrate.tokenizer.eos_token_id
    stream = np.random.default_rng(how.seed)
    cache: Any = None
    given = list(tokens)
    for _ in range(min(how.most, LONGEST - len(tokens))):
        with torch.no_grad(), here.learner.active(here.episode):
            ids = torch.tensor([given], device=here.learner.substrate.device)
            out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        chosen = choose(out.logits[0, -1], how, stream)
        if chosen.id == end:
            return "stop"
        if not emit(chosen):
            return "stop"
        given = [chosen.id]
        yield
    return "length"


def choose(logits: Tensor, how: Sampling, stream: np.random.Generator) -> Token:
    """Choose a token.

    Examples
    --------
    >>> logits = torch.tensor([0.0, 2.0, 1.0])
    >>> choose(logits, Sampling(temperature=0.0), np.random.default_rng(0)).id
    1
    """
    logs = logits.double().log_softmax(-1)
    if how.temperature <= 0:
        index = int(logs.argmax())
    else:
        odds = (logits.double() / how.temperature).softmax(-1)
        ranked, order = odds.sort(descending=True)
        total = ranked.cumsum(0)
        kept = int((total < how.top_p).sum()) + 1
        draw = float(stream.random()) * float(total[min(kept, len(total)) - 1])
        index = int(order[min(int((total < draw).sum()), len(order) - 1)])
    return Token(index, float(logs[index]), _top(logs, how.top))


def score(here: View, tokens: Sequence[int], top: int) -> Generator[None, None, list[Token]]:
    """Return each token of a text with its log-probability; the first has none."""
    with torch.no_grad(), here.learner.active(here.episode):
        ids = torch.tensor([list(tokens)], device=here.learner.substrate.device)
        logs = here.learner.substrate.model(input_ids=ids).logits[0].double().log_softmax(-1)
    yield
    scored = [Token(tokens[0], None)]
    for before, token in enumerate(tokens[1:]):
        scored.append(Token(token, float(logs[before, token]), _top(logs[before], top)))
    return scored


def _top(logs: Tensor, count: int) -> tuple[tuple[int, float], ...]:
    if not count:
        return ()
    values, indices = logs.topk(count)
    return tuple(zip(indices.tolist(), values.tolist(), strict=True))
