"""Experts for text: what they say, what is private, and exact files of both parts."""

import dataclasses

import numpy as np
import pytest

import larc
from larc import experts
from larc.domains.ci.experts import Arrival, Hedge4, HedgeSettings
from larc.domains.ci.features import FeatureHasher
from larc.domains.ci.jobs import LABELS, Observation
from larc.experts.base import replayed_loss
from larc.experts.logistic import SLOW_FITS
from larc.stream.question import Labelled, Question

KINDS = ("billing", "fault", "praise")
WORDS = (
    ("invoice", "charged", "refund", "money"),
    ("broken", "dark", "crash", "stuck"),
    ("thanks", "great", "love", "perfect"),
)


def stream(number, count=40, shift=0, delay=2.5):
    """Texts whose words tell the kind; a stream with a shift has a convention of its own."""
    draw = np.random.default_rng([7, number])
    items = []
    for n in range(count):
        kind = int(draw.choice(3, p=[0.6, 0.3, 0.1]))
        text = " ".join(["the", str(draw.choice(WORDS[kind])), "lamp", str(draw.choice(99))])
        items.append(
            larc.Recorded(
                Question(f"{number}-{n:03}", KINDS, prompt=text),
                asked=float(n),
                arrives=n + delay,
                label=(kind + shift) % 3,
                stream=str(number),
            )
        )
    return items


TRAINING = [stream(n) for n in range(6)]


def pooled(substrate):
    return experts.PooledFeatures(substrate, boundary=2)


def every(substrate):
    return [
        experts.LabelFrequencies(),
        experts.LastLabel(),
        experts.WordLogistic(size=512),
        experts.FeatureReadout(pooled(substrate)),
        experts.NearestCases(pooled(substrate), cases=64),
    ]


KIND_NAMES = ("FREQUENCIES", "LAST", "WORDS", "READOUT", "NEAREST")


@pytest.mark.parametrize("index", range(5), ids=KIND_NAMES)
def test_both_parts_are_saved_and_restored_exactly(tiny, tmp_path, index):
    expert = every(tiny)[index].fit(TRAINING)
    assert expert.names == (KIND_NAMES[index],)
    live = stream(8, shift=1)
    for item in live[:12]:
        expert.ask([item.question])
        expert.learn([Labelled(item.question, item.label)])
    expert.ask([item.question for item in live[12:14]])
    expert.save(tmp_path / "expert")
    other = experts.load_expert(tmp_path / "expert", every(tiny)[index])
    for one in (expert, other):  # they go on alike, to the last bit
        one.learn([Labelled(item.question, item.label) for item in live[12:16]])
    rest = [item.question for item in live[16:]]
    assert expert.ask(rest) == other.ask(rest)
    assert other.state() == expert.state()
    assert other.slow() == expert.slow()
    # A private part by itself, as a controller saves it.
    third = expert.begin()
    third.restore(expert.state())
    assert third.ask(rest) == expert.ask(rest)


@pytest.mark.parametrize("index", range(5), ids=KIND_NAMES)
def test_what_one_stream_teaches_is_private(tiny, index):
    expert = every(tiny)[index].fit(TRAINING)
    asked = [item.question for item in stream(8)[:5]]
    before = expert.begin().ask(asked)
    taught = expert.begin()
    for item in stream(9, shift=1)[:20]:
        taught.learn([Labelled(item.question, item.label)])
    assert taught.ask(asked) != before
    assert expert.begin().ask(asked) == before
    assert expert.ask(asked) == before
    taught.forget()
    assert taught.ask(asked) == before


@pytest.mark.parametrize("index", range(5), ids=KIND_NAMES)
def test_answers_are_probabilities_and_reading_changes_nothing(tiny, index):
    expert = every(tiny)[index]
    asked = [item.question for item in stream(8)[:5]]
    first = expert.ask(asked)[KIND_NAMES[index]]
    np.testing.assert_allclose(np.sum(first, axis=1), 1)
    expert.ask([Question("x", ("other", "words"), prompt="never seen")])
    assert expert.ask(asked)[KIND_NAMES[index]] == first


