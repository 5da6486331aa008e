"""Distinct complete texts, sampled side by side under private states.

Sampling is without replacement, and exact: each text is drawn with the probability it has among all
texts that were neither written before nor are to be avoided. A draw that ends in one of those is
refused; from then on its probability is taken off every beginning it has, so that it cannot be
drawn again and what goes on from its beginnings is no more probable than it was.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from larc import checks
from larc.errors import LarcError
from larc.proposals.constraints import Constraint, Place, Vocabulary, vocabulary_of
from larc.proposals.grammar import Grammar
from larc.proposals.steering import active
from larc.questions import Limits, ask
from larc.residual import Factors, checked_seed
from larc.substrate.frozen import Substrate

OPERATION = "propose"
#: How many draws may be made for each text that is asked for, besides one for each to be avoided.
DRAWS = 8
# Keys and values are kept for a row's whole length: this many times `chunk_positions` at once.
_KEPT = 4


@dataclass(frozen=True)
class Proposal:
    """A complete text that the model wrote.

    Attributes
    ----------
    text
        What it wrote, without the end of sequence.
    tokens
        How many tokens that is when it is scored, the end among them.
    log_probability
        Of the text and its end under the state: the model's own, of all texts.
    log_proposal
        Of drawing it, if it is the first: with the temperature, the grammar and the end at the last
        token.
    """

    text: str
    tokens: int
    log_probability: float
    log_proposal: float


@dataclass(frozen=True)
class Written:
    """What was written for a request, and what that took.

    Attributes
    ----------
    proposals
        The texts.
    draws
        How many were begun for them: those that were refused or became too long among them.
    positions
        The positions of the model that the prompt and all draws took; draws of which several began
        alike took those of their common beginning once.
    """

    proposals: list[Proposal]
    draws: int
    positions: int


@dataclass(frozen=True)
class Request:
    """What is to be written: a prompt to go on from, how many texts, and how they are drawn.

    Attributes
    ----------
    prompt, n
        What is gone on from, and how many distinct texts are wanted.
    max_tokens
        The most tokens of a text, its end included.
    temperature
        What logits are divided by.
    grammar
        What texts are allowed: a `Grammar`, a choice of texts, or all.
    seed
        Decides the draws, and nothing else does.
    avoid
        Texts that are not to be written.
    """

    prompt: str
    n: int
    max_tokens: int = 32
    temperature: float = 1.0
    grammar: Grammar | Sequence[str] | None = None
    seed: int = 0
    avoid: Collection[str] = ()

    def __post_init__(self) -> None:
        for name, value, least in (("n", self.n, 1), ("max_tokens", self.max_tokens, 2)):
            checks.whole_number(value, name, least=least)
        checks.number(self.temperature, "temperature", above=0)
        checked_seed(self.seed)


def propose(
    substrate: Substrate,
    boundary: int,
    factors: Sequence[Factors],
    requests: Sequence[Request],
    limits: Limits | None = None,
) -> list[Written]:
    """Sample for every request under its own factors, in shared calls of the model.

    A request gets fewer texts than it asks for where there are no more, or where too many draws
    (`DRAWS` for each text, and one for each to be avoided) gave no new one.

    Parameters
    ----------
    substrate, boundary, factors
        The model, where the states are, and the state of each request.
    requests, limits
        What to write, and the token limits that prompts are held to.

    Examples
    --------
    >>> from larc.residual import initial_factors
    >>> from larc.substrate import load_substrate
    >>> tiny, request = load_substrate("tiny"), Request("2+2=", 3, grammar=["3", "4", "5"])
    >>> (written,) = propose(tiny, 0, [initial_factors(32, 4, seed=1)], [request])
    >>> sorted(proposal.text for proposal in written.proposals)
    ['3', '4', '5']
    """
    substrate.check_boundary(boundary)
    writers = [_Writer(substrate, request, limits) for request in requests]
    with torch.inference_mode(False), torch.no_grad(), substrate.ledger.operation(OPERATION):
        for chunk in _chunks(writers, substrate):
            stack = Factors.stack([factors[number] for number in chunk])
            _write(substrate, boundary, stack, [writers[number] for number in chunk])
    return [Written(writer.proposals, writer.drawn, writer.positions) for writer in writers]


@dataclass
class _Draw:
    """One text being written: by its own random numbers, so that its company decides nothing."""

    stream: np.random.Generator
    place: Place | None
    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0
    log_proposal: float = 0.0
    ended: bool = False


@dataclass
class _Node:
    """Where texts go on from: how probable its next tokens are, and what is left of them.

    Attributes
    ----------
    rest
        The probability of all tokens that were never drawn here.
    drawn
        Of those that were: the probability of each, and the part of it that texts have which may
        still be drawn.
    """

    rest: float = 1.0
    drawn: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """The part of its probability that is left: sums of what is, so that nothing cancels."""
        return self.rest + math.fsum(chance * left for chance, left in self.drawn.values())


class _Writer:
    """A request while it is carried out."""

    def __init__(self, substrate: Substrate, request: Request, limits: Limits | None) -> None:
        # With some candidate, for what is refused of a prompt is refused there.
        self.prompt = ask(substrate, request.prompt, ["."], limits).prompt
        if substrate.longest and len(self.prompt) + request.max_tokens - 1 > substrate.longest:
            raise LarcError(
                f"the prompt and {request.max_tokens} tokens take more than the "
                f"{substrate.longest} positions of {substrate.name}; lower max_tokens."
            )
        self.request = request
        self.vocabulary: Vocabulary = vocabulary_of(substrate)
        self.constraint = (
            None if request.grammar is None else Constraint.of(substrate, request.grammar)
        )
        self.free = np.array([*self.vocabulary.texts, self.vocabulary.end])
        self.proposals: list[Proposal] = []
        self.texts = set(request.avoid)
        self.drawn = 0
        self.positions = len(self.prompt)
        #: By tokens so far.
        self.nodes: dict[tuple[int, ...], _Node] = {(): _Node()}

    @property
    def wanted(self) -> int:
        """How many draws to make next, side by side: more than are missing where many were refused.

        What is left over of them is dropped, the last ones first; so none is favoured.
        """
        n, kept = self.request.n, len(self.proposals)
        if kept == n or not self.nodes[()].left:
            return 0
        likely = math.ceil((n - kept) * (self.drawn + 1) / (kept + 1)) if self.drawn else n
        return min(likely, n, DRAWS * n + len(self.request.avoid) - self.drawn)

    def draws(self) -> list[_Draw]:
        """Begin the next draws."""
        numbers = range(self.drawn, self.drawn + self.wanted)
        self.drawn = numbers.stop
        place = None if self.constraint is None else self.constraint.start
        return [
            _Draw(np.random.default_rng([self.request.seed, number]), place) for number in numbers
        ]

    def step(self, draw: _Draw, logits: NDArray[np.float64], total: float) -> bool:
        """Draw the next token from the logits at the row's end; whether the row goes on."""
        options = self._options(draw)
        if not len(options):  # it did not end in time
            return False
        scores = logits[options] / self.request.temperature
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        node = self.nodes.setdefault(tuple(draw.tokens), _Node())
        weights = chances.copy()
        for token, (_, left) in node.drawn.items():
            weights[options == token] *= left
        sums = weights.cumsum()
        chosen = int(np.searchsorted(sums, draw.stream.random() * sums[-1], side="right"))
        chosen = min(chosen, int(np.flatnonzero(weights)[-1]))
        token = int(options[chosen])
        if token not in node.drawn:
            node.drawn[token] = (float(chances[chosen]), 1.0)
            node.rest = float(chances[~np.isin(options, list(node.drawn))].sum())
        draw.log_proposal += float(np.log(chances[chosen]))
        draw.log_probability += float(logits[token] - total)
        draw.tokens.append(token)
        if token == self.vocabulary.end:
            draw.ended = True
            return False
        if draw.place is not None and self.constraint is not None:
            draw.place = self.constraint.allowed(draw.place)[token]
        return True

    def keep(self, draw: _Draw) -> None:
        """Keep a text that is complete and new, if one is missing, and never draw it again."""
        if len(self.proposals) == self.request.n:
            return
        self._take_off(tuple(draw.tokens))
        if not draw.ended:
            return
        written = draw.tokens[:-1]
        text = str(self.vocabulary.tokenizer.decode(written, clean_up_tokenization_spaces=False))
        tokens = self.vocabulary.encode(text)
        # Part of a character, or what only looks like the grammar's tokens.
        whole = "�" not in text and (self.constraint is None or tokens == written)
        if not whole or not text or text in self.texts:
            return
        self.texts.add(text)
        self.proposals.append(
            Proposal(text, len(tokens) + 1, draw.log_probability, draw.log_proposal)
        )

    def _options(self, draw: _Draw) -> NDArray[np.int64]:
        """Return the tokens that may come next: at the last one the end, and no empty text."""
        end = self.vocabulary.end
        if draw.place is None or self.constraint is None:
            options = self.free
        else:
            ended = [end] if self.constraint.complete(draw.place) else []
            options = np.array([*self.constraint.allowed(draw.place), *ended])
        if len(draw.tokens) + 1 == self.request.max_tokens:
            options = options[options == end]
        return options if draw.tokens else options[options != end]

    def _take_off(self, tokens: tuple[int, ...]) -> None:
        """Take what a draw ended in off the probability of every beginning it has."""
        left = 0.0
        for size in range(len(tokens) - 1, -1, -1):
            node = self.nodes[tokens[:size]]
            node.drawn[tokens[size]] = (node.drawn[tokens[size]][0], left)
            left = node.left


