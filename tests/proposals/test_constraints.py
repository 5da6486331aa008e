"""Tokens of a grammar: those the tokenizer itself would write, and from which a text can end."""

import random

import pytest

from larc.domains.functions import function_problems
from larc.domains.programs.language import rules
from larc.errors import LarcError
from larc.proposals.constraints import Constraint
from larc.proposals.grammar import Grammar

GRAMMARS = [rules("arithmetic"), rules("list"), *(p.rules for p in function_problems()[::12])]


def walk(constraint, stream):
    place, tokens = constraint.start, []
    while True:
        options = list(constraint.allowed(place))
        options += [None] * constraint.complete(place)
        assert options, "nowhere to go"
        token = stream.choice(options)
        if token is None:
            return tokens
        tokens.append(token)
        place = constraint.allowed(place)[token]


def check(substrate, text):
    constraint, stream = Constraint.of(substrate, Grammar(text)), random.Random(1)
    for _ in range(40):
        tokens = walk(constraint, stream)
        written = "".join(constraint.vocabulary.texts[token] for token in tokens)
        assert constraint.grammar.accepts(written)
        assert constraint.vocabulary.encode(written) == tokens


@pytest.mark.parametrize("text", GRAMMARS)
def test_every_way_leads_to_a_text_in_its_own_tokens(tiny, text):
    check(tiny, text)


@pytest.mark.smollm2
@pytest.mark.parametrize("text", GRAMMARS)
def test_and_on_a_real_tokenizer(smollm2, text):
    check(smollm2, text)


@pytest.mark.smollm2
def test_a_word_is_not_written_letter_by_letter(smollm2):
    constraint = Constraint.of(smollm2, rules_of := Grammar(rules("list")))
    first = {constraint.vocabulary.texts[token] for token in constraint.allowed(constraint.start)}
    assert first == {"min", "sort", "take", "append"}
    assert Constraint.of(smollm2, rules_of) is constraint


def test_what_no_token_writes_is_refused(tiny):
    with pytest.raises(LarcError, match="cannot write any text"):
        Constraint.of(tiny, ["é"])  # two tokens of tiny, neither of which is a character
