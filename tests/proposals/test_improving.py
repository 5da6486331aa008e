"""Searches that learn from what they wrote: what is learned, when they end, and how they resume."""

import dataclasses

import numpy as np
import pytest
import torch

import larc
from larc.domains.programs.language import rules
from larc.errors import LarcError
from larc.proposals.grammar import Grammar
from larc.proposals.improving import (
    ImproveSettings,
    learn_together,
    propose_together,
)
from larc.proposals.losses import SampledLosses
from tests.questions import learner_on, start

PROMPT = "Write a program:\n"
LIST = Grammar(rules("list", longest=2))
HOW = ImproveSettings(n=4, max_tokens=40, rounds=4, pool=8)


def learner(substrate, rule=None, boundary=0):
    limits = larc.Limits(384, 40)
    slow = start(substrate, boundary=boundary)
    return larc.Learner(substrate, slow, rule or larc.SGD(1.0), limits=limits)


def judge(texts):
    """Longer is better, up to twelve characters."""
    return [abs(12 - len(text)) / 12 + 0.01 for text in texts]


def search_on(substrate, how=HOW, rule=None, seed=5):
    return learner(substrate, rule).begin(seed).improvement(PROMPT, how, grammar=LIST)


def outcome(search):
    factors = search.episode.factors
    return [(one.text, one.loss, one.round) for one in search.judged], factors.A, factors.B


def same(one, other):
    return one[0] == other[0] and torch.equal(one[1], other[1]) and torch.equal(one[2], other[2])


def test_a_round_is_an_update_on_the_losses_of_its_texts(tiny):
    search, twin = search_on(tiny), learner(tiny).begin(5)
    texts = search.propose()
    assert search.propose() == texts  # until they are judged
    search.learn(judge(texts))
    twin.update(larc.CandidateLosses(PROMPT, texts, judge(texts)))
    assert twin.factors.equal(search.episode.factors)
    # Next comes the round's, and the best of earlier ones, up to the pool.
    more = search.propose()
    assert not set(more) & set(texts)
    search.learn(judge(more))
    earlier = sorted(texts, key=lambda text: judge([text])[0])
    twin.update(larc.CandidateLosses(PROMPT, more + earlier, judge(more + earlier)))
    assert twin.factors.equal(search.episode.factors)
    assert search.round == 2
    assert [one.round for one in search.judged] == [0] * 4 + [1] * 4


def test_learning_makes_good_texts_more_probable(tiny):
    how = dataclasses.replace(HOW, steps=4)
    search = search_on(tiny, how, larc.Descent(1.0))
    texts = search.propose()
    before = search.episode.read(PROMPT, texts)
    losses = torch.tensor(judge(texts))
    search.learn(losses.tolist())
    after = search.episode.read(PROMPT, texts)
    assert float(after @ losses) < float(before @ losses)


def test_without_keeping_nothing_is_learned(tiny):
    search = search_on(tiny, dataclasses.replace(HOW, keep=False))
    before = search.episode.factors
    for _ in range(2):
        search.learn(judge(search.propose()))
    assert search.episode.factors.equal(before)
    assert search.episode.step == 0


def test_sham_losses_are_the_same_ones_dealt_at_random(tiny):
    real, sham = search_on(tiny), search_on(tiny, dataclasses.replace(HOW, sham=True))
    for search in (real, sham):
        search.learn(judge(search.propose()))
    assert real.judged == sham.judged  # what is on record is what was judged
    twin = learner(tiny).begin(5)
    texts = [one.text for one in sham.judged]
    dealt = np.random.default_rng(5).permutation(np.asarray(judge(texts))).tolist()
    twin.update(larc.CandidateLosses(PROMPT, texts, dealt))
    assert twin.factors.equal(sham.episode.factors)


@pytest.mark.parametrize(
    ("changed", "reason", "calls"),
    [
        ({}, "rounds", 16),
        ({"rounds": None, "calls": 6}, "calls", 6),
        ({"positions": 50}, "positions", 4),
        ({"target": 0.02}, "solved", None),
        ({"target": 2.0}, "solved", 4),
    ],
)
def test_a_search_ends(tiny, changed, reason, calls):
    episode = learner(tiny).begin(5)
    how = {**dataclasses.asdict(HOW), **changed}
    rounds, n = how.pop("rounds"), how.pop("n")
    tiny.ledger.clear()
    if reason == "solved" and calls is None:
        rounds = 40
    search = episode.improve(PROMPT, judge, rounds, n, grammar=LIST, **how)
    assert search.ended == reason
    assert calls is None or len(search.judged) == calls
    assert tiny.ledger.total("judge").calls == len(search.judged)
    assert search.best.loss == min(one.loss for one in search.judged)
    assert search.solved == (reason == "solved")