def _chunks(writers: Sequence[_Writer], substrate: Substrate) -> list[list[int]]:
    """Return requests to write side by side, alike in length and within what may be kept."""
    chunks: list[list[int]] = []
    rows = 0
    for number in sorted(range(len(writers)), key=lambda n: len(writers[n].prompt)):
        request, length = writers[number].request, len(writers[number].prompt)
        fits = (rows + request.n) * (length + request.max_tokens)
        alike = chunks and len(writers[chunks[-1][0]].prompt) == length
        if (
            not chunks
            or fits > _KEPT * substrate.chunk_positions
            or not (alike or _takes(substrate, "position_ids"))
        ):
            chunks.append([])
            rows = 0
        chunks[-1].append(number)
        rows += request.n
    return chunks


def _takes(substrate: Substrate, argument: str) -> bool:
    return argument in inspect.signature(substrate.model.forward).parameters


def _write(substrate: Substrate, boundary: int, stack: Factors, writers: Sequence[_Writer]) -> None:
    """Read every prompt once, and write from there until each request has its texts."""
    length, padding = max(len(writer.prompt) for writer in writers), substrate.padding_token
    # Padded on the left, so that every row goes on from its last token.
    pads = [length - len(writer.prompt) for writer in writers]
    rows = [[padding] * p + list(w.prompt) for p, w in zip(pads, writers, strict=True)]
    effective = sum(len(writer.prompt) for writer in writers)
    call = _Call(substrate, boundary, torch.tensor(pads), padded=any(pads))
    logits, prefix = call(torch.tensor(rows), stack, torch.arange(len(writers)), None, effective)
    while True:
        draws = [(number, draw) for number, w in enumerate(writers) for draw in w.draws()]
        if not draws:
            return
        _draw(call, stack, writers, draws, logits, prefix)
        for number, draw in draws:
            writers[number].keep(draw)


