"""Players of streams: nothing is known early, and nobody depends on who is beside them."""

from dataclasses import replace
from functools import partial

import pytest
import torch

import larc
from larc.experts import WordLogistic
from larc.learner import Learner
from larc.progress import Display
from larc.rules import SGD
from larc.stream.question import Labelled, Question
from larc.studies.streams.cases import Cases
from larc.studies.streams.comparing import bare
from larc.studies.streams.lora import Adapters
from larc.studies.streams.players import ExpertPlayer, StatePlayer
from larc.studies.streams.settings import PRESETS
from larc.studies.streams.split import recorded
from larc.studies.streams.synthetic import synthetic_streams
from larc.studies.streams.units import short_enough
from larc.studies.streams.walking import walk
from larc.studies.streams.ways import Way

KEEPING = Way("static", rule="sgd:1.0")


def streams(delay="0", count=3, questions=8):
    settings = replace(PRESETS["smoke"], delay=delay)
    made = synthetic_streams(streams=count, questions=questions)
    return [recorded(items, settings) for items in made.values()]


def said(played, player, **chosen):
    rows = walk(played, player, Display(silent=True), "unit")
    return {
        (row["path"], row["stream"], row["number"]): row["policy"]
        for row in rows
        if all(row[key] == value for key, value in chosen.items())
    }


@pytest.fixture(scope="module")
def learner(tiny):
    return Learner(tiny, larc.SlowState.initial(tiny, seed=3, boundary=2), SGD(1.0))


def states(learner, played, way=KEEPING, **options):
    return StatePlayer(learner, way, "KEEP", played, seed=7, **options)


def with_cases(learner, played):
    cases = Cases(len(played), 2, lambda prompt: True)
    return states(learner, played, replace(KEEPING, cases=True), cases=cases)


def words(learner, played):
    return ExpertPlayer(WordLogistic(size=256, rate=1.0).begin, played)


@pytest.mark.parametrize("make", [states, with_cases, words])
@pytest.mark.parametrize(("delay", "later"), [("0", 4), ("2", 6)])
def test_no_answer_depends_on_a_label_that_has_not_arrived(learner, make, delay, later):
    one = streams(delay)
    changed = replace(one[0][3], label=(one[0][3].label + 1) % 3)
    other = [(*one[0][:3], changed, *one[0][4:]), *one[1:]]
    before, after = (said(played, make(learner, played)) for played in (one, other))
    # Longer cases of one stream make another batch, in which the others round differently.
    differing = {k for k in before if before[k] != pytest.approx(after[k], abs=1e-5, rel=0)}
    assert {number for _, _, number in differing} == set(range(later, 8))
    assert {stream for _, stream, _ in differing} == {one[0][0].stream}


@pytest.mark.parametrize("way", [KEEPING, replace(KEEPING, sham=True)])
def test_streams_side_by_side_answer_as_they_do_alone(learner, way):
    played = streams(delay="1")
    together = said(played, states(learner, played, way, fork=True))
    alone = {}
    for stream in played:
        alone |= said([stream], states(learner, [stream], way, fork=True))
    assert together.keys() == alone.keys()
    for key, policy in together.items():
        # float32, in batches of other sizes
        assert policy == pytest.approx(alone[key], abs=2e-5)


def test_a_frozen_state_learns_no_more_and_a_new_one_knows_nothing(learner):
    played = streams(count=1)
    name = played[0][0].stream
    kept = said(played, states(learner, played, fork=True))
    reset = said(played, states(learner, played, replace(KEEPING, retention="reset", rule="")))
    half = said([played[0][4:]], states(learner, [played[0][4:]]))
    assert kept["KEEP FROZEN", name, 4] == pytest.approx(kept["KEEP", name, 4], abs=1e-6)
    assert kept["KEEP AGAIN", name, 4] == pytest.approx(reset["KEEP", name, 4], abs=1e-6)
    assert kept["KEEP FROZEN", name, 7] != pytest.approx(kept["KEEP", name, 7], abs=1e-4)
    for number in range(4, 8):  # a stream that begins in its middle
        assert kept["KEEP AGAIN", name, number] == pytest.approx(
            half["KEEP", name, number - 4], abs=1e-5
        )
    frozen = states(learner, played, fork=True)
    said(played, frozen)
    assert frozen.episodes["FROZEN", 0].step == 4