def test_a_slow_part_is_worth_something_on_other_streams(tiny):
    held = [stream(n) for n in (10, 11)]
    uniform = 1 / 3
    words = experts.WordLogistic(size=512, rate=0.0, bias_rate=0.0)
    assert replayed_loss(words, held) == pytest.approx(uniform)
    assert replayed_loss(words.fit(TRAINING), held) < 0.5 * uniform
    frequencies = experts.LabelFrequencies().fit(TRAINING)
    assert replayed_loss(frequencies, held) < replayed_loss(experts.LabelFrequencies(), held)
    assert experts.LastLabel().fit(TRAINING).trust < 0.6  # labels are drawn independently


def test_private_words_learn_a_convention_of_their_own(tiny):
    """Streams whose labels are shifted: what training streams taught is wrong there."""
    held = [stream(n, count=120, shift=1) for n in (10, 11)]
    fitted = experts.WordLogistic(size=512).fit(TRAINING)
    fitted.bias_rate, fitted.rate = 0.2, 3.0
    kept = replayed_loss(fitted, held)
    fitted.bias_rate = fitted.rate = 0.0
    assert kept < 0.6 * replayed_loss(fitted, held)


def test_steps_are_chosen_by_training_streams_that_differ():
    draw = np.random.default_rng(5)
    noise = [
        [dataclasses.replace(item, label=int(draw.integers(3))) for item in items]
        for items in TRAINING
    ]
    alike = experts.WordLogistic(size=512).fit(noise)
    differ = experts.WordLogistic(size=512).fit([stream(n, 80, shift=n % 3) for n in range(6)])
    assert differ.rate > alike.rate


def test_labels_that_no_word_tells_are_fitted_gently(tiny):
    """Where training labels are drawn at random, other such labels are not expected surely."""
    draw = np.random.default_rng(6)

    def noise(number):
        return [dataclasses.replace(i, label=int(draw.integers(3))) for i in stream(number)]

    expert = experts.WordLogistic(size=512).fit([noise(n) for n in range(6)])
    expert.bias_rate = expert.rate = 0.0
    assert expert.slow_fit[0] == min(rate for rate, *_ in SLOW_FITS)
    assert replayed_loss(expert, [noise(n) for n in (10, 11)]) < 1.1 / 3


def test_a_horizon_says_how_many_questions_of_a_stream_settings_are_chosen_on():
    """The first labels are the stream's own; later ones are drawn at random."""
    draw = np.random.default_rng(6)
    late = [
        [i if n < 20 else dataclasses.replace(i, label=int(draw.integers(3))) for n, i in pairs]
        for pairs in (list(enumerate(stream(k, 80, shift=k % 3))) for k in range(6))
    ]
    fits = [experts.WordLogistic(size=512).fit(late, horizon) for horizon in (20, 0)]
    assert fits[0].rate > fits[1].rate


def test_the_name_of_a_candidate_counts_where_no_training_stream_had_it():
    def scoped(number, names):
        draw = np.random.default_rng(number)
        return [
            larc.Recorded(
                Question(f"{number}-{n}", names, prompt=f"fix {names[label]} of it {n}"),
                asked=n,
                arrives=n + 0.5,
                label=label,
            )
            for n, label in enumerate(draw.integers(len(names), size=20))
        ]

    training = [scoped(n, (f"parser{n}", f"docs{n}", f"api{n}")) for n in range(4)]
    held = [scoped(9, ("core", "tests", "build"))]
    expert = experts.WordLogistic(size=512, bias_rate=0, rate=0).fit(training)
    expert.bias_rate = expert.rate = 0.0
    assert expert.match_weight > 1
    assert replayed_loss(expert, held) < 0.5 / 3