def _draw(
    call: _Call,
    stack: Factors,
    writers: Sequence[_Writer],
    draws: Sequence[tuple[int, _Draw]],
    logits: Tensor,
    prefix: Any,
) -> None:
    """Write draws side by side; those that wrote the same so far share a row."""
    cache, owners = prefix, list(range(len(writers)))
    at = [owner for owner, _ in draws]  # the row of each draw
    while True:
        table = logits.double()
        totals = table.logsumexp(1).tolist()
        numbers = table.numpy()
        going = [
            (row, draw)
            for row, (owner, draw) in zip(at, draws, strict=True)
            if writers[owner].step(draw, numbers[row], totals[row])
        ]
        if not going:
            return
        rows: dict[tuple[int, int], int] = {}  # by the row gone on from, and the token
        at = [rows.setdefault((row, draw.tokens[-1]), len(rows)) for row, draw in going]
        parents = [row for row, _ in rows]
        draws = [(owners[row], draw) for row, draw in going]
        # The prefix stays as it is, for the draws after these.
        if cache is prefix or parents != list(range(len(owners))):
            cache = _rows_of(cache, torch.tensor(parents))
        owners = [owners[row] for row in parents]
        for owner in owners:
            writers[owner].positions += 1
        tokens = torch.tensor([[token] for _, token in rows])
        logits, cache = call(tokens, stack, torch.tensor(owners), cache, len(rows))


class _Call:
    """Calls the model under the rows' states, going on from keys and values that are kept."""

    def __init__(self, substrate: Substrate, boundary: int, pads: Tensor, *, padded: bool) -> None:
        self.substrate, self.boundary = substrate, boundary
        self.pads, self.padded = pads, padded
        self.last_only = _takes(substrate, "logits_to_keep")

    def __call__(
        self, tokens: Tensor, stack: Factors, owners: Tensor, cache: Any, effective: int
    ) -> tuple[Tensor, Any]:
        """Return the logits at the end of each row, on the CPU, and the longer cache."""
        substrate, device = self.substrate, self.substrate.device
        before = 0 if cache is None else int(cache.get_seq_length())
        inputs: dict[str, Any] = {"logits_to_keep": 1} if self.last_only else {}
        if self.padded:
            whole = torch.arange(before + tokens.shape[1])
            pads = self.pads[owners][:, None]
            inputs["attention_mask"] = (whole >= pads).long().to(device)
            inputs["position_ids"] = (whole[before:] - pads).clamp_min(0).to(device)
        states = stack.at(owners.to(stack.A.device))
        substrate.ledger.add("mixer", tokens.numel(), effective)
        substrate.ledger.add("head", len(tokens), len(tokens))
        with active(substrate, self.boundary, lambda: states):
            output = substrate.model(
                input_ids=tokens.to(device), past_key_values=cache, use_cache=True, **inputs
            )
        kept = getattr(output, "past_key_values", None)
        if not hasattr(kept, "batch_select_indices"):
            raise LarcError(
                f"{substrate.name} keeps no keys and values that rows can be chosen of; "
                "proposals need a model that does."
            )
        return output.logits[:, -1].float().cpu(), kept


def _rows_of(cache: Any, rows: Tensor) -> Any:
    """Return some rows of a cache, which itself stays as it is."""
    chosen = copy.copy(cache)
    chosen.layers = [copy.copy(layer) for layer in cache.layers]
    chosen.batch_select_indices(rows.to(cache.layers[0].keys.device))
    return chosen
