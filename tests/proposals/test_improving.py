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
    improve,
    learn_together,
    propose_together,
)
from larc.proposals.sampling import Proposal
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


def varied(texts):
    """Losses that differ also between texts of one length."""
    sums = [sum((n + 1) * ord(letter) for n, letter in enumerate(text)) for text in texts]
    return [(7 * one % 11 + 1) / 11 for one in sums]


def search_on(substrate, how=HOW, rule=None, seed=5):
    # Only a choice among texts is learned from where a grammar had a part in drawing them.
    grammar = LIST if how.estimate == "expected" else None
    return learner(substrate, rule).begin(seed).improvement(PROMPT, how, grammar=grammar)


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


def test_sham_losses_are_those_of_a_round_dealt_once(tiny):
    """And nothing else: which earlier texts are learned from goes by what they were dealt."""
    sham = search_on(tiny, dataclasses.replace(HOW, sham=True, pool=6))
    twin, stream = learner(tiny).begin(5), np.random.default_rng(5)
    told, rounds = {}, []
    for number in range(3):
        texts = sham.propose()
        sham.learn(losses := varied(texts))
        dealt = stream.permutation(np.asarray(losses)).tolist()
        assert sorted(dealt) == sorted(losses)
        earlier = sorted(told, key=told.get)[: 6 - len(texts)]
        told |= zip(texts, dealt, strict=True)
        learned = [*texts, *(earlier if number else [])]
        twin.update(larc.CandidateLosses(PROMPT, learned, [told[text] for text in learned]))
        assert twin.factors.equal(sham.episode.factors)
        rounds.append(losses)
    assert [one.told for one in sham.judged] == list(told.values())
    # What is on record is what was judged.
    assert [one.loss for one in sham.judged] == [loss for losses in rounds for loss in losses]


def test_sham_losses_end_a_search_only_where_they_are_true(tiny):
    sham = search_on(tiny, dataclasses.replace(HOW, sham=True))
    sham.learn([0.5, 0.5, 0.0, 0.5][: len(sham.propose())])
    assert sham.ended == "solved"
    assert sham.best.text == sham.judged[2].text


@pytest.mark.parametrize("estimate", ["expected", "self-normalised"])
def test_losses_that_are_all_the_same_teach_nothing(tiny, estimate):
    """A rule that takes steps of a fixed length would go where rounding happens to point."""
    how = dataclasses.replace(HOW, estimate=estimate)
    search = search_on(tiny, how, larc.Descent(1.0, tries=1))
    before = search.episode.factors
    search.learn([0.7] * len(search.propose()))
    assert search.episode.factors is before
    assert (search.round, search.episode.step) == (1, 0)
    search.learn([0.7] * (len(search.propose()) - 1) + [0.6])
    assert search.episode.step == 1


def test_the_last_round_may_be_left_unlearned(tiny):
    """Everything that is written stays as it was."""
    outcomes = []
    for last in (True, False):
        search = search_on(tiny, dataclasses.replace(HOW, rounds=3, calls=12, learn_last=last))
        while not search.ended:
            search.learn(judge(search.propose()))
        outcomes.append(([one.text for one in search.judged], search.episode.step))
    assert outcomes[0][0] == outcomes[1][0]
    assert [step for _, step in outcomes] == [3, 2]
    search = search_on(tiny, dataclasses.replace(HOW, rounds=9, calls=8, learn_last=False))
    while not search.ended:
        search.learn(judge(search.propose()))
    assert search.episode.step == 1


@pytest.mark.parametrize(
    ("estimate", "earlier"), [("expected", ["a", "b"]), ("self-normalised", ["d", "c"])]
)
def test_the_pool_is_of_the_best_or_for_an_estimate_of_the_latest(
    tiny, monkeypatch, estimate, earlier
):
    search = search_on(tiny, dataclasses.replace(HOW, estimate=estimate, n=2, pool=4))
    learned = []
    host = search.episode.learner
    updating = host.update_many
    monkeypatch.setattr(host, "update_many", lambda p: learned.append(p) or updating(p))
    for pair, losses in (("ab", [0.1, 0.2]), ("cd", [0.9, 0.8]), ("ef", [0.5, 0.6])):
        search.awaiting = [Proposal(text, 2, -3.0, -3.0) for text in pair]
        search.learn(losses)
    assert list(learned[-1][0][1].candidates) == ["e", "f", *earlier]


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
        return varied(texts)

    return late


