"""Steps that fit: learned sizes, slowing, the pull to the slow state, moments, private offsets."""

import dataclasses

import numpy as np
import pytest
import torch

import larc
from larc.rules import parse_rule, rule_text
from larc.state import SlowState
from larc.stream import Ask
from larc.training.stack import SLOWING, STEP, STEP_B
from larc.training.streams import StreamSettings, StreamTrainer
from larc.training.tasks import Trainer, TrainingSettings
from tests.questions import small_tasks, start
from tests.training.test_streams import KINDS, replayed, stream

RULE = larc.SGD(0.4, step_size_b=0.3, slowing=0.25, decay=0.2)


def loss_with(tiny, slow, windows, rule):
    """The loss alone, of a rule with other steps."""
    settings = StreamSettings(rule=rule)
    return StreamTrainer(tiny, slow, windows, settings).gradient_through(windows)[0]


def test_gradients_at_the_steps_are_those_of_the_loss(tiny):
    """Finite differences of the exact objective, one step at a time."""
    windows, slow = [stream(0), stream(1, 7)], start(tiny)
    settings = StreamSettings(gradient="exact", rule=RULE, step_rate=0.1)
    _, gradient = StreamTrainer(tiny, slow, windows, settings).gradient_through(windows)
    assert set(gradient.steps) == {STEP, STEP_B, SLOWING}
    by = 0.05

    def difference(more, less):
        return loss_with(tiny, slow, windows, more) - loss_with(tiny, slow, windows, less)

    changed = {
        STEP: [dataclasses.replace(RULE, step_size=0.4 * float(np.exp(s))) for s in (by, -by)],
        STEP_B: [dataclasses.replace(RULE, step_size_b=0.3 * float(np.exp(s))) for s in (by, -by)],
        SLOWING: [dataclasses.replace(RULE, slowing=0.25 + s) for s in (by, -by)],
    }
    for name, (more, less) in changed.items():
        # Losses round by 1e-6, and that is divided by 0.1; the rest is the third order.
        expected = difference(more, less) / (2 * by)
        assert gradient.steps[name] == pytest.approx(expected, rel=0.03, abs=2e-5), name


def test_the_exact_gradient_goes_through_slowing_and_the_pull_to_the_slow_state(tiny):
    windows, slow = [stream(0), stream(1, 7)], start(tiny)
    settings = StreamSettings(gradient="exact", rule=RULE)
    _, gradient = StreamTrainer(tiny, slow, windows, settings).gradient_through(windows)
    size, by = float(gradient.norm()), 2e-2

    def loss(step):
        factors = slow.factors.combine(gradient, lambda v, g: v + step / size * g)
        return loss_with(tiny, dataclasses.replace(slow, factors=factors), windows, RULE)

    assert (loss(by) - loss(-by)) / (2 * by) == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("rule", [larc.SGD(0.05), larc.Descent(0.05), larc.RMSprop(0.001)])
def test_steps_that_are_too_small_grow_and_are_part_of_the_state(tiny, tmp_path, rule):
    def habit(number):
        return [dataclasses.replace(item, label=number % 3) for item in stream(number, 16)]

    streams = [habit(n) for n in range(3)]

    def train(updates, **more):
        return larc.train_streams(
            tiny, streams, rule=rule, step_rate=0.2, window=16, updates=updates, seed=1, **more
        )

    slow = train(6)
    learned = larc.Learner(tiny, slow).rule  # what it was trained for is what it is read with
    assert type(learned) is type(rule)
    size = "length" if isinstance(rule, larc.Descent) else "step_size"
    assert getattr(learned, size) > getattr(rule, size)
    assert rule_text(learned) == slow.rule
    again = SlowState.from_bytes(slow.to_bytes())
    assert (again.rule, again.digest) == (slow.rule, slow.digest)
    assert dataclasses.replace(slow, rule="").digest != slow.digest
    train(2, checkpoint=tmp_path / "training")
    assert train(6, checkpoint=tmp_path / "training").to_bytes() == slow.to_bytes()
    # A further training goes on from the steps that were learned.
    further = larc.train_streams(
        tiny, streams, rule=rule, step_rate=1e-9, window=16, updates=1, seed=1, slow=slow
    )
    assert getattr(parse_rule(further.rule), size) == pytest.approx(getattr(learned, size))


def test_a_learned_rule_of_a_file_names_no_code(tiny):
    slow = dataclasses.replace(larc.SlowState.initial(tiny, seed=1), rule="os:system:1")
    with pytest.raises(larc.LarcError, match="damaged or foreign"):
        SlowState.from_bytes(slow.to_bytes())