def test_an_expert_stands_on_a_state(tiny, tmp_path):
    """Logits add up: the state's log-probabilities, a private bias and private words."""
    slow = larc.SlowState.initial(tiny, seed=1)
    episode = larc.Learner(tiny, slow, larc.SGD(1.0)).begin()
    expert = experts.WordLogistic("ON", on=experts.reading(episode), bias_rate=0.5, rate=1.0)
    one, two, three = (item.question for item in stream(8)[:3])
    said = expert.ask([one, two])["ON"]
    state = [episode.read(q.prompt, q.candidates).double().numpy() for q in (one, two)]
    np.testing.assert_allclose(said, state, atol=1e-9)
    # The state moves on; what the label of an earlier question teaches is from what was said then.
    episode.update(larc.Label(one.prompt, one.candidates, 2))
    expert.learn([Labelled(one, 1)])
    slope = -state[0]
    slope[1] += 1
    shared = set(expert.features(one)[0]) & set(expert.features(three)[0])
    values = expert.features(one)[1][0] * expert.features(three)[1][0] * len(shared)
    logits = np.log(episode.read(three.prompt, three.candidates).double().numpy())
    logits += (0.5 + values) * slope
    np.testing.assert_allclose(
        expert.ask([three])["ON"][0], np.exp(logits) / np.exp(logits).sum(), atol=1e-6
    )
    # What it stood on for a question without a label is part of the private part.
    expert.save(tmp_path / "on")
    other = experts.WordLogistic("ON", on=experts.reading(episode), bias_rate=0.5, rate=1.0)
    other.load(tmp_path / "on")
    episode.update(larc.Label(two.prompt, two.candidates, 0))
    for each in (expert, other):
        each.learn([Labelled(two, 0)])
    assert expert.ask([one]) == other.ask([one])
    with pytest.raises(larc.LarcError, match="no slow part"):
        expert.fit(TRAINING)


def test_features_cost_no_model_time_where_a_state_has_read_the_question():
    substrate = larc.load_substrate("tiny")
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1, boundary=2))
    asked = [item.question for item in stream(8)[:6]]
    learner.read_many([(learner.begin(), q.prompt, q.candidates) for q in asked])
    substrate.ledger.clear()
    experts.FeatureReadout(pooled(substrate)).ask(asked)
    experts.NearestCases(pooled(substrate)).ask(asked)
    assert substrate.ledger.entries == {}


def test_hedge4s_experts_are_their_case_of_continuous_integration():
    """Smoothed frequencies of one workflow, the last label of one job, hashed logistic."""
    hedge = Hedge4(HedgeSettings(decay=0.0))
    hasher = FeatureHasher(1024)

    def extract(question):
        indices = hasher.indices(question.source)
        return indices, np.full(len(indices), 1 / np.sqrt(len(indices)))

    frequencies, last = experts.LabelFrequencies(), experts.LastLabel(trust=0.7)
    logistic = experts.Logistic(extract, 1024, bias_rate=0.0, rate=0.1)
    draw = np.random.default_rng(3)
    for number in range(40):
        seen = Observation("o/r", 5, None, "push", "build", f"c{number % 4}", 3600 * number)
        question = Question(str(number), LABELS, source=seen)
        forecast = hedge.predict(seen)
        ours = [expert.probabilities([question])[0] for expert in (frequencies, last, logistic)]
        np.testing.assert_allclose(ours[0], forecast.experts[0], atol=1e-12)
        if number:  # before any label HEDGE4's last is its prior
            np.testing.assert_allclose(ours[1], forecast.experts[1], atol=1e-12)
        np.testing.assert_allclose(ours[2], forecast.experts[3], atol=1e-12)
        label = int(draw.integers(4))
        hedge.update([Arrival(seen, forecast, label)])
        for expert in (frequencies, last, logistic):
            expert.learn([Labelled(question, label)])