@pytest.mark.parametrize("estimate", ["expected", "self-normalised"])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("rule", [larc.SGD(1.0), larc.RMSprop(0.05)], ids=["sgd", "rmsprop"])
def test_a_stopped_search_resumes_to_the_same_bits(tiny, tmp_path, count, estimate, rule):
    how = dataclasses.replace(HOW, estimate=estimate, sham=True)
    whole = improve(search_on(tiny, how, rule), varied)
    file = tmp_path / "search"
    with pytest.raises(KeyboardInterrupt):
        improve(search_on(tiny, how, rule), stopped_after(count), checkpoint=file)
    resumed = improve(search_on(tiny, how, rule), varied, checkpoint=file)
    moments = [one.episode.extras.moments for one in (whole, resumed)]
    assert moments[0].keys() == moments[1].keys()
    assert all(torch.equal(moments[0][name], moments[1][name]) for name in moments[0])
    assert bool(moments[0]) == isinstance(rule, larc.RMSprop)
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


def test_an_update_that_fails_leaves_what_a_rule_remembers(tiny, monkeypatch):
    """Of several steps the first may have been taken."""
    how = dataclasses.replace(HOW, steps=2)
    search = search_on(tiny, how, larc.RMSprop(0.05))
    search.learn(judge(search.propose()))
    texts = search.propose()
    before = (search.episode.factors, search.episode.extras, search.episode.step)
    host, taken = search.episode.learner, []
    updating = host.update_many

    def failing(pairs):
        if taken:
            raise LarcError("not finite")
        taken.append(pairs)
        return updating(pairs)

    monkeypatch.setattr(host, "update_many", failing)
    with pytest.raises(LarcError, match="not finite"):
        search.learn(judge(texts))
    assert (search.episode.factors, search.episode.extras, search.episode.step) == before


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
        ({"estimate": "self-normalised", "temperature": 1.5}, "drawn at temperature 1"),
        ({"estimate": "policy-gradient", "pool": 0, "temperature": 0.5}, "drawn at temperature 1"),
        ({"n": 0}, "n is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, sentence):
    with pytest.raises(LarcError, match=sentence):
        dataclasses.replace(HOW, **changed)


@pytest.mark.parametrize("estimate", ["self-normalised", "policy-gradient"])
def test_an_estimate_is_refused_where_it_would_be_of_something_else(tiny, estimate):
    how = dataclasses.replace(HOW, estimate=estimate, pool=0)
    with pytest.raises(LarcError, match="without a grammar"):
        learner(tiny).begin().improvement(PROMPT, how, grammar=LIST)
    with pytest.raises(LarcError, match="rule without offsets"):
        learner(tiny, larc.SGD(1.0, offset_size=0.1)).begin().improvement(PROMPT, how)
    for normalise in ("sum", "prior"):
        slow = dataclasses.replace(start(tiny), normalise=normalise)
        with pytest.raises(LarcError, match="normalised by the mean"):
            larc.Learner(tiny, slow).begin().improvement(PROMPT, how)


def test_positions_are_those_of_all_draws_and_updates(tiny):
    """As the ledger counts them: what was refused or became too long among them."""
    tiny.ledger.clear()
    how = dataclasses.replace(HOW, rounds=3, pool=4)
    # Of few short texts, so that many draws are refused.
    search = learner(tiny).begin(5).improvement(PROMPT, how, grammar=list("abcdefghijkl"))
    while not search.ended:
        search.learn([0.1 * (1 + ord(text) % 7) for text in search.propose()])
    rows = [row for row in tiny.ledger.as_rows() if row["kind"] == "mixer"]
    drawn = sum(row["effective"] for row in rows if row["operation"] == "propose")
    assert search.positions == sum(row["effective"] for row in rows)
    prompt = search.episode.learner.prompt_length(PROMPT)
    assert drawn > 3 * prompt + len(search.judged)  # some were refused


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
