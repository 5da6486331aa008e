"""Which tokens may come next: a grammar's texts, written with the tokens of one tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from larc.errors import LarcError
from larc.proposals.grammar import Grammar, State
from larc.substrate.frozen import Substrate

#: Where a text is: the grammar's state and the last token, none before the first.
Place = tuple[State, int | None]
_REPLACEMENT = "�"


class Vocabulary:
    """The tokens of a tokenizer as texts, and as a tree of characters.

    Tokens that are no whole text by themselves (part of a character, control tokens) are left out.
    """

    def __init__(self, substrate: Substrate) -> None:
        tokenizer: Any = substrate.tokenizer
        self.tokenizer, self.encoder = tokenizer, substrate.encoder
        self.end = int(tokenizer.eos_token_id)
        size = int(substrate.model.config.get_text_config().vocab_size)
        self.special = frozenset(int(token) for token in tokenizer.all_special_ids) | {self.end}
        ordinary = [t for t in range(min(size, len(tokenizer))) if t not in self.special]
        # Behind another token, and as the first one: some tokenizers write a blank before a text.
        (anchor,) = tokenizer.encode("a", add_special_tokens=False)[-1:]
        before = len(tokenizer.decode([anchor]))
        self.texts = self._decoded([[anchor, token] for token in ordinary], before)
        self.first = self._decoded([[token] for token in ordinary], 0)
        self.tree, self.first_tree = _tree(self.texts), _tree(self.first)
        self.line = self.encode("\n")

    def _decoded(self, rows: Sequence[list[int]], before: int) -> dict[int, str]:
        decoded = self.tokenizer.batch_decode(rows, clean_up_tokenization_spaces=False)
        return {
            row[-1]: text[before:]
            for row, text in zip(rows, decoded, strict=True)
            if text[before:] and _REPLACEMENT not in text
        }

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, as a candidate is tokenised."""
        return list(self.encoder.encode(text))


def _tree(texts: dict[int, str]) -> dict[Any, Any]:
    tree: dict[Any, Any] = {}
    for token, text in texts.items():
        node = tree
        for character in text:
            node = node.setdefault(character, {})
        node.setdefault("", []).append(token)  # no character is empty
    return tree


_VOCABULARIES: WeakKeyDictionary[Substrate, Vocabulary] = WeakKeyDictionary()
_CONSTRAINTS: WeakKeyDictionary[Substrate, dict[str, Constraint]] = WeakKeyDictionary()


def vocabulary_of(substrate: Substrate) -> Vocabulary:
    """Return a substrate's vocabulary, made once."""
    if substrate not in _VOCABULARIES:
        _VOCABULARIES[substrate] = Vocabulary(substrate)
    return _VOCABULARIES[substrate]


class Constraint:
    """What a grammar allows, token by token.

    Only the tokens that the tokenizer itself would write a text with are allowed, so that a text
    is sampled in the one way that it is scored; and only those from which a text can be completed.
    Which tokens those are is known by pairs, as it is for byte-pair encodings; with another
    tokenizer, texts that turn out to be written otherwise are left out in the end.

    Examples
    --------
    >>> from larc.substrate import load_substrate
    >>> tiny = load_substrate("tiny")
    >>> constraint = Constraint.of(tiny, Grammar.choice(["no", "nay", "yes"]))
    >>> sorted(constraint.vocabulary.texts[token] for token in constraint.allowed(constraint.start))
    ['n', 'y']
    """

    def __init__(self, vocabulary: Vocabulary, grammar: Grammar) -> None:
        self.vocabulary = vocabulary
        self.grammar = grammar
        self.start: Place = (grammar.start, None)
        self._following: dict[Place, dict[int, Place]] = {}
        self._allowed: dict[Place, dict[int, Place]] = {}
        self._pairs: dict[tuple[int | None, int], bool] = {}
        self._viable: dict[Place, bool] = {}
        if not self.viable(self.start):
            raise LarcError(
                "the tokenizer cannot write any text of the grammar; give it other rules."
            )

    @staticmethod
    def of(substrate: Substrate, grammar: Grammar | Sequence[str]) -> Constraint:
        """Return the constraint of a grammar, or of a choice of texts, made once a substrate."""
        if not isinstance(grammar, Grammar):
            grammar = Grammar.choice(grammar)
        known = _CONSTRAINTS.setdefault(substrate, {})
        if grammar.rules not in known:
            known[grammar.rules] = Constraint(vocabulary_of(substrate), grammar)
        return known[grammar.rules]

    def complete(self, place: Place) -> bool:
        """Whether a text may end here."""
        return self.grammar.complete(place[0])

    def allowed(self, place: Place) -> dict[int, Place]:
        """Return the tokens that may come next, the end not among them, with where they lead."""
        known = self._allowed.get(place)
        if known is None:
            known = {t: p for t, p in self._next(place).items() if self.viable(p)}
            self._allowed[place] = known
        return known

    def viable(self, place: Place) -> bool:
        """Whether some text can be completed from here."""
        if place in self._viable:
            return self._viable[place]
        # Depth first: whatever leads to a place that can be completed can be completed too.
        trail, seen = [(place, iter(self._next(place).values()))], {place}
        good = self.complete(place)
        while trail and not good:
            for following in trail[-1][1]:
                verdict = self._viable.get(following)
                if verdict is None and following not in seen:
                    seen.add(following)
                    trail.append((following, iter(self._next(following).values())))
                    good = self.complete(following)
                    break
                if verdict:
                    good = True
                    break
            else:
                trail.pop()
        if good:
            self._viable.update((one, True) for one, _ in trail)
        # From all that was seen in vain nothing can be completed.
        self._viable.update({} if good else dict.fromkeys(seen, False))
        self._viable[place] = good
        return good

    def _next(self, place: Place) -> dict[int, Place]:
        known = self._following.get(place)
        if known is not None:
            return known
        state, last = place
        following: dict[int, Place] = {}
        tree = self.vocabulary.first_tree if last is None else self.vocabulary.tree
        waiting: list[tuple[Any, State]] = [(tree, state)]
        while waiting:
            node, here = waiting.pop()
            for token in node.get("", ()):
                if self._canonical(last, token):
                    following[token] = (here, token)
            for character, deeper in node.items():
                after = self.grammar.advance(here, character) if character else None
                if after:
                    waiting.append((deeper, after))
        known = self._following[place] = dict(sorted(following.items()))
        return known

    def _canonical(self, last: int | None, token: int) -> bool:
        """Whether the tokenizer would write these two next to each other."""
        pair = (last, token)
        if pair not in self._pairs:
            words = self.vocabulary
            if last is None:
                self._pairs[pair] = words.encode(words.first[token]) == [token]
            else:
                text = words.texts[last] + words.texts[token]
                # Within a text: after a line break nothing is put before it, and nothing joins it.
                inside = words.encode("\n" + text) == [*words.line, last, token]
                self._pairs[pair] = inside or words.encode(text) == [last, token]
        return self._pairs[pair]
