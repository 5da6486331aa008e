"""Texts sampled under states: distinct, exact by seed, with the probabilities they have."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

import larc
from larc.domains.programs.language import rules
from larc.errors import LarcError
from larc.proposals.grammar import Grammar
from larc.proposals.sampling import Request, propose
from larc.questions import Limits, ask
from larc.scoring import energies
from tests.questions import PROMPTS, random_factors

LIST = Grammar(rules("list"))
LONG = Limits(384, 64)


def written(substrate, boundary, *requests, seed=2):
    factors = [random_factors(substrate, seed + number) for number in range(len(requests))]
    done = propose(substrate, boundary, factors, requests, LONG)
    return [one.proposals for one in done], factors


def texts(proposals):
    return [proposal.text for proposal in proposals]


@pytest.mark.parametrize("boundary", [0, 2])
def test_log_probabilities_are_those_of_scoring(tiny, boundary):
    request = Request(PROMPTS[0], 6, 64, grammar=LIST, seed=3)
    (proposals,), (factors,) = written(tiny, boundary, request)
    assert len(set(texts(proposals))) == 6
    question = ask(tiny, PROMPTS[0], texts(proposals), LONG)
    with torch.no_grad():
        (scores,) = energies(tiny, [question], larc.Factors.stack([factors]), boundary)
    for proposal, candidate, score in zip(proposals, question.candidates, scores, strict=True):
        assert proposal.tokens == len(candidate)
        # A cache adds in another order than a whole row does.
        assert float(score) * proposal.tokens == pytest.approx(proposal.log_probability, abs=1e-3)
        assert LIST.accepts(proposal.text)
        assert proposal.log_proposal > proposal.log_probability


def test_draws_are_decided_by_the_seed_alone(tiny):
    first = Request(PROMPTS[0], 4, 64, grammar=LIST, seed=3)
    second = Request(PROMPTS[2], 3, 64, temperature=2.0, grammar=LIST, seed=4)
    (one, two), factors = written(tiny, 2, first, second)
    assert written(tiny, 2, first, second)[0] == [one, two]
    # Others in the batch, and padding on their account, decide nothing.
    for request, state, expected in zip((first, second), factors, (one, two), strict=True):
        (alone,) = propose(tiny, 2, [state], [request], LONG)
        assert texts(alone.proposals) == texts(expected)
    other = Request(PROMPTS[0], 4, 64, grammar=LIST, seed=5)
    assert texts(written(tiny, 2, other)[0][0]) != texts(one)


def test_how_often_a_text_is_drawn_is_its_probability(tiny):
    choice, draws = ["a", "b", "ab", "ba", "zzz"], 600
    requests = [Request(PROMPTS[1], 1, grammar=choice, seed=seed) for seed in range(draws)]
    state = random_factors(tiny, 1)
    drawn = [one for done in propose(tiny, 0, [state] * draws, requests) for one in done.proposals]
    expected = {one.text: math.exp(one.log_proposal) for one in drawn}
    assert math.fsum(expected.values()) == pytest.approx(1, abs=0.02)  # the rarest may be missing
    for text, times in Counter(one.text for one in drawn).items():
        deviation = math.sqrt(draws * expected[text])
        assert abs(times - draws * expected[text]) < 4.5 * deviation + 1


@pytest.mark.parametrize("avoid", [(), ("ab",), ("b", "abc")])
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_texts_are_drawn_without_replacement_exactly(tiny, avoid, temperature):
    """In order, as often as their probabilities say once the others are gone.

    Most texts begin like another one: what goes on from a text that is not to be written again must
    not become more probable than the rest for that. At the low temperature many draws are refused.
    """
    choice, draws = ["a", "ab", "abc", "abcd", "b", "ba"], 1500
    state = random_factors(tiny, 1)
    how = {"grammar": choice, "temperature": temperature}
    (everything,) = propose(tiny, 0, [state], [Request(PROMPTS[1], 6, seed=1, **how)])
    chance = {one.text: math.exp(one.log_proposal) for one in everything.proposals}
    assert sorted(chance) == choice
    assert math.fsum(chance.values()) == pytest.approx(1, abs=1e-5)  # logits of float32
    requests = [Request(PROMPTS[1], 2, seed=s, avoid=avoid, **how) for s in range(draws)]
    done = propose(tiny, 0, [state] * draws, requests)
    pairs = Counter(tuple(texts(one.proposals)) for one in done)
    left = {text: p for text, p in chance.items() if text not in avoid}
    total, expected = math.fsum(left.values()), {}
    for first, p in left.items():
        for second, q in left.items():
            if first != second:
                expected[first, second] = draws * p / total * q / (total - p)
    assert set(pairs) <= set(expected)
    for pair, times in expected.items():
        assert abs(pairs[pair] - times) < 4.5 * math.sqrt(times) + 1
    assert any(one.draws > 2 for one in done)  # some were refused


def test_what_was_written_is_refused_at_most_once_by_each_draw_of_a_round(tiny):
    """Its probability is then taken off, so that few draws suffice whatever it was."""
    choice = ["a", "ab", "abc", "abcd", "b", "ba"]
    request = Request(PROMPTS[1], 1, temperature=0.01, grammar=choice, seed=1, avoid=choice[:5])
    (done,) = propose(tiny, 0, [random_factors(tiny, 1)], [request])
    assert texts(done.proposals) == ["ba"]
    assert done.draws <= 6


def test_a_high_temperature_makes_all_alike(tiny):
    request = Request(PROMPTS[1], 1, temperature=1000.0, grammar=list("abcde"), seed=7)
    ((one,),), _ = written(tiny, 0, request)
    assert one.log_proposal == pytest.approx(math.log(0.2), abs=0.05)
    assert one.log_probability < math.log(0.05)


def test_nothing_is_written_twice_and_all_is_written_in_the_end(tiny):
    request = Request(PROMPTS[1], 9, grammar=["a", "b", "ab"], seed=1)
    assert sorted(texts(written(tiny, 0, request)[0][0])) == ["a", "ab", "b"]
    avoiding = Request(PROMPTS[1], 9, grammar=["a", "b", "ab"], seed=1, avoid=["ab", "c"])
    assert sorted(texts(written(tiny, 0, avoiding)[0][0])) == ["a", "b"]
    nothing = Request(PROMPTS[1], 2, grammar=["a"], seed=1, avoid=["a"])
    assert written(tiny, 0, nothing)[0] == [[]]


def test_a_text_that_does_not_end_in_time_is_none(tiny):
    request = Request(PROMPTS[1], 4, 3, grammar=["ab", "abc", "abcd"], seed=1)
    assert texts(written(tiny, 0, request)[0][0]) == ["ab"]


def test_what_became_too_long_is_counted(tiny):
    tiny.ledger.clear()
    request = Request(PROMPTS[1], 4, 3, grammar=["ab", "abc", "abcd"], seed=1, temperature=9.0)
    (done,) = propose(tiny, 0, [random_factors(tiny, 2)], [request])
    (row,) = [row for row in tiny.ledger.as_rows() if row["kind"] == "mixer"]
    length = len(tiny.tokenizer(PROMPTS[1])["input_ids"])
    assert done.positions == row["effective"] == length + 2  # "ab", however often it was drawn
    assert done.draws > 1
    endless = Request(PROMPTS[1], 1, 3, grammar=Grammar('x ::= "a"{5,9}'), seed=1)
    (none,) = propose(tiny, 0, [random_factors(tiny, 2)], [endless])
    assert (none.proposals, none.draws, none.positions) == ([], 1, length + 2)


def test_without_a_grammar_anything_may_be_written(tiny):
    request = Request(PROMPTS[1], 3, 400, temperature=1.5, seed=1)
    (proposals,), _ = written(tiny, 1, request)
    assert proposals
    for proposal in proposals:
        assert proposal.text
        assert "<eos>" not in proposal.text


def test_a_prompt_is_read_once_for_all_its_texts(tiny):
    tiny.ledger.clear()
    request = Request(PROMPTS[0], 5, grammar=["aa", "bb", "cc", "dd", "ee"], seed=1)
    (done,) = propose(tiny, 0, [random_factors(tiny, 2)], [request])
    proposals = done.proposals
    rows = {(row["operation"], row["kind"]): row for row in tiny.ledger.as_rows()}
    length = len(tiny.tokenizer(PROMPTS[0])["input_ids"])
    mixer = rows["propose", "mixer"]
    assert len(proposals) == 5
    # What is drawn twice is written in vain, and counted; draws that begin alike share a row.
    assert mixer["physical"] == mixer["effective"] == done.positions
    assert length + 2 * 5 <= done.positions <= length + 2 * done.draws
    assert done.draws > 5
    (row,) = propose(
        tiny, 0, [random_factors(tiny, 2)], [Request("q", 3, grammar=["abca", "abcb", "abcc"])]
    )
    waves = -(-row.draws // 3)
    assert 1 + 6 <= row.positions <= 1 + 6 * waves
    assert row.positions < 1 + 4 * row.draws
    tiny.ledger.clear()
    written(tiny, 0, Request(PROMPTS[0], 1, grammar=["aa", "bb"], seed=1))
    (row,) = [row for row in tiny.ledger.as_rows() if row["kind"] == "mixer"]
    assert (row["calls"], row["physical"]) == (3, length + 2)  # the end is only predicted


def test_a_state_that_is_shown_to_the_user_is_left_out(tiny):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1, boundary=1))
    episode, other = learner.begin(), learner.begin()
    other.factors = random_factors(tiny, 5, scale=0.5)
    plain = episode.propose(PROMPTS[0], 3, grammar=LIST, max_tokens=64, seed=1)
    with learner.active(other):
        assert episode.propose(PROMPTS[0], 3, grammar=LIST, max_tokens=64, seed=1) == plain
    assert other.propose(PROMPTS[0], 3, grammar=LIST, max_tokens=64, seed=1) != plain


def test_an_episode_draws_from_its_own_stream(tiny):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1))
    first, second = learner.begin(seed=1), learner.begin(seed=1)
    one = first.propose(PROMPTS[0], 2, grammar=LIST, max_tokens=64)
    assert one == second.propose(PROMPTS[0], 2, grammar=LIST, max_tokens=64)
    assert one != first.propose(PROMPTS[0], 2, grammar=LIST, max_tokens=64)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"n": 0}, "n is 0"),
        ({"n": True}, "n is True"),
        ({"max_tokens": 1}, "max_tokens is 1"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"temperature": np.nan}, "temperature is nan"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changed, sentence):
    with pytest.raises(LarcError, match=sentence):
        Request(**{"prompt": "x", "n": 1, **changed})


def test_a_prompt_that_is_too_long_is_refused(tiny):
    with pytest.raises(LarcError, match="the prompt has"):
        written(tiny, 0, Request("x" * 400, 1))
    with pytest.raises(LarcError, match="positions of tiny"):
        written(tiny, 0, Request("x", 1, max_tokens=4000))


def test_a_refused_proposal_draws_nothing(tiny):
    episode = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1)).begin()
    before = episode.stream.bit_generator.state
    for wrong in ({"max_tokens": None}, {"prompt": "x" * 10_000}):
        with pytest.raises(larc.LarcError):
            episode.propose(**{"prompt": "q", "n": 1, **wrong})
    assert episode.stream.bit_generator.state == before