def test_cases_are_a_lane_s_own(learner):
    """From the middle on a new state shows new cases alone, and a frozen one those from before."""
    played = streams(count=1)
    name = played[0][0].stream
    way = replace(KEEPING, cases=True)

    def player(items):
        return states(learner, items, way, cases=Cases(1, 2, lambda prompt: True), fork=True)

    whole = player(played)
    kept = said(played, whole)
    half = said([played[0][4:]], player([played[0][4:]]))
    for number in range(4, 8):  # a stream that begins in its middle
        assert kept["KEEP AGAIN", name, number] == pytest.approx(
            half["KEEP", name, number - 4], abs=1e-5
        )
    shown = {lane: whole.cases[lane, 0].shown[0] for lane in ("", "FROZEN", "AGAIN")}
    told = [item.question.prompt + item.question.candidates[item.label] for item in played[0]]
    assert shown == {"": told[6:], "FROZEN": told[2:4], "AGAIN": told[6:]}


def test_lora_is_scored_as_states_are(tiny):
    """Adapters that are not trained yet change nothing: they read as the model does."""
    settings = PRESETS["smoke"]
    items = streams(count=1, questions=3)[0]
    for score in ("prior", "mean", "sum"):
        adapters = Adapters(settings, 1, 7, score)
        adapters.use(0)
        slow = larc.SlowState.initial(tiny, seed=3, normalise=score)
        episode = Learner(tiny, slow).begin()
        for item, scores in zip(items, adapters.scores(items), strict=True):
            expected = episode.read(item.question.prompt, item.question.candidates)
            # Above another boundary the same sums are made in another order.
            torch.testing.assert_close(scores.detach().softmax(-1), expected, atol=1e-5, rtol=0)


def test_latest_knows_the_latest_label_alone(learner):
    played = streams(count=1)
    name = played[0][0].stream
    latest = said(played, states(learner, played, replace(KEEPING, retention="latest")))
    episode = learner.begin()
    item, asked = played[0][5], played[0][6].question
    episode.update(larc.Label(item.question.prompt, item.question.candidates, item.label))
    expected = episode.read(asked.prompt, asked.candidates).tolist()
    assert latest["KEEP", name, 6] == pytest.approx(expected, abs=1e-5)


def test_an_expert_s_lanes_are_those_of_a_state():
    played = [bare(stream) for stream in streams(count=1)]
    name = played[0][0].stream
    player = ExpertPlayer(WordLogistic(size=256, rate=1.0).begin, played, fork=True)
    kept = said(played, player)
    assert kept["WORDS FROZEN", name, 4] == kept["WORDS", name, 4]
    assert kept["WORDS FROZEN", name, 7] != kept["WORDS", name, 7]
    assert kept["WORDS AGAIN", name, 4] == pytest.approx([1 / 3] * 3)


def test_what_is_asked_of_several_streams_is_one_batch(learner, tiny):
    played = streams(count=3)
    tiny.ledger.clear()
    said(played, states(learner, played))
    calls = {(row["operation"], row["kind"]): row["calls"] for row in tiny.ledger.as_rows()}
    assert calls["read", "mixer"] == 8
    assert calls["update", "mixer"] == 8


def test_control_tokens_in_cases_are_characters_and_count_as_such(tiny):
    """A prompt with cases is as long as what will be asked: a control token in it is seven."""
    settings = replace(PRESETS["smoke"], prompt_limit=40)
    fits = partial(short_enough, tiny, settings)
    cases = Cases(1, most=4, fits=fits)
    for name in "ab":
        labelled = Question(name, ("x<eos>", "y"), prompt="Text <eos><pad>: ")
        cases.learn(0, Labelled(labelled, 0))
    prompt = cases.prompt(0, Question("c", ("x<eos>", "y"), prompt="Text: "))
    assert prompt == "Text <eos><pad>: x<eos>\n\nText: "  # two cases would be 56 characters
    asked = larc.questions.ask(tiny, prompt, ["x<eos>", "y"], settings.limits)
    assert tiny.tokenizer.decode(asked.prompt) == prompt
    assert not {0, 1} & {*asked.prompt, *asked.candidates[0][:-1]}
    # With control tokens read as such, both would seem to fit.
    both = "\n\n".join(["Text <eos><pad>: x<eos>"] * 2 + ["Text: "])
    assert len(tiny.tokenizer(both)["input_ids"]) <= 40 < len(both)