def test_a_search_ends_when_everything_was_written(tiny):
    search = learner(tiny).begin(1).improve(PROMPT, judge, 9, 3, grammar=["a", "b", "ab", "c"])
    assert search.ended == "exhausted"
    assert len(search.judged) == 4


def stopped_after(count):
    """A judge that is not there any more after some calls."""
    asked = []

    def late(texts):
        asked.append(texts)
        if len(asked) > count:
            raise KeyboardInterrupt
        return judge(texts)

    return late


@pytest.mark.parametrize("estimate", ["expected", "self-normalised"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_stopped_search_resumes_to_the_same_bits(tiny, tmp_path, count, estimate):
    how = {**dataclasses.asdict(HOW), "estimate": estimate, "sham": True}
    rounds, n = how.pop("rounds"), how.pop("n")
    whole = learner(tiny).begin(5).improve(PROMPT, judge, rounds, n, grammar=LIST, **how)
    file = tmp_path / "search"
    with pytest.raises(KeyboardInterrupt):
        learner(tiny).begin(5).improve(
            PROMPT, stopped_after(count), rounds, n, grammar=LIST, checkpoint=file, **how
        )
    resumed = (
        learner(tiny)
        .begin(5)
        .improve(PROMPT, judge, rounds, n, grammar=LIST, checkpoint=file, **how)
    )
    assert same(outcome(whole), outcome(resumed))
    assert (resumed.positions, resumed.ended) == (whole.positions, whole.ended)


def test_losses_may_come_later_in_another_process(tiny, tmp_path):
    search = search_on(tiny)
    texts = search.propose()
    search.save(tmp_path / "search")
    later = search_on(tiny)
    later.restore(tmp_path / "search")
    assert later.propose() == texts
    later.learn(judge(texts))
    search.learn(judge(texts))
    assert same(outcome(later), outcome(search))


def test_a_file_of_another_search_is_refused(tiny, tmp_path):
    search = search_on(tiny)
    search.learn(judge(search.propose()))
    search.save(tmp_path / "search")
    for other in (
        search_on(tiny, dataclasses.replace(HOW, temperature=2.0)),
        search_on(tiny, seed=6),
        learner(tiny).begin(5).improvement("Another:\n", HOW, grammar=LIST),
        learner(tiny).begin(5).improvement(PROMPT, HOW),
        learner(tiny, larc.SGD(0.5)).begin(5).improvement(PROMPT, HOW, grammar=LIST),
        learner_on(tiny).begin(5).improvement(PROMPT, HOW, grammar=LIST),
    ):
        before = outcome(other)
        with pytest.raises(LarcError, match="another"):
            other.restore(tmp_path / "search")
        assert same(before, outcome(other))


@pytest.mark.parametrize("losses", [[0.5], [0.5, 0.5, 0.5, np.nan], ["a", 1, 1, 1], 7])
def test_losses_that_cannot_be_learned_from_change_nothing(tiny, losses):
    search = search_on(tiny)
    texts, before = search.propose(), search.episode.factors
    with pytest.raises(LarcError, match="one finite loss for each"):
        search.learn(losses)
    assert search.propose() == texts
    assert search.episode.factors is before


def test_an_update_that_fails_leaves_every_search_as_it_was(tiny):
    how = dataclasses.replace(HOW, steps=2, sham=True)
    host = learner(tiny, larc.SGD(1e38))
    searches = [host.begin(n).improvement(PROMPT, how, grammar=LIST) for n in range(2)]
    texts = propose_together(searches)
    before = [s.episode.factors for s in searches]
    streams = [s.episode.stream.bit_generator.state for s in searches]
    with pytest.raises(LarcError, match="not finite"):
        learn_together([(s, judge(t)) for s, t in zip(searches, texts, strict=True)])
    assert [s.episode.factors for s in searches] == before
    assert [s.episode.stream.bit_generator.state for s in searches] == streams
    assert propose_together(searches) == texts


def test_searches_side_by_side_are_what_they_are_alone(tiny):
    host = learner(tiny)
    together = [host.begin(n).improvement(PROMPT, HOW, grammar=LIST) for n in range(3)]
    while not all(search.ended for search in together):
        texts = propose_together(together)
        learn_together([(s, judge(t)) for s, t in zip(together, texts, strict=True)])
    for number, search in enumerate(together):
        alone = learner(tiny).begin(number).improvement(PROMPT, HOW, grammar=LIST)
        while not alone.ended:
            alone.learn(judge(alone.propose()))
        assert [one.text for one in alone.judged] == [one.text for one in search.judged]


def test_another_prompt_may_be_asked_each_round(tiny):
    search = search_on(tiny, dataclasses.replace(HOW, keep=False))
    asked = []

    def ask(now):
        asked.append([one.text for one in now.judged])
        return f"{PROMPT}tried {len(now.judged)}:\n"

    search.ask = ask
    for _ in range(2):
        search.learn(judge(search.propose()))
    assert [len(texts) for texts in asked] == [0, 4]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"rounds": None}, "nothing ends"),
        ({"rounds": 0}, "rounds is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"pool": -1}, "pool is"),
        ({"estimate": "best"}, "estimate 'best'"),
        ({"estimate": "policy-gradient"}, "leave the pool at 0"),
        ({"n": 0}, "n is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, sentence):
    with pytest.raises(LarcError, match=sentence):
        dataclasses.replace(HOW, **changed)


# Estimates ----------------------------------------------------------------------------------------


def test_at_the_state_that_drew_them_both_estimates_agree():
    """Self-normalised weights are then equal, and their slope is the policy gradient's."""
    texts, losses, tokens = ["a", "bb", "cccc"], [0.0, 1.0, 0.25], [2, 3, 5]
    policy = SampledLosses(PROMPT, texts, losses, tokens=tokens)
    scores = torch.tensor([-1.0, -2.0, -0.5])
    logs = (scores * torch.tensor(tokens)).tolist()
    drawn = SampledLosses(PROMPT, texts, losses, tokens=tokens, drawn_at=logs)
    slopes = []
    for piece in (policy, drawn):
        at = scores.clone().requires_grad_()
        slopes.append(torch.autograd.grad(piece.loss(at), at)[0])
    # The baseline of the one leaves each text itself out: n / (n - 1) of the mean of all.
    assert torch.allclose(slopes[0], slopes[1] * 3 / 2, atol=1e-6)
    assert float(drawn.loss(scores)) == pytest.approx(sum(losses) / 3)


def test_the_policy_gradient_is_unbiased():
    """Over all ways to draw two of three texts with replacement, by their probabilities."""
    texts, losses = ["a", "b", "c"], [0.0, 1.0, 0.5]
    scores = torch.tensor([0.3, -0.2, 0.1], requires_grad=True)
    logs = scores.log_softmax(-1)
    exact = torch.autograd.grad(logs.exp() @ torch.tensor(losses), scores, retain_graph=True)[0]
    total = torch.zeros(3)
    weights = logs.exp().detach()
    for i in range(3):
        for j in range(3):
            if i == j:
                continue  # its baseline is itself: nothing
            piece = SampledLosses(
                PROMPT, [texts[i], texts[j]], [losses[i], losses[j]], tokens=[1, 1]
            )
            at = logs[[i, j]]
            slope = torch.autograd.grad(piece.loss(at), scores, retain_graph=True)[0]
            total += weights[i] * weights[j] * slope
    assert torch.allclose(total, exact, atol=1e-6)


@pytest.mark.parametrize("estimate", ["self-normalised", "policy-gradient"])
def test_every_estimate_learns(tiny, estimate):
    how = dataclasses.replace(HOW, estimate=estimate, pool=0, n=6)
    search = search_on(tiny, how, larc.SGD(0.05))
    texts = search.propose()
    before = search.episode.read(PROMPT, texts)
    losses = torch.tensor(judge(texts))
    search.learn(losses.tolist())
    after = search.episode.read(PROMPT, texts)
    assert float(after @ losses) < float(before @ losses)