@pytest.mark.parametrize(
    "rule",
    [
        larc.SGD(0.5),
        larc.SGD(0.5, step_size_b=0.2),
        larc.SGD(0.5, step_size_b=0.2, slowing=0.5, decay=0.3),
        larc.Descent(0.3),
    ],
)
def test_exact_training_across_tasks_learns_its_steps_too(tiny, rule):
    tasks, slow = small_tasks(2), start(tiny)
    sizes = {STEP: "length" if isinstance(rule, larc.Descent) else "step_size"}
    if getattr(rule, "step_size_b", None) is not None:
        sizes[STEP_B] = "step_size_b"

    def made(size="", by=1.0, objective="exact"):
        changed = dataclasses.replace(rule, **({size: by * getattr(rule, size)} if size else {}))
        settings = TrainingSettings(objective, rule=changed, step_rate=0.1)
        return Trainer(tiny, slow, tasks, settings)._outer_gradient(tasks)

    shares = made()[1].steps
    assert set(shares) == set(made(objective="adapted")[1].steps) == set(sizes)
    by = 0.05
    for step, size in sizes.items():
        more, less = (made(size, float(np.exp(s)))[0] for s in (by, -by))
        # Losses round by 1e-6, and that is divided by 0.1; the rest is the third order.
        assert shares[step] == pytest.approx((more - less) / (2 * by), rel=0.02, abs=2e-5), step
    trained = larc.train(
        tiny, tasks, objective="exact", rule=rule, step_rate=0.1, updates=2, seed=1
    )
    learned = larc.Learner(tiny, trained).rule
    assert all(getattr(learned, size) != getattr(rule, size) for size in sizes.values())


@dataclasses.dataclass(frozen=True, repr=False)
class Own(larc.SGD):
    """A rule that a file of a state could not name."""


@pytest.mark.parametrize("train", [larc.train, larc.train_streams])
def test_steps_of_a_rule_of_ones_own_are_not_learned(tiny, train):
    given = small_tasks(2) if train is larc.train else [stream(0)]
    with pytest.raises(larc.LarcError, match="no rule of this package"):
        train(tiny, given, rule=Own(0.1), step_rate=0.1, updates=1, seed=1)


def test_the_length_of_descent_is_learned_across_tasks(tiny):
    tasks = [dataclasses.replace(task, query=task.support) for task in small_tasks()]
    slow = larc.train(tiny, tasks, rule=larc.Descent(0.01), step_rate=0.2, updates=3, seed=1)
    assert larc.Learner(tiny, slow).rule.length > 0.01


# Rules in use ------------------------------------------------------------------------------------


def test_slowing_and_decay_by_hand(tiny):
    slow = start(tiny)
    rule = larc.SGD(0.5, step_size_b=0.25, slowing=0.5, decay=0.1)
    episode = larc.Learner(tiny, slow, rule).begin()
    label = larc.Label("a: ", KINDS, 1)
    for step in range(3):
        before = episode.factors
        plain = larc.Learner(tiny, slow, larc.SGD(1.0)).begin()
        plain.factors = before
        plain.update(label)
        slope = before.combine(plain.factors, torch.sub)
        episode.update(label)
        share = (1 + step) ** -0.5
        for name, size in (("A", 0.5), ("B", 0.25)):
            there = getattr(before, name) - size * share * getattr(slope, name)
            home = getattr(slow.factors, name)
            torch.testing.assert_close(
                getattr(episode.factors, name), home + (there - home) / 1.1, atol=1e-6, rtol=1e-4
            )


def test_moments_are_private_saved_and_reset(tiny, tmp_path):
    learner = larc.Learner(tiny, start(tiny), larc.RMSprop(0.01))
    one, other = learner.begin(), learner.begin()
    labels = [larc.Label(f"{letter}: ", KINDS, n) for n, letter in enumerate("abc")]
    one.update(labels[0])
    # The first step divides a gradient by itself: every entry that matters moves by the step size.
    moved = one.factors.combine(one.slow.factors, torch.sub).A.abs()
    assert float(moved.max()) == pytest.approx(0.01, rel=0.1)
    learner.update_many([(one, labels[1]), (other, labels[1])])  # one has moments, one has none
    alone = learner.begin()
    alone.update(labels[1])
    torch.testing.assert_close(alone.factors.A, other.factors.A, atol=1e-6, rtol=1e-4)
    one.save(tmp_path / "episode")
    again = learner.resume(tmp_path / "episode")
    for episode in (one, again):
        episode.update(labels[2])
    assert one.factors.equal(again.factors)
    one.forget()
    assert one.extras.moments == {}