def test_a_controller_takes_them_and_goes_on_from_its_file(tiny, tmp_path):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1, boundary=2))
    fitted = [expert.fit(TRAINING) for expert in every(tiny)]

    def controller():
        session = larc.Session(learner, [larc.Strategy("keep")], seed=1)
        beginners = [expert.begin() for expert in fitted]
        standing = experts.WordLogistic("ON", on=experts.reading(session.episodes["keep"]))
        return larc.Controller(session, [*beginners, standing])

    one, live = controller(), stream(8)
    for item in live[:6]:
        one.ask([item.question])
        one.learn({item.question.name: item.label})
    one.ask([live[6].question])
    one.save(tmp_path / "controller")
    other = controller()
    other.restore(tmp_path / "controller")
    for each in (one, other):
        each.learn({live[6].question.name: live[6].label})
    said = [each.ask([live[7].question])[0].said for each in (one, other)]
    assert set(said[0]) == {"keep", *KIND_NAMES, "ON"}
    for name in said[0]:
        np.testing.assert_array_equal(said[0][name], said[1][name])


def test_what_is_wrong_is_refused(tiny, tmp_path):
    with pytest.raises(larc.LarcError, match="fitted on streams"):
        experts.LabelFrequencies().fit([])
    with pytest.raises(larc.LarcError, match="fitted on streams"):
        experts.WordLogistic().fit([["text"]])
    with pytest.raises(larc.LarcError, match="trust 1"):
        experts.LastLabel(trust=1.5)
    with pytest.raises(larc.LarcError, match="strength 0"):
        experts.LabelFrequencies(strength=0)
    with pytest.raises(larc.LarcError, match="above 0"):
        experts.WordLogistic(size=0)
    with pytest.raises(larc.LarcError, match="width is above 0"):
        experts.NearestCases(pooled(tiny), width=0)
    experts.LastLabel().save(tmp_path / "last")
    with pytest.raises(larc.LarcError, match="other settings"):
        experts.LabelFrequencies().load(tmp_path / "last")
    words = experts.WordLogistic(size=64)
    words.save(tmp_path / "words")
    with pytest.raises(larc.LarcError, match="other settings"):
        experts.WordLogistic(size=128).load(tmp_path / "words")


def test_a_stream_in_any_order_is_fitted_alike():
    mixed = [[dataclasses.replace(item) for item in reversed(items)] for items in TRAINING]
    assert experts.LastLabel().fit(mixed).trust == experts.LastLabel().fit(TRAINING).trust


def test_the_oldest_case_goes_first_also_after_a_restore(tiny):
    features = pooled(tiny)
    expert = experts.NearestCases(features, cases=5)
    taught = [item for number in range(3) for item in stream(number)][:17]
    for item in taught:
        expert.learn([Labelled(item.question, item.right)])
    other = experts.NearestCases(features, cases=5)
    other.restore(expert.state())
    for item in stream(4)[:3]:  # both go on, past the end of what they hold
        for one in (expert, other):
            one.learn([Labelled(item.question, item.right)])
    question = stream(5)[3].question
    assert expert.ask([question]) == other.ask([question])
    # By its definition: the last five cases by their nearness, beside the labels' frequencies.
    frequencies = experts.LabelFrequencies()
    weights = dict.fromkeys(question.candidates, 0.0)
    learned = [*taught, *stream(4)[:3]]
    for item in learned:
        frequencies.learn([Labelled(item.question, item.right)])
    for item in learned[-5:]:
        similarity = float(features(question) @ features(item.question))
        weights[item.question.candidates[item.right]] += np.exp((similarity - 1) / expert.width)
    expected = frequencies.probabilities([question])[0] + list(weights.values())
    # Similarities are kept in float32 and divided by a width of 0.2.
    np.testing.assert_allclose(
        expert.ask([question])["NEAREST"][0], expected / expected.sum(), atol=1e-5
    )


def test_a_dense_model_is_the_sparse_one(tiny):
    dense = experts.FeatureReadout(pooled(tiny))
    sparse = experts.FeatureReadout(pooled(tiny))
    sparse.dense = False
    sparse.forget()
    for item in stream(8):
        answers = [one.ask([item.question])["READOUT"][0] for one in (dense, sparse)]
        # The same sums, in another order.
        np.testing.assert_allclose(*answers, rtol=1e-12)
        for one in (dense, sparse):
            one.learn([Labelled(item.question, item.right)])
