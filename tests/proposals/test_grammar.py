"""Grammars: what they accept, and what is refused of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc.domains.programs.language import operations, parse, rules
from larc.domains.programs.recipes import FAMILIES, render
from larc.errors import LarcError
from larc.proposals.grammar import Grammar


@given(st.text("ab+()", max_size=7))
def test_a_grammar_accepts_what_the_same_regular_expression_does(text):
    grammar = Grammar('x ::= "a"? ("b" | "(" [ab] ")"){1,2} ("+" "a")*')
    assert grammar.accepts(text) == bool(re.fullmatch(r"a?(b|\([ab]\)){1,2}(\+a)*", text))


def test_rules_may_be_inside_themselves():
    grammar = Grammar('sum ::= term ("+" term)*\nterm ::= "1" | "(" sum ")"')
    assert grammar.accepts("(1+(1))+1")
    assert not grammar.accepts("(1+(1)+1")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_language_of_programs_is_the_grammar_of_its_operations(family):
    grammar = Grammar(rules(family))
    known = operations(family)
    for operation in known:
        text = render((operation,))
        assert grammar.accepts(text)
        assert parse(text, family) == (operation,)
    assert grammar.accepts("|".join(render((known[-1],)) for _ in range(4)))
    assert not grammar.accepts("|".join(render((known[-1],)) for _ in range(5)))
    one = list(Grammar(rules(family, longest=1)).texts())
    assert sorted(one) == sorted(render((operation,)) for operation in known)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "begin with a rule"),
        ("x = 1", "begin with a rule"),
        ('x ::= "a" y', "names 'y'"),
        ('x ::= ("a"', "not closed"),
        ('x ::= "a")', "too many"),
        ('x ::= "a" ::', "cannot be read"),
        ('x ::= x "a" | "b"', "begins with itself"),
        ('x ::= "a"{3,2}', "repeats 3 to 2"),
        ('x ::= "a"\nx ::= "b"', "twice"),
        ("x ::= [z-a]", "empty range"),
        ("x ::= ?", "repeats nothing"),
    ],
)
def test_what_is_no_grammar_is_refused(text, sentence):
    with pytest.raises(LarcError, match=re.escape(sentence)):
        Grammar(text)


@pytest.mark.parametrize("texts", ["ab", [], [""], [1]])
def test_a_choice_is_a_list_of_texts(texts):
    with pytest.raises(LarcError, match=r"list of texts|give a list"):
        Grammar.choice(texts)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_choice_is_of_any_texts(texts):
    grammar = Grammar.choice(texts)
    assert all(grammar.accepts(text) for text in texts)
    assert sorted(set(texts)) == sorted(grammar.texts())