def test_private_offsets_learn_the_same_feedback_and_go_with_the_state(tiny, tmp_path):
    slow, size = start(tiny), 0.5
    learner = larc.Learner(tiny, slow, larc.SGD(1e-9, offset_size=size))
    episode = learner.begin()
    before = episode.read("a: ", KINDS)
    episode.update([larc.Label("a: ", KINDS, 1)])
    slope = before.clone()
    slope[1] -= 1
    offsets = [episode.extras.offsets[text] for text in KINDS]
    np.testing.assert_allclose(offsets, (-size * slope).tolist(), atol=1e-6)
    expected = (before.log() + torch.tensor(offsets)).softmax(-1)
    torch.testing.assert_close(episode.read("a: ", KINDS), expected, atol=1e-5, rtol=1e-4)
    # By text: another question that shares a candidate shares its bias, others have none.
    fresh = learner.begin()
    other = (fresh.read("b: ", ("fault", "x")).log() + torch.tensor([offsets[1], 0.0])).softmax(-1)
    torch.testing.assert_close(episode.read("b: ", ("fault", "x")), other, atol=1e-5, rtol=1e-4)
    # The next step is taken at what is said with the offsets.
    episode.update(larc.CandidateLosses("a: ", KINDS, [0.0, 1.0, 0.5]))
    losses = torch.tensor([0.0, 1.0, 0.5])
    slope = expected * (losses - expected @ losses)
    np.testing.assert_allclose(
        [episode.extras.offsets[text] for text in KINDS],
        np.array(offsets) - size * slope.numpy(),
        atol=1e-5,
    )
    episode.save(tmp_path / "episode")
    assert learner.resume(tmp_path / "episode").extras.offsets == episode.extras.offsets
    episode.reset()
    torch.testing.assert_close(episode.read("a: ", KINDS), before)


@pytest.mark.parametrize("rule", [larc.SGD(0.3, offset_size=0.3), larc.RMSprop(0.01, decay=0.1)])
def test_a_session_saves_them_and_the_training_walks_as_it_does(tiny, tmp_path, rule):
    slow, items = start(tiny), stream(0)
    losses, restored = [], None

    def session():
        return larc.Session(larc.Learner(tiny, slow, rule), [larc.Strategy("keep")], seed=1)

    one = session()
    for event in replayed(items):
        if isinstance(event, Ask):
            said = one.ask([item.question for item in event.items])["keep"]
            losses += [-np.log(p[i.label]) for p, i in zip(said, event.items, strict=True)]
        else:
            one.learn({item.name: item.label for item in event.items})
            one.save(tmp_path / "session")
            restored = session()
            restored.restore(tmp_path / "session")
            assert restored.episodes["keep"].extras.offsets == one.episodes["keep"].extras.offsets
            one = restored  # and go on with that one
    value, _ = StreamTrainer(tiny, slow, [items], StreamSettings(rule=rule)).gradient_through(
        [items]
    )
    assert value == pytest.approx(np.mean(losses), abs=1e-5)


def test_evaluation_and_training_across_tasks_take_them_too(tiny):
    tasks = small_tasks(4)
    rule = larc.SGD(0.5, decay=0.1, offset_size=0.5)
    slow = larc.train(tiny, tasks, rule=rule, updates=2, seed=1)
    report = larc.evaluate(tiny, slow, tasks, rule=rule, seed=1, resamples=100)
    plain = larc.evaluate(tiny, slow, tasks, rule=larc.SGD(0.5), seed=1, resamples=100)
    assert report.risk["real_keep"] != plain.risk["real_keep"]
    assert report.risk["real_reset"] == plain.risk["real_reset"]
    # What training says its loss is, is what a read after the same steps says.
    trainer = Trainer(tiny, slow, tasks, TrainingSettings("adapted", batch=4, rule=rule))
    loss, _ = trainer._outer_gradient(tasks)
    assert loss == pytest.approx(
        np.mean([p @ t.query for p, t in zip(report.predictions.real_keep, tasks, strict=True)]),
        abs=1e-5,
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: larc.SGD(0.1, decay=-1), "decay is -1"),
        (lambda: larc.SGD(0.1, step_size_b=0), "step size of B is 0"),
        (lambda: larc.SGD(0.1, slowing=float("nan")), "slowing is nan"),
        (lambda: larc.RMSprop(0.1, beta=1), "beta is 1"),
        (lambda: StreamSettings(gradient="exact", rule=larc.RMSprop()), "moments of RMSprop"),
        (lambda: StreamSettings(step_rate=2), "step rate 2"),
        (lambda: TrainingSettings("exact", rule=larc.SGD(offset_size=1)), "private offsets"),
    ],
)
def test_what_cannot_be_is_refused(make, reason):
    with pytest.raises(larc.LarcError, match=reason):
        make()


def test_a_rule_at_its_defaults_is_saved_as_ever():
    from larc.rules import rule_facts

    assert rule_facts(larc.SGD(0.1)) == {"name": "SGD", "step_size": 0.1}
    assert parse_rule("sgd:0.1:decay=0.5:offset_size=1.0") == larc.SGD(
        0.1, decay=0.5, offset_size=1
    )
    assert parse_rule(rule_text(RULE)) == RULE
