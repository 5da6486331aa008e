"""Tokens of a grammar: those the tokenizer itself would write, and from which a text can end."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import larc
from larc.domains.functions import function_problems
from larc.domains.programs.language import rules
from larc.errors import LarcError
from larc.proposals.constraints import Constraint
from larc.proposals.grammar import Grammar
from larc.substrate import Substrate

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
        written = substrate.tokenizer.decode(tokens)
        assert constraint.grammar.accepts(written)
        assert constraint.vocabulary.encode(written) == tokens


@pytest.mark.parametrize("text", GRAMMARS)
def test_every_way_leads_to_a_text_in_its_own_tokens(tiny, text):
    check(tiny, text)


@pytest.mark.smollm2
@pytest.mark.parametrize("text", GRAMMARS)
def test_and_on_a_real_tokenizer(smollm2, text):
    check(smollm2, text)


@pytest.fixture(scope="module")
def blank(tiny):
    """The tiny model with a tokenizer that writes a blank before a text, as SentencePiece does."""
    pieces = ["<unk>", "<eos>", "▁", "\n", *map(chr, range(33, 127))]
    merges = []
    for word in ("▁mul", "▁add", "mul", "▁sort", "▁take", "ta", "▁-", "▁1"):
        for size in range(1, len(word)):
            merges.append((word[:size], word[size]))
            pieces.append(word[: size + 1])
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    merges = list(dict.fromkeys(merges))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", unk_token="<unk>")
    return Substrate("blank", tiny.model, fast)


@pytest.mark.parametrize("text", GRAMMARS)
def test_and_where_a_blank_is_written_before_a_text(blank, text):
    check(blank, text)
    state = larc.SlowState.initial(blank, seed=1)
    episode = larc.Learner(blank, state, limits=larc.Limits(384, 64)).begin()
    for proposal in episode.propose("Program:", 3, grammar=Grammar(text), max_tokens=64):
        assert Grammar(text).accepts(proposal.text)


@pytest.mark.smollm2
def test_a_word_is_not_written_letter_by_letter(smollm2):
    constraint = Constraint.of(smollm2, rules_of := Grammar(rules("list")))
    first = {constraint.vocabulary.texts[token] for token in constraint.allowed(constraint.start)}
    assert first == {"min", "sort", "take", "append"}
    assert Constraint.of(smollm2, rules_of) is constraint


def test_what_no_token_writes_is_refused(tiny):
    with pytest.raises(LarcError, match="cannot write any text"):
        Constraint.of(tiny, ["é"])  # two tokens of tiny, neither of which is a character
